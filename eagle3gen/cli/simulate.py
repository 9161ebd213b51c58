"""`eagle3gen simulate`: an OpenRouter on loopback."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from eagle3gen.cli import rendering
from eagle3gen.errors import ConfigurationError
from eagle3gen.simulator.faults import FAULTS
from eagle3gen.simulator.knobs import FLAG, BadKnob, Kind
from eagle3gen.simulator.options import KNOBS, Options


def _reading(kind: Kind) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback that reads a value as the knob itself does."""

    def read(_ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        try:
            return kind.read(value)
        except BadKnob as error:
            raise click.BadParameter(str(error)) from error

    return read


def _knobs(command: Callable[..., None]) -> Callable[..., None]:
    """Every knob as an option."""
    defaults = {field.name: field.default for field in fields(Options)}
    for name, knob in reversed(KNOBS.items()):
        flag = f"--{knob.flag}"
        how: dict[str, Any] = {"default": defaults[name], "show_default": isinstance(defaults[name], str | int | float)}
        if knob.kind is not FLAG:
            how |= {"type": click.UNPROCESSED, "metavar": knob.kind.name.upper(), "multiple": knob.kind.repeated}
        names = (flag, name) if knob.kind is not FLAG else (f"{flag}/--no-{knob.flag}", name)
        command = click.option(*names, help=knob.says, callback=_reading(knob.kind), **how)(command)
    return command


HELP = """Serve a faithful OpenRouter on loopback, with a bill of its own.

Prints one JSON line with its url when ready; --truth records the token ids that it really emitted, one JSON line
per answered call. Its own addresses need no key:

\b
GET  /simulator/bill      what it charged, by key and by host; who had gone; what is open
POST /simulator/credits   {"add": "5.00"} pays into the account
POST /simulator/knobs     {"latency": 3, "fault": ["Chutes:no_cost=0.1"]} turns knobs while it runs; they are
                          named as the options are

A file for --faults has a table of shares for each host and for all; a file for --hosts has prices in USD per
million tokens (and perhaps cached, quantization, context_length, max_completion_tokens, parameters, cancels):

\b
[all]                     [[hosts]]
no_cost = 0.01            name = "Cheap"
["Moonshot AI"]           tag = "cheap/fp8"
count_drift = 0.2         prompt = "0.05"
                          completion = "0.10"
"""
FAULT_LIST = "\b\nFaults:\n" + "\n".join(f"  {name:24}{says}" for name, says in FAULTS.items())


@click.command(help=HELP, epilog=FAULT_LIST)
@_knobs
@click.option("--truth", type=click.Path(path_type=Path, dir_okay=False), help="Write the true ids here.")
@click.option("--tokenizer", default="builtin:kimi-mini", show_default=True, help="A folder, or the builtin one.")
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
def simulate(until_stdin_closes: bool, truth: Path | None, tokenizer: str, **values: Any) -> None:
    """Read the knobs, and serve until told to end."""
    from eagle3gen.simulator.server import main
    from eagle3gen.tokens.loading import folder_of

    folder = folder_of(tokenizer)
    for name in ("tokenizer.json", "tiktoken.model", "chat_template.jinja"):
        if not (folder / name).is_file():
            raise ConfigurationError(f"the simulator needs {name} in the tokenizer folder {folder}")
    if truth is not None and not truth.absolute().parent.is_dir():
        raise ConfigurationError(f"cannot write {truth}: its folder does not exist")
    options = Options(tokenizer=folder, truth=truth, **values)
    try:
        main(options, rendering.print_json, until_stdin_closes=until_stdin_closes)
    except OSError as error:
        what = f"write {error.filename}" if error.filename else f"listen on port {options.port}"
        raise ConfigurationError(f"cannot {what}: {error.strerror}") from error
