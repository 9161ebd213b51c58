"""Totals for the screen, samples for export."""

from decimal import Decimal

from eagle3gen.ledger import reading
from eagle3gen.ledger.ids import decode_ids
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Verdict

from .conftest import answered, fill, lose, one, queued, stored


async def samples(ledger, dataset_id, verdicts=frozenset(Verdict)):
    async with ledger.begin() as conn:
        return [row async for row in reading.stream_samples(conn, dataset_id, verdicts)]


async def test_totals_count_prompts_by_state_and_samples_by_verdict(ledger, writer) -> None:
    dataset_id = await fill(ledger, 6)
    ids = await queued(ledger, dataset_id, 5)
    claims = [await writer.claim(i) for i in ids[:4]]
    await writer.settle(answered(claims[0], 10))
    await writer.settle(answered(claims[1], prompt_state=PromptState.REJECTED, stored=stored(verdict=Verdict.MISMATCH)))
    await writer.settle(answered(claims[2], prompt_state=PromptState.FAILED, stored=None, error="too long"))
    found = await one(ledger)
    assert (found.prompts, found.done, found.rejected, found.failed) == (6, 1, 1, 1)
    assert (found.in_flight, found.queued, found.waiting) == (1, 1, 2)
    assert found.verdicts == {"exact/count": 1, "mismatch": 1}
    assert found.errors == {"too long": 1}


async def test_the_most_frequent_reasons_come_first(ledger, writer) -> None:
    ids = await queued(ledger, await fill(ledger, 9))
    for n, prompt_id in enumerate(ids):
        reason = f"reason {min(n, 6)}"
        claim = await writer.claim(prompt_id)
        await writer.settle(answered(claim, prompt_state=PromptState.FAILED, stored=None, error=reason))
    errors = (await one(ledger)).errors
    assert len(errors) == reading.ERRORS_MAX
    assert next(iter(errors.items())) == ("reason 6", 3)


async def test_the_smallest_hold_is_that_of_what_is_pending(ledger) -> None:
    dataset_id = await fill(ledger, 1, max_tokens=50)
    await fill(ledger, 1, start=1, max_tokens=80)
    assert (await one(ledger)).pending.least.tokens == 50
    await queued(ledger, dataset_id, 1)
    assert (await one(ledger)).pending.least.tokens == 80
    await queued(ledger, dataset_id, 1)
    assert (await one(ledger)).pending is None


async def test_samples_come_in_the_order_of_their_prompts_with_their_bill(ledger, writer) -> None:
    dataset_id = await fill(ledger, 3)
    for n, prompt_id in reversed(list(enumerate(await queued(ledger, dataset_id)))):
        await writer.settle(answered(await writer.claim(prompt_id), n + 1, f"0.{n + 1}"))
    rows = await samples(ledger, dataset_id)
    assert [(r.source, len(decode_ids(r.output_ids)), r.completion_tokens, r.cost_usd) for r in rows] == [
        (f"f line {n}", n + 1, n + 1, Decimal(f"0.{n + 1}")) for n in range(3)
    ]


async def test_only_the_wanted_verdicts_of_the_wanted_dataset_come(ledger, writer) -> None:
    first, second = await fill(ledger, 2, name="a"), await fill(ledger, 1, name="b")
    ids = await queued(ledger, first)
    await writer.settle(answered(await writer.claim(ids[0])))
    await writer.settle(answered(await writer.claim(ids[1]), stored=stored(verdict=Verdict.TRUNCATED)))
    await writer.settle(answered(await writer.claim((await queued(ledger, second))[0])))
    assert len(await samples(ledger, first)) == 2
    assert [r.prompt_id for r in await samples(ledger, first, [Verdict.TRUNCATED])] == [ids[1]]
    assert await samples(ledger, first, []) == []


async def test_a_late_answer_shows_its_own_bill(ledger, writer) -> None:
    dataset_id = await fill(ledger, 1)
    claim = await writer.claim((await queued(ledger, dataset_id))[0])
    await lose(ledger, writer)
    await writer.settle(answered(claim, 12, "0.5", host="h", model="m-2"))
    (row,) = await samples(ledger, dataset_id)
    assert (row.completion_tokens, row.cost_usd, row.host, row.model) == (12, Decimal("0.5"), "h", "m-2")
    assert row.generation_id == f"gen-{claim.attempt_id}"


async def test_a_long_dataset_is_streamed_whole(ledger, writer, monkeypatch) -> None:
    monkeypatch.setattr(reading, "CURSOR_ROWS", 7)
    dataset_id = await fill(ledger, 20)
    for prompt_id in await queued(ledger, dataset_id):
        await writer.settle(answered(await writer.claim(prompt_id)))
    assert len(await samples(ledger, dataset_id)) == 20


async def test_calls_given_up_since_a_moment_are_counted_from_then_on(ledger, writer) -> None:
    dataset_id = await fill(ledger, 2)
    first, second = [await writer.claim(i) for i in await queued(ledger, dataset_id)]
    ending = {"outcome": Outcome.HELD, "prompt_state": PromptState.PENDING, "stored": None}
    await writer.settle(answered(first, **ending))
    async with ledger.begin() as conn:
        since = await reading.clock(conn)
    await writer.settle(answered(second, **ending))
    async with ledger.begin() as conn:
        assert await reading.held_since(conn, [dataset_id], since) == 1
        assert await reading.held_since(conn, [dataset_id + 1], since) == 0
