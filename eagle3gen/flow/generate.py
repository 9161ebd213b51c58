"""The life of one prompt in a worker: claim and hold, call, rebuild and judge, settle."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Protocol
from uuid import UUID

import orjson

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.deadlines import Deadlines, Transport
from eagle3gen.endpoint.refusal import Refusal
from eagle3gen.endpoint.reply import Reply
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.endpoint.routing import Routing
from eagle3gen.errors import ConfigurationError, InputError
from eagle3gen.flow import settling
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.datasets import Dataset
from eagle3gen.ledger.settlements import Settlement, StoredSample
from eagle3gen.records import Completion, Json, Verdict
from eagle3gen.telemetry import logger
from eagle3gen.tokens.loading import Tokenizer

log = logger(__name__)

MILLION = Decimal(1_000_000)


class Books(Protocol):
    """The part of `ledger.writer.LedgerWriter` that one prompt needs."""

    async def claim(self, prompt_id: int) -> Claim | None: ...
    async def settle(self, settlement: Settlement) -> None: ...
    def note(self, attempt_id: UUID, generation_id: str) -> None: ...
    def dataset(self, dataset_id: int) -> Dataset: ...


class Calls:
    """The open calls of this process by dataset, so that a stop can cancel them."""

    def __init__(self) -> None:
        self._open: dict[int, set[asyncio.Task[Reply]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._open.values()))

    async def run(self, dataset_id: int, call: Awaitable[Reply]) -> Reply | None:
        """The reply, or None if `cancel` closed the call."""
        task = asyncio.ensure_future(call)
        tasks = self._open.setdefault(dataset_id, set())
        tasks.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if _cancelled_from_outside():
                task.cancel()
                raise
            return None
        finally:
            tasks.discard(task)

    def cancel(self, dataset_id: int) -> int:
        """Close the open calls of a dataset; how many there were."""
        return sum(task.cancel() for task in tuple(self._open.get(dataset_id, ())))


def _cancelled_from_outside() -> bool:
    current = asyncio.current_task()
    return current is not None and current.cancelling() > 0


class Brake(Protocol):
    """Pauses by itself what must not go on; `workers.runtime` has the real one."""

    async def pause(self, dataset: Dataset, reason: str) -> None: ...
    async def pause_key(self, endpoint_url: str, reason: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What a worker process keeps ready for its prompts."""

    books: Books
    endpoint: Callable[[Dataset], Endpoint]
    tokenizer: Callable[[Dataset], Awaitable[Tokenizer]]
    """Loaded, probed and compared with the dataset's sha256, or ConfigurationError."""
    brake: Brake
    deadlines: Deadlines
    transport: Transport = Transport.PLAIN
    calls: Calls = field(default_factory=Calls)
    rng: random.Random = field(default_factory=random.Random)


async def generate(prompt_id: int, bench: Bench) -> None:
    """Answer one prompt, or leave it alone if it is not due.

    Two short transactions and none open during the call. Whatever happens between them, the attempt ends as
    settled, released or held.
    """
    claim = await bench.books.claim(prompt_id)
    if claim is None:
        return
    dataset = bench.books.dataset(claim.dataset_id)
    settlement = settling.interrupted(claim, "the worker was shut down during the call")
    try:
        settlement = await _answer(claim, dataset, bench)
    except ConfigurationError as error:
        settlement = settling.untouched(claim, str(error))
        await bench.brake.pause(dataset, str(error))
    except Exception as error:
        # A bug of ours must not lose sight of money: the attempt is held, the prompt fails with the reason.
        log.exception("generate.broken", prompt_id=prompt_id, attempt_id=str(claim.attempt_id))
        settlement = settling.broken(claim, f"{type(error).__name__} in the worker; see its log")
    finally:
        await asyncio.shield(bench.books.settle(settlement))


async def _answer(claim: Claim, dataset: Dataset, bench: Bench) -> Settlement:
    tokenizer = await bench.tokenizer(dataset)
    payload = orjson.loads(claim.payload)
    messages, tools = payload["messages"], payload.get("tools") or ()
    try:
        # Before the call: an answer to what cannot be rendered could not be used. Encoding takes milliseconds, so
        # it leaves the loop, and tiktoken leaves the interpreter lock.
        prompt_ids = await asyncio.to_thread(tokenizer.prompt_ids, messages, tools)
    except InputError as error:
        return settling.unaskable(claim, str(error))
    request = CompletionRequest(
        model=dataset.model,
        messages=messages,
        tools=tools,
        max_tokens=claim.max_tokens,
        sampling=dataset.sampling,
        provider=_provider(dataset),
    )
    call = bench.endpoint(dataset).complete(
        request,
        deadlines=bench.deadlines,
        transport=bench.transport,
        on_generation_id=partial(bench.books.note, claim.attempt_id),
    )
    reply = await bench.calls.run(claim.dataset_id, call)
    if reply is None:
        return settling.interrupted(claim, "stopped by the operator during the call")
    if reply.refusal is not None:
        await _pause_if_told(reply.refusal, dataset, bench)
        return settling.refused(claim, reply, reply.refusal, bench.rng)
    if reply.completion is None:
        raise AssertionError("a reply is a completion or a refusal")

    def store(completion: Completion) -> tuple[StoredSample, str]:
        from eagle3gen.tokens.judge import make_sample
        from eagle3gen.tokens.structure import structural_fault

        sample = make_sample(tokenizer, messages, tools, completion, prompt_ids=prompt_ids)
        fault = structural_fault(sample, tokenizer)
        if fault and sample.verdict.trainable:
            # Its length agrees with the bill, and yet it is no answer of this model.
            sample = replace(sample, verdict=Verdict.MISMATCH, reason=fault)
        return StoredSample.of(sample, reply.body), fault

    stored, fault = await asyncio.to_thread(store, reply.completion)
    return settling.answered(claim, reply, reply.completion, stored, fault)


def _provider(dataset: Dataset) -> Json:
    """The routing of a dataset.

    Under a cap in USD the endpoint itself refuses hosts dearer than what the holds were made with, so that a price
    that rises in mid-run cannot pass the cap (OpenRouter's `provider.max_price`, in USD per million tokens).
    """
    routing = Routing.read(dataset.routing)
    if dataset.prices is None or not dataset.capped_in_usd:
        return routing.provider()
    limits = {"prompt": dataset.prices.prompt_usd * MILLION, "completion": dataset.prices.completion_usd * MILLION}
    asked = routing.max_price
    return replace(
        routing, max_price={**asked, **{name: min(limit, asked.get(name, limit)) for name, limit in limits.items()}}
    ).provider()


async def _pause_if_told(refusal: Refusal, dataset: Dataset, bench: Bench) -> None:
    if refusal.pauses_key:
        await bench.brake.pause_key(dataset.endpoint_url, f"key: {refusal.message}")
    elif refusal.pauses_dataset:
        await bench.brake.pause(dataset, refusal.message)
