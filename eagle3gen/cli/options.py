"""Options that several commands share, so that each is spelled and explained once."""

import os
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeVar

import click
from pydantic import SecretStr

from eagle3gen.config import OPENROUTER_URL, QUEUE_DEFAULTS, Settings
from eagle3gen.errors import ConfigurationError
from eagle3gen.ledger.states import Admission
from eagle3gen.records import Queue

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_STATE_DIR = ".eagle3gen"
KEY_BYTES_MAX = 4096


def state_dir(command: Command) -> Command:
    """`--state-dir`: the ledger of one machine; without it, DATABASE_URL finds a fleet's."""
    return click.option(
        "--state-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=None,
        help=f"Folder of a one-machine ledger.  [default: DATABASE_URL if set, else {DEFAULT_STATE_DIR}]",
    )(command)


def json_output(command: Command) -> Command:
    """`--json`: stdout ends in one JSON object."""
    return click.option("--json", "as_json", is_flag=True, help="End stdout with one JSON object.")(command)


def dataset_names(command: Command) -> Command:
    """`DATASET...`: which datasets; none given means all."""
    return click.argument("names", metavar="[DATASET]...", nargs=-1)(command)


def api_key_file(command: Command) -> Command:
    """`--api-key-file`: the key never comes from an argument, since arguments are visible to every user."""
    return click.option(
        "--api-key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        default=None,
        help="File holding the API key.  [default: OPENROUTER_API_KEY]",
    )(command)


def read_api_key(path: Path | None) -> SecretStr | None:
    """The key from the file, else from the environment. Raises ConfigurationError for an unusable file."""
    if path is None:
        return Settings().api_key
    try:
        with path.open("rb") as file:
            # /dev/zero is a file, too.
            key = file.read(KEY_BYTES_MAX).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise ConfigurationError(f"cannot read the API key from {path}: {reason}") from error
    if not key or len(key.split()) != 1 or not key.isprintable():
        raise ConfigurationError(f"{path} does not hold one API key; put the key alone into it")
    return SecretStr(key)


def local_dir(chosen: Path | None) -> Path | None:
    """The state directory to use, or None when DATABASE_URL names a fleet's ledger."""
    if chosen is not None:
        return chosen
    return None if os.environ.get("DATABASE_URL") else Path(DEFAULT_STATE_DIR)


def dataset_choices(command: Command) -> Command:
    """The options that say what a dataset is: shared by `run` and `enqueue`."""
    for option in reversed(
        [
            click.argument("files", metavar="FILE...", nargs=-1, type=click.Path(path_type=Path)),
            click.option("--model", default="moonshotai/kimi-k2.5", show_default=True, help="The target model."),
            click.option("--endpoint-url", default=OPENROUTER_URL, show_default=True, help="Base URL, up to /v1."),
            click.option(
                "--tokenizer",
                required=True,
                metavar="DIR|NAME",
                help="Folder of the target's tokenizer, or builtin:kimi-mini for the simulator.",
            ),
            *_money_options(),
            *_request_options(),
            click.option(
                "--queue",
                type=click.Choice([*(q.value for q in Queue), "auto"]),
                default="auto",
                show_default=True,
                help="Where the prompts go; auto decides by their size.",
            ),
            click.option(
                "--short-max-tokens",
                type=click.IntRange(min=1),
                default=_tokens(Queue.SHORT),
                show_default=True,
            ),
            click.option(
                "--long-max-tokens",
                type=click.IntRange(min=1),
                default=_tokens(Queue.LONG),
                show_default=True,
            ),
            click.option("--strict", is_flag=True, help="Stop at the first unusable line instead of reporting it."),
            click.option("--yes", is_flag=True, help="Spend money without asking."),
        ]
    ):
        command = option(command)
    return command


def _request_options() -> list[Callable[[Any], Any]]:
    """What is sent beside the prompts."""
    return [
        click.option(
            "--routing",
            "routings",
            metavar="KEY=VALUE",
            multiple=True,
            help="Which hosts may answer, in OpenRouter's words: only=moonshotai/int4,chutes, quantizations=int4,"
            " ignore=…, order=…, allow_fallbacks=false, max_price.completion=3.00, …; may be repeated.",
        ),
        click.option(
            "--sampling",
            "samplings",
            metavar="KEY=VALUE",
            multiple=True,
            help="A sampling parameter of every request, such as temperature=1 or top_p=0.95; may be repeated.",
        ),
    ]


def _money_options() -> list[Callable[[Any], Any]]:
    """Caps, admission, canary and breaker: what is told about a known dataset changes it."""
    tokens = click.IntRange(min=1)
    return [
        click.option("--token-cap", type=tokens, help="Completion tokens each dataset may cost."),
        click.option("--usd-cap", type=USD, help="USD each dataset may cost, at the endpoint's own prices."),
        click.option("--plan-token-cap", type=tokens, help="Completion tokens all datasets of the ledger may cost."),
        click.option("--plan-usd-cap", type=USD, help="USD all datasets of the ledger may cost."),
        click.option(
            "--admission",
            type=click.Choice([a.value for a in Admission]),
            help="strict: an open call reserves its worst case, so no cap can be passed. forecast: what it is expected"
            " to cost, so more calls run under a cap.  [default: strict]",
        ),
        click.option(
            "--canary",
            type=click.IntRange(min=0),
            help="Answers that are judged before the dataset opens; 0 for none.  [default: 20]",
        ),
        click.option(
            "--breaker",
            metavar="NAME=SHARE,...",
            help="Shares of bad answers above which a dataset is paused: verdict, structure, reasoning, permanent,"
            " lost; and window, minimum.",
        ),
    ]


class _Usd(click.ParamType[Decimal]):
    """An amount of USD, read as a decimal."""

    name = "USD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(str(value).removeprefix("$"))
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount <= 0 or amount.adjusted() > USD_DIGITS:
            self.fail(f"{value!r} is no amount above 0, such as 25 or 0.50", param, ctx)
        return amount


USD = _Usd()
USD_DIGITS = 9


def _tokens(queue: Queue) -> int:
    return QUEUE_DEFAULTS[queue].max_tokens
