"""From the options of `run` and `enqueue` to an `Intake`, refusing early what cannot work."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click
from pydantic import SecretStr

from eagle3gen.cli import rendering
from eagle3gen.config import Settings
from eagle3gen.errors import ConfigurationError, InputError
from eagle3gen.records import Queue

if TYPE_CHECKING:
    from eagle3gen.flow.enqueue import Enqueued, Intake
    from eagle3gen.prompts.reading import Problem

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
PROBLEMS_SHOWN = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The options of `options.dataset_choices`, as Click hands them over."""

    files: tuple[Path, ...]
    model: str
    endpoint_url: str
    tokenizer: str
    token_cap: int | None = None
    usd_cap: Decimal | None = None
    plan_token_cap: int | None = None
    plan_usd_cap: Decimal | None = None
    admission: str | None = None
    canary: int | None = None
    breaker: str | None = None
    routings: tuple[str, ...] = ()
    samplings: tuple[str, ...] = ()
    queue: str
    short_max_tokens: int
    long_max_tokens: int
    strict: bool
    yes: bool


def make_intake(choices: Choices) -> "Intake":
    """Check the files, load and probe the tokenizer, and say what is to be enqueued.

    Raises InputError for an unusable file, TokenizerRefused for a tokenizer that is not the model's.
    """
    from eagle3gen.cli import pairs
    from eagle3gen.endpoint.routing import Routing
    from eagle3gen.flow.enqueue import Intake, dataset_names
    from eagle3gen.ledger.health import Breaker
    from eagle3gen.ledger.money import Cap
    from eagle3gen.ledger.states import Admission
    from eagle3gen.tokens.loading import load_tokenizer

    if not choices.files:
        raise InputError("name at least one file of prompts")
    for file in dataset_names(choices.files).values():
        _readable(file)
    # A folder is recorded by its full path: workers start in directories of their own.
    named = choices.tokenizer
    tokenizer = named if named.startswith("builtin:") else str(Path(named).expanduser().absolute())
    return Intake(
        files=choices.files,
        model=choices.model,
        endpoint_url=_base_url(choices.endpoint_url),
        tokenizer=tokenizer,
        tokenizer_sha256=load_tokenizer(tokenizer, probe=Settings().probe_tokenizers).sha256,
        cap=Cap(choices.token_cap, choices.usd_cap),
        plan_cap=Cap(choices.plan_token_cap, choices.plan_usd_cap),
        admission=Admission(choices.admission) if choices.admission else None,
        canary=choices.canary,
        breaker=Breaker.read(choices.breaker) if choices.breaker else None,
        routing=Routing.read(pairs.routing(choices.routings)),
        sampling=pairs.sampling(choices.samplings),
        queue=None if choices.queue == "auto" else Queue(choices.queue),
        max_tokens={Queue.SHORT: choices.short_max_tokens, Queue.LONG: choices.long_max_tokens},
        strict=choices.strict,
    )


def _readable(file: Path) -> None:
    if not file.exists():
        raise InputError(f"{file} does not exist")
    if not file.is_file():
        raise InputError(f"{file} is not a file")
    if file.stat().st_size == 0:
        raise InputError(f"{file} is empty")


def _base_url(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"--endpoint-url {url!r} is not an http(s) address such as https://openrouter.ai/api/v1")
    if parts.username or parts.password or parts.query:
        # What stands in a URL ends up in logs and in the ledger; a secret must not.
        raise InputError("--endpoint-url must not carry a password or a query; give the key by --api-key-file")
    return url.rstrip("/")


def check_key(choices: Choices, key: SecretStr | None) -> None:
    """OpenRouter needs a key. Raises ConfigurationError without one."""
    host = urlsplit(choices.endpoint_url).hostname or ""
    if key is None and (host == "openrouter.ai" or host.endswith(".openrouter.ai")):
        raise ConfigurationError("no API key: set OPENROUTER_API_KEY, or name a file with --api-key-file")


def confirm_spending(choices: Choices) -> None:
    """Ask before money is spent, unless --yes or the endpoint is on this machine. Aborts on a no."""
    if choices.yes or urlsplit(choices.endpoint_url).hostname in LOOPBACK:
        return
    sentence = f"This spends money at {choices.endpoint_url}: {_caps_sentence(choices)}."
    if not sys.stdin.isatty():
        raise InputError(f"{sentence} Confirm with --yes")
    click.confirm(f"{sentence} Go on?", abort=True, err=True)


def _caps_sentence(choices: Choices) -> str:
    each = f"for each of {len(choices.files)} dataset(s)"
    parts = [
        f"up to {choices.token_cap:,} completion tokens {each}" if choices.token_cap else "",
        f"up to ${choices.usd_cap:,} {each}" if choices.usd_cap else "",
        f"up to {choices.plan_token_cap:,} completion tokens in all" if choices.plan_token_cap else "",
        f"up to ${choices.plan_usd_cap:,} in all" if choices.plan_usd_cap else "",
    ]
    return " and ".join(filter(None, parts)) or f"without any cap {each}"


class ProblemPrinter:
    """Reports unusable lines, the first twenty in full."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, problem: "Problem") -> None:
        self.count += 1
        if self.count <= PROBLEMS_SHOWN:
            rendering.say(f"Skipped: {problem}")
        elif self.count == PROBLEMS_SHOWN + 1:
            rendering.say("Skipped: more lines of the same kind; the count follows.")


def say_enqueued(brought: Sequence["Enqueued"]) -> None:
    """One line per dataset."""
    for e in brought:
        routes = ", ".join(f"{count:,} {queue.value}" for queue, count in e.queues.items() if count)
        known = f", {e.duplicates:,} known already" if e.duplicates else ""
        refused = f", {e.refused:,} lines refused" if e.refused else ""
        rendering.say(f"{e.name}: {e.added:,} prompts added ({routes}){known}{refused}")
