"""`eagle3gen explain`."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagle3gen.cli import rendering
from eagle3gen.errors import InputError

if TYPE_CHECKING:
    from eagle3gen.records import Completion


@click.command()
@click.argument("file")
@click.option(
    "--status", type=click.IntRange(100, 599), default=200, show_default=True, help="HTTP status it came with."
)
@click.option("--content-type", default="", help="Content type it came with; the body itself is believed first.")
@click.option("--tokenizer", help="Folder of the target's tokenizer: also rebuild and judge the ids.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def explain(file: str, status: int, content_type: str, tokenizer: str | None, as_json: bool) -> None:
    """Say what the client makes of a stored response body.

    FILE is a body as it was received, plain or streamed; - reads it from stdin. Nothing is sent anywhere.
    """
    from eagle3gen.endpoint.explaining import explain as explained
    from eagle3gen.endpoint.reply import read_reply

    reply = read_reply(status, {"content-type": content_type} if content_type else {}, _body(file))
    found = explained(reply)
    if tokenizer is not None and reply.completion is not None:
        found |= _judged(tokenizer, reply.completion)
    if as_json:
        rendering.print_json(found)
        return
    width = max(map(len, found)) + 2
    for name, value in found.items():
        click.echo(f"{name:{width}}{_shown(value)}")


def _body(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror or error}; give a file with a response body") from error


def _judged(tokenizer: str, completion: "Completion") -> dict[str, Any]:
    """The ids and their verdict, as far as they can be judged without the prompt."""
    from eagle3gen.tokens.judge import make_sample
    from eagle3gen.tokens.loading import load_tokenizer

    # The prompt is not at hand, so nothing is said on how many tokens it was billed for.
    completion = replace(completion, usage=replace(completion.usage, prompt_tokens=None))
    sample = make_sample(load_tokenizer(tokenizer), [], (), completion, prompt_ids=())
    return {
        "verdict": sample.verdict.value,
        "output_ids": len(sample.output_ids),
        "difference": sample.difference,
        "reason": sample.reason,
    }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
