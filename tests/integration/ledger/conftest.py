"""A ledger with a dataset and prompts in it."""

from collections.abc import AsyncIterator
from decimal import Decimal

import pytest

from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.connect import Ledger, open_ledger
from eagle3gen.ledger.datasets import DatasetSpec, add_dataset
from eagle3gen.ledger.ids import compress, encode_ids
from eagle3gen.ledger.loading import PromptRow, load_prompts
from eagle3gen.ledger.settlements import Settlement, StoredSample
from eagle3gen.ledger.states import Outcome, PromptState
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
