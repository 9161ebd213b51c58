"""`eagle3gen simulate`: an OpenRouter on loopback."""

from pathlib import Path
from typing import Any

import click

from eagle3gen.cli import rendering
from eagle3gen.errors import ConfigurationError

SHARE = click.FloatRange(0, 1)


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default="a free one")
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed and requests, same answers.")
@click.option("--latency", type=click.FloatRange(0), default=2.0, show_default=True, help="Mean seconds per answer.")
@click.option("--latency-spread", type=SHARE, default=0.3, show_default=True, help="A call takes so much more or less.")
@click.option("--mean-tokens", type=click.IntRange(8), default=600, show_default=True, help="Mean answer length.")
@click.option("--spread", type=click.FloatRange(0, 2), default=0.75, show_default=True, help="Sigma of the lengths.")
@click.option("--truth", type=click.Path(path_type=Path, dir_okay=False), help="Write the true ids here.")
@click.option("--tokenizer", default="builtin:kimi-mini", show_default=True, help="A folder, or the builtin one.")
@click.option("--tool-share", type=SHARE, default=0.6, show_default=True, help="Chance to call tools that were sent.")
@click.option("--fail-share", type=SHARE, default=0.0, show_default=True, help="Share of passing errors.")
@click.option("--api-key", help="Refuse every other key.")
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
def simulate(until_stdin_closes: bool, latency: float, truth: Path | None, tokenizer: str, **knobs: Any) -> None:
    """Serve a faithful OpenRouter on loopback, with a bill of its own.

    Prints one JSON line with its url when ready. GET /_sim/bill tells what it charged; --truth records the token
    ids that it really emitted, one JSON line per answered call.
    """
    from eagle3gen.simulator.options import Options
    from eagle3gen.simulator.server import main
    from eagle3gen.tokens.loading import folder_of

    folder = folder_of(tokenizer)
    for name in ("tokenizer.json", "tiktoken.model", "chat_template.jinja"):
        if not (folder / name).is_file():
            raise ConfigurationError(f"the simulator needs {name} in the tokenizer folder {folder}")
    if truth is not None and not truth.absolute().parent.is_dir():
        raise ConfigurationError(f"cannot write {truth}: its folder does not exist")
    options = Options(tokenizer=folder, truth=truth, latency_seconds=latency, **knobs)
    try:
        main(options, rendering.print_json, until_stdin_closes=until_stdin_closes)
    except OSError as error:
        what = f"write {error.filename}" if error.filename else f"listen on port {options.port}"
        raise ConfigurationError(f"cannot {what}: {error.strerror}") from error
