"""A ledger with a dataset and prompts in it."""

import uuid
from collections.abc import AsyncIterator
from decimal import Decimal

import pytest
from sqlalchemy import text

from eagle3gen.ledger import demand, sweeping
from eagle3gen.ledger.books import audit_books
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.connect import Ledger, open_ledger
from eagle3gen.ledger.datasets import DatasetSpec, add_dataset, datasets
from eagle3gen.ledger.ids import compress, encode_ids
from eagle3gen.ledger.loading import PromptRow, load_prompts
from eagle3gen.ledger.reading import totals
from eagle3gen.ledger.settlements import Settlement, StoredSample
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.ledger.sweeping import WorkerRow
from eagle3gen.ledger.writer import LedgerWriter
from eagle3gen.records import Queue, Usage, Verdict


@pytest.fixture
async def ledger(database_url: str) -> AsyncIterator[Ledger]:
    opened = open_ledger(database_url)
    yield opened
    await opened.close()


def spec(name: str = "set", **changes) -> DatasetSpec:
    fields = {
        "name": name,
        "model": "m",
        "endpoint_url": "http://127.0.0.1/v1",
        "tokenizer": "builtin:kimi-mini",
        "tokenizer_sha256": "abc",
        "sampling": {"temperature": 1},
        "canary": 0,
    }
    return DatasetSpec(**{**fields, **changes})


def prompt_rows(count: int, *, start: int = 0, max_tokens: int = 100, queue: Queue = Queue.SHORT) -> list[PromptRow]:
    return [
        PromptRow(key=n.to_bytes(32), source=f"f line {n}", payload=b'{"n":%d}' % n, queue=queue, max_tokens=max_tokens)
        for n in range(start, start + count)
    ]


async def fill(ledger: Ledger, count: int, *, name: str = "set", cap: int | None = None, **rows) -> int:
    async with ledger.begin() as conn:
        dataset_id = await add_dataset(conn, spec(name, cap_tokens=cap))
        await load_prompts(conn, dataset_id, prompt_rows(count, **rows))
    return dataset_id


def stored(tokens: int = 10, verdict: Verdict = Verdict.EXACT_COUNT) -> StoredSample:
    return StoredSample(
        verdict=verdict,
        prompt_ids=encode_ids([1, 2]),
        output_ids=encode_ids(list(range(tokens))),
        prompt_len=2,
        output_len=tokens,
        difference=0,
        prompt_difference=0,
        hypothesis="base",
        reason="",
        tokenizer_sha256="abc",
        body=compress(b"{}"),
    )


def answered(claim: Claim, tokens: int = 10, cost: str | None = "0.001", **changes) -> Settlement:
    fields = {
        "claim": claim,
        "outcome": Outcome.SETTLED,
        "prompt_state": PromptState.DONE,
        "status": 200,
        "generation_id": f"gen-{claim.attempt_id}",
        "finish_reason": "stop",
        "usage": Usage(prompt_tokens=2, completion_tokens=tokens, cost_usd=None if cost is None else Decimal(cost)),
        "stored": stored(tokens),
    }
    return Settlement(**{**fields, **changes})


async def queued(ledger: Ledger, dataset_id: int, count: int = 1000, queue: Queue = Queue.SHORT) -> list[int]:
    async with ledger.begin() as conn:
        (left,) = [d.left for d in await datasets(conn) if d.id == dataset_id]
        return await demand.queue_prompts(conn, dataset_id, queue, count, left)


async def one(ledger: Ledger):
    async with ledger.begin() as conn:
        (found,) = await totals(conn)
        assert await audit_books(conn) == []
    return found


@pytest.fixture
async def writer(ledger: Ledger):
    made = LedgerWriter(ledger, uuid.uuid4())
    await made.start()
    yield made
    await made.close(5)


async def register(ledger: Ledger, worker_id: uuid.UUID, *, silent_seconds: float = 0) -> None:
    row = WorkerRow(id=worker_id, host="h", pid=1, queue=Queue.SHORT, concurrency=10)
    async with ledger.begin() as conn:
        await sweeping.heartbeat(conn, row)
        await conn.execute(
            text("update workers set beat_at = now() - :s * interval '1 second' where id = :id"),
            {"s": silent_seconds, "id": worker_id},
        )


async def lose(ledger: Ledger, writer: LedgerWriter) -> None:
    await register(ledger, writer._worker_id, silent_seconds=60)
    async with ledger.begin() as conn:
        await sweeping.lost_workers(conn, 15)
