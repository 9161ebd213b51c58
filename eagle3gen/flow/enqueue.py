"""Files into the ledger: every readable prompt becomes a row, exactly once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from eagle3gen.config import QUEUE_DEFAULTS
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.prices import read_prices
from eagle3gen.endpoint.routing import Routing
from eagle3gen.errors import ConfigurationError, InputError, ServiceUnreachable
from eagle3gen.ledger import loading
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import DatasetSpec, add_dataset, set_plan_cap
from eagle3gen.ledger.health import Breaker
from eagle3gen.ledger.loading import PromptRow
from eagle3gen.ledger.money import UNCAPPED, Cap
from eagle3gen.ledger.states import Admission
from eagle3gen.prompts.identity import content_key
from eagle3gen.prompts.reading import Problem, read_prompts
from eagle3gen.prompts.routing import choose_queue
from eagle3gen.records import Conversation, Prices, Queue

CHUNK = 2000
"""Rows per transaction: an interrupted enqueue keeps whole chunks, and a second one adds the rest."""


def _default_max_tokens() -> dict[Queue, int]:
    return {queue: defaults.max_tokens for queue, defaults in QUEUE_DEFAULTS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What is to be answered, by which model, read with which tokenizer, up to which cap."""

    files: Sequence[Path]
    model: str
    endpoint_url: str
    tokenizer: str
    tokenizer_sha256: str
    cap: Cap = UNCAPPED
    """For each dataset; None leaves the cap of an existing dataset as it is, as do the following."""
    plan_cap: Cap = UNCAPPED
    """Over all datasets of the ledger."""
    prices: Prices | None = None
    admission: Admission | None = None
    canary: int | None = None
    breaker: Breaker | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)
    routing: Routing = field(default_factory=Routing)
    """Which hosts may serve the prompts."""
    queue: Queue | None = None
    """None routes each prompt by its size."""
    max_tokens: Mapping[Queue, int] = field(default_factory=_default_max_tokens)
    strict: bool = False
    """Stop at the first line that is no prompt, instead of reporting it and going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What one file brought."""

    name: str
    added: int
    duplicates: int
    """Rows that the dataset already held."""
    refused: int
    """Lines that are no prompt; each was reported."""
    queues: Mapping[Queue, int]
    """How many prompts of the file are routed where."""


def dataset_names(files: Sequence[Path]) -> dict[str, Path]:
    """One dataset per file, named after it. Raises InputError when two files would share a name."""
    names: dict[str, Path] = {}
    for file in files:
        name = _dataset_name(file)
        if name in names:
            raise InputError(f"{names[name]} and {file} would both be dataset {name!r}; rename one of them")
        names[name] = file
    return names


def _dataset_name(file: Path) -> str:
    name = file.name
    while (shorter := name.removesuffix(".jsonl").removesuffix(".json")) != name:
        name = shorter
    if not name or not name.isprintable():
        # Neither the ledger nor a terminal takes halves of characters and line breaks.
        raise InputError(f"{file.name!a} is no name for a dataset; rename the file to printable characters")
    return name


async def priced(intake: Intake, endpoint: Endpoint) -> Intake:
    """The intake with the endpoint's own prices, read now.

    Raises ConfigurationError when a cap in USD is wanted and the endpoint tells no prices, or cannot be asked; and
    when no host of the model matches the routing.
    """
    wanted = intake.cap.usd is not None or intake.plan_cap.usd is not None
    try:
        prices = await read_prices(endpoint, intake.model, intake.routing)
    except ServiceUnreachable as error:
        if wanted:
            raise ConfigurationError(f"a cap in USD needs the prices of {intake.model}, but {error}") from error
        prices = None
    if wanted and prices is None:
        raise ConfigurationError(
            f"{intake.endpoint_url} lists no prices of {intake.model}, so a cap in USD could not be kept; check the"
            " model's name, or use --token-cap"
        )
    return replace(intake, prices=prices)


async def enqueue(
    ledger: Ledger,
    intake: Intake,
    on_problem: Callable[[Problem], None],
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> list[Enqueued]:
    """Add one dataset per file with its prompts; known prompts stay as they are.

    When `stopped`, it ends after a whole chunk; a second enqueue adds the rest.

    Raises InputError for an unusable file, and when a dataset exists with another model, endpoint, tokenizer
    or sampling.
    """
    brought = [
        await _enqueue_file(ledger, intake, name, file, on_problem, stopped)
        for name, file in dataset_names(intake.files).items()
        if not stopped()
    ]
    if intake.plan_cap.exists:
        async with ledger.begin() as conn:
            await set_plan_cap(conn, intake.plan_cap)
    return brought


async def _enqueue_file(
    ledger: Ledger,
    intake: Intake,
    name: str,
    file: Path,
    on_problem: Callable[[Problem], None],
    stopped: Callable[[], bool],
) -> Enqueued:
    refused = added = duplicates = 0

    def refuse(problem: Problem) -> None:
        nonlocal refused
        refused += 1
        on_problem(problem)

    rows = _rows(read_prompts(file, strict=intake.strict, on_problem=refuse), intake)
    chunk = list(islice(rows, CHUNK))
    if not chunk:
        raise InputError(f"{file} holds no usable prompt ({refused:,} lines refused)")
    async with ledger.begin() as conn:
        dataset_id = await add_dataset(conn, _spec(intake, name))
    queues = dict.fromkeys(Queue, 0)
    while chunk:
        async with ledger.begin() as conn:
            loaded = await loading.load_prompts(conn, dataset_id, chunk)
        added += loaded.added
        duplicates += loaded.duplicates
        for row in chunk:
            queues[row.queue] += 1
        chunk = [] if stopped() else list(islice(rows, CHUNK))
    return Enqueued(name=name, added=added, duplicates=duplicates, refused=refused, queues=queues)


def _spec(intake: Intake, name: str) -> DatasetSpec:
    return DatasetSpec(
        name=name,
        model=intake.model,
        endpoint_url=intake.endpoint_url,
        tokenizer=intake.tokenizer,
        tokenizer_sha256=intake.tokenizer_sha256,
        sampling=dict(intake.sampling),
        routing=intake.routing.provider() or None,
        cap_tokens=intake.cap.tokens,
        cap_usd=intake.cap.usd,
        prices=intake.prices,
        admission=intake.admission,
        canary=intake.canary,
        breaker=intake.breaker,
    )


def _rows(conversations: Iterable[Conversation], intake: Intake) -> Iterator[PromptRow]:
    for conversation in conversations:
        queue = intake.queue or choose_queue(conversation)
        yield PromptRow(
            key=content_key(conversation),
            source=conversation.source,
            payload=orjson.dumps({"messages": list(conversation.messages), "tools": list(conversation.tools)}),
            queue=queue,
            max_tokens=intake.max_tokens[queue],
        )
