"""What the attempts cost and brought, against a real ledger."""

import random
from datetime import timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from eagle3gen.ledger import reading, reporting, reporting_series
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.reporting import Figures
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Queue, Usage, Verdict

from .conftest import answered, fill, lose, one, queued, stored

FAILED = {"prompt_state": PromptState.PENDING, "stored": None}
HELD = {"outcome": Outcome.HELD, **FAILED}
RELEASED = {"outcome": Outcome.RELEASED, **FAILED}


async def read(ledger, reader, *ids):
    async with ledger.begin() as conn:
        await reporting.snapshot(conn)
        return await reader(conn, ids)


async def claims(ledger, writer, count, **rows) -> list[Claim]:
    dataset_id = await fill(ledger, count, **rows)
    return [await writer.claim(i) for i in await queued(ledger, dataset_id, queue=rows.get("queue", Queue.SHORT))]


async def age(ledger, claim: Claim, *, opened: float, closed: float) -> None:
    """Move an attempt into the past, by seconds."""
    async with ledger.begin() as conn:
        # A test may age what only time ages.
        await conn.execute(text("SET LOCAL session_replication_role = replica"))
        await conn.execute(
            text("update attempts set opened_at = now() - :s * interval '1 second' where id = :id"),
            {"s": opened, "id": claim.attempt_id},
        )
        await conn.execute(
            text("update resolutions set closed_at = now() - :s * interval '1 second' where attempt_id = :id"),
            {"s": closed, "id": claim.attempt_id},
        )


async def test_an_empty_ledger_has_figures_of_nothing(ledger) -> None:
    found = await read(ledger, reporting.figures)
    assert found.datasets == {None: Figures()}
    assert found.hosts == {}
    for reader in (reporting.mixes, reporting.failures, reporting_series.queues, reporting_series.lengths):
        assert await read(ledger, reader) == []
    assert await read(ledger, reporting_series.spend) == []
    assert await read(ledger, reporting_series.pace) == {}


async def test_a_snapshot_can_write_nothing(ledger) -> None:
    async with ledger.begin() as conn:
        await reporting.snapshot(conn)
        assert (await conn.execute(text("show transaction_read_only"))).scalar_one() == "on"


async def test_answers_are_added_up_by_host_and_model(ledger, writer) -> None:
    for claim, (host, tokens, cost) in zip(
        await claims(ledger, writer, 3), [("a", 10, "0.1"), ("a", 30, "0.2"), ("b", 50, "0.7")], strict=True
    ):
        await writer.settle(answered(claim, tokens, cost, host=host, model="m-1"))
    found = await read(ledger, reporting.figures, claim.dataset_id)
    first, second = found.hosts[claim.dataset_id]
    assert (first.host, first.model, first.answers, first.completion_tokens) == ("a", "m-1", 2, 40)
    assert (first.cost_usd, first.prompt_tokens, first.length_mean) == (Decimal("0.3"), 4, 20.0)
    assert (second.host, second.answers, second.cost_usd) == ("b", 1, Decimal("0.7"))
    whole = found.datasets[claim.dataset_id]
    assert (whole.answers, whole.completion_tokens, whole.cost_usd) == (3, 90, Decimal(1))
    assert whole.length_p95 == pytest.approx(48)
    assert found.datasets[None] == whole
    assert found.hosts[None] == found.hosts[claim.dataset_id]


async def test_every_digit_of_a_cost_is_kept(ledger, writer) -> None:
    for claim, cost in zip(
        await claims(ledger, writer, 2), ["1234567890.000000000000000001", "0.00000000000000000001"], strict=True
    ):
        await writer.settle(answered(claim, 10, cost))
    found = await read(ledger, reporting.figures, claim.dataset_id)
    assert found.datasets[None].cost_usd == Decimal("1234567890.00000000000000000101")


async def test_a_billed_attempt_without_a_sample_is_failed_spend(ledger, writer) -> None:
    (claim,) = await claims(ledger, writer, 1)
    await writer.settle(answered(claim, 7, "0.4", host="a", **FAILED))
    (prompt_id,) = await queued(ledger, claim.dataset_id)
    again = await writer.claim(prompt_id)
    await writer.settle(answered(again, 9, "0.5", host="a"))
    f = (await read(ledger, reporting.figures, claim.dataset_id)).datasets[None]
    assert (f.attempts, f.retries, f.answers) == (2, 1, 1)
    assert (f.failed_attempts, f.failed_tokens, f.failed_usd) == (1, 7, Decimal("0.4"))
    assert (f.completion_tokens, f.cost_usd) == (16, Decimal("0.9"))


async def test_a_released_attempt_costs_nothing_and_is_no_failed_spend(ledger, writer) -> None:
    (claim,) = await claims(ledger, writer, 1)
    await writer.settle(answered(claim, **RELEASED))
    f = (await read(ledger, reporting.figures, claim.dataset_id)).datasets[None]
    assert (f.completion_tokens, f.cost_usd, f.failed_attempts, f.held_attempts) == (0, Decimal(0), 0, 0)


async def test_a_held_attempt_counts_its_worst_case_and_not_as_spend(ledger, writer) -> None:
    first, second = await claims(ledger, writer, 2)
    await writer.settle(answered(first, **HELD))
    f = (await read(ledger, reporting.figures, first.dataset_id)).datasets[None]
    assert (f.held_attempts, f.held_tokens, f.completion_tokens) == (1, 100, 0)
    assert (f.open_attempts, f.open_tokens) == (1, 100)
    assert second.hold.tokens == 100


async def test_what_nobody_told_is_unknown_and_never_0(ledger, writer) -> None:
    (claim,) = await claims(ledger, writer, 1)
    await writer.settle(answered(claim, usage=Usage(), stored=stored(23)))
    f = (await read(ledger, reporting.figures, claim.dataset_id)).datasets[None]
    assert (f.prompt_tokens, f.completion_tokens, f.cost_usd) == (None, None, None)
    assert (f.uncounted_attempts, f.unpriced_attempts, f.held_attempts) == (1, 1, 1)
    assert f.length_mean == 23


async def test_a_sum_with_a_part_untold_is_what_was_told(ledger, writer) -> None:
    first, second = await claims(ledger, writer, 2)
    await writer.settle(answered(first, 10, "0.5"))
    await writer.settle(answered(second, 30, None))
    f = (await read(ledger, reporting.figures, first.dataset_id)).datasets[None]
    assert (f.cost_usd, f.unpriced_attempts) == (Decimal("0.5"), 1)
    assert (f.completion_tokens, f.priced_tokens, f.priced_usd) == (40, 10, Decimal("0.5"))


async def test_the_cost_of_failures_that_nobody_told_is_unknown(ledger, writer) -> None:
    (claim,) = await claims(ledger, writer, 1)
    await writer.settle(answered(claim, 7, None, **FAILED))
    f = (await read(ledger, reporting.figures, claim.dataset_id)).datasets[None]
    assert (f.failed_attempts, f.failed_tokens, f.failed_usd) == (1, 7, None)


async def test_a_late_bill_replaces_the_hold(ledger, writer) -> None:
    (claim,) = await claims(ledger, writer, 1)
    await lose(ledger, writer)
    await writer.settle(answered(claim, 12, "0.5", host="late", model="m-2", finish_reason="length"))
    found = await read(ledger, reporting.figures, claim.dataset_id)
    (host,) = found.hosts[None]
    assert (host.host, host.model, host.answers, host.truncated) == ("late", "m-2", 1, 1)
    assert (host.completion_tokens, host.cost_usd, host.held_attempts, host.held_tokens) == (12, Decimal("0.5"), 0, 0)
    # Its resolution says when it was given up, not how long the answer took.
    assert host.latency_p50 is None


async def test_a_late_word_that_nothing_was_billed_is_no_failed_spend(ledger, writer) -> None:
    (claim,) = await claims(ledger, writer, 1)
    await lose(ledger, writer)
    await writer.settle(answered(claim, **RELEASED))
    f = (await read(ledger, reporting.figures, claim.dataset_id)).datasets[None]
    assert (f.held_attempts, f.completion_tokens, f.failed_attempts) == (0, 0, 0)


async def test_latency_is_from_the_hold_to_the_settlement_of_an_answer(ledger, writer) -> None:
    first, second, third = await claims(ledger, writer, 3)
    for claim, seconds in ((first, 2), (second, 4)):
        await writer.settle(answered(claim))
        await age(ledger, claim, opened=60 + seconds, closed=60)
    await writer.settle(answered(third, **RELEASED))
    await age(ledger, third, opened=900, closed=0)
    f = (await read(ledger, reporting.figures, first.dataset_id)).datasets[None]
    assert f.latency_p50 == pytest.approx(3)
    assert f.latency_p95 == pytest.approx(3.9)


async def test_a_refusal_counts_with_the_one_model_of_its_host(ledger, writer) -> None:
    first, second, third = await claims(ledger, writer, 3)
    await writer.settle(answered(first, host="a", model="m-1"))
    await writer.settle(answered(second, host="a", **RELEASED))
    await writer.settle(answered(third, **RELEASED))
    hosts = (await read(ledger, reporting.figures, first.dataset_id)).hosts[first.dataset_id]
    assert [(h.host, h.model, h.attempts, h.answers) for h in hosts] == [("a", "m-1", 2, 1), (None, None, 1, 0)]


async def test_a_refusal_of_a_host_with_two_models_names_none(ledger, writer) -> None:
    first, second, third = await claims(ledger, writer, 3)
    await writer.settle(answered(first, host="a", model="m-1"))
    await writer.settle(answered(second, host="a", model="m-2"))
    await writer.settle(answered(third, host="a", **RELEASED))
    hosts = (await read(ledger, reporting.figures, first.dataset_id)).hosts[None]
    assert [(h.model, h.attempts) for h in hosts] == [("m-1", 1), ("m-2", 1), (None, 1)]


async def test_only_the_asked_datasets_are_counted(ledger, writer) -> None:
    (first,) = await claims(ledger, writer, 1, name="a")
    (second,) = await claims(ledger, writer, 1, name="b")
    await writer.settle(answered(first, 10))
    await writer.settle(answered(second, 20))
    found = await read(ledger, reporting.figures, second.dataset_id)
    assert found.datasets[None].completion_tokens == 20
    assert set(found.datasets) == {None, second.dataset_id}


async def test_a_truncated_answer_is_one_cut_at_its_limit_or_judged_so(ledger, writer) -> None:
    first, second, third = await claims(ledger, writer, 3)
    await writer.settle(answered(first, finish_reason="length"))
    await writer.settle(answered(second, stored=stored(verdict=Verdict.TRUNCATED)))
    await writer.settle(answered(third))
    assert (await read(ledger, reporting.figures, first.dataset_id)).datasets[None].truncated == 2


async def test_mixes_count_verdicts_and_endings_by_host(ledger, writer) -> None:
    for n, claim in enumerate(await claims(ledger, writer, 3)):
        verdict = Verdict.EXACT_COUNT if n else Verdict.TRUNCATED
        reason = None if n == 2 else "stop"
        await writer.settle(answered(claim, host="a", model="m", finish_reason=reason, stored=stored(verdict=verdict)))
    found = await read(ledger, reporting.mixes, claim.dataset_id)
    assert {(m.host, m.verdict, m.finish_reason, m.answers) for m in found} == {
        ("a", "truncated", "stop", 1),
        ("a", "exact/count", "stop", 1),
        ("a", "exact/count", None, 1),
    }


async def test_failures_that_differ_in_their_digits_are_one_kind(ledger, writer) -> None:
    for n, claim in enumerate(await claims(ledger, writer, 5)):
        error = f"request 4f{n}e-{n} was refused" if n < 3 else "no route"
        await writer.settle(answered(claim, status=503, error=error, **(RELEASED if n < 4 else HELD)))
    found = await read(ledger, reporting.failures, claim.dataset_id)
    assert [(f.outcome, f.status, f.attempts) for f in found] == [
        ("released", 503, 3), ("held", 503, 1), ("released", 503, 1)
    ]  # fmt: skip
    assert {f.all_attempts for f in found} == {5}
    assert found[0].error.startswith("request 4f")


async def test_only_the_most_frequent_failures_are_told(ledger, writer) -> None:
    words = ["alpha", "bravo", "golf", "hotel", "india", "juliet", "kilo", "lima", "mike", "november", "oscar"]
    for word, claim in zip(words, await claims(ledger, writer, len(words)), strict=True):
        await writer.settle(answered(claim, error=f"kind {word}", **RELEASED))
    found = await read(ledger, reporting.failures, claim.dataset_id)
    assert len(found) == reporting.ERRORS_MAX
    assert found[0].all_attempts == len(words)


async def test_queues_tell_what_is_left_and_what_answers_took(ledger, writer) -> None:
    first, second, *_ = await claims(ledger, writer, 3, max_tokens=50)
    await fill(ledger, 2, start=3, max_tokens=80)
    await fill(ledger, 1, start=9, max_tokens=900, queue=Queue.LONG)
    await writer.settle(answered(first, 7, "0.4", **FAILED))
    await writer.settle(answered(second, 30, "0.6"))
    short, long = await read(ledger, reporting_series.queues, first.dataset_id)
    assert (short.queue, short.max_tokens, short.waiting, short.in_flight) == (Queue.SHORT, 80, 3, 1)
    assert short.worst_tokens == 50 + 50 + 80 + 80
    assert (short.answers, short.length_sum, short.length_squares, short.spent_tokens) == (1, 30, 900, 37)
    assert (short.priced_tokens, short.priced_usd) == (37, Decimal("1.0"))
    assert (long.queue, long.waiting, long.answers, long.max_tokens) == (Queue.LONG, 1, 0, 900)


@pytest.mark.parametrize(
    ("tokens", "bar"), [(0, 0), (1, 0), (10, 0), (11, 1), (390, 38), (391, 39), (400, 39), (401, 40)]
)
async def test_a_length_falls_into_its_bar(ledger, writer, tokens, bar) -> None:
    (claim,) = await claims(ledger, writer, 1, max_tokens=400)
    await writer.settle(answered(claim, tokens))
    found = await read(ledger, reporting_series.lengths, claim.dataset_id)
    assert {(b.dataset_id, b.queue, b.max_tokens, b.bar, b.answers) for b in found} == {
        (claim.dataset_id, Queue.SHORT, 400, bar, 1),
        (None, Queue.SHORT, 400, bar, 1),
    }


async def test_spend_over_time_begins_with_nothing_and_ends_with_all(ledger, writer) -> None:
    made = await claims(ledger, writer, 5)
    for n, claim in enumerate(made):
        await writer.settle(answered(claim, 10, "0.25"))
        await age(ledger, claim, opened=1000, closed=800 - 100 * n)
    found = [p for p in await read(ledger, reporting_series.spend, claim.dataset_id) if p.dataset_id is None]
    assert (found[0].tokens, found[0].usd) == (0, Decimal(0))
    assert sum(p.tokens for p in found) == 50
    assert sum(p.usd for p in found) == Decimal("1.25")
    assert found == sorted(found, key=lambda p: p.at)
    assert found[-1].at - found[0].at == pytest.approx(timedelta(seconds=600), abs=timedelta(seconds=1))


async def test_a_line_over_time_has_a_bounded_number_of_points(ledger, writer) -> None:
    for n, claim in enumerate(await claims(ledger, writer, 300)):
        await writer.settle(answered(claim))
        await age(ledger, claim, opened=4000, closed=3000 - n)
    found = await read(ledger, reporting_series.spend, claim.dataset_id)
    assert len([p for p in found if p.dataset_id is None]) <= reporting_series.POINTS + 1


async def test_the_pace_is_that_of_the_last_minutes_of_work(ledger, writer) -> None:
    made = await claims(ledger, writer, 3)
    for claim, closed in zip(made, (7200, 3700, 3600), strict=True):
        await writer.settle(answered(claim, 30))
        await age(ledger, claim, opened=8000, closed=closed)
    found = (await read(ledger, reporting_series.pace, claim.dataset_id))[claim.dataset_id]
    assert (found.answers, found.tokens) == (2, 60)
    assert found.tokens_per_second == pytest.approx(0.1)


async def test_the_pace_runs_to_now_while_calls_are_open(ledger, writer) -> None:
    first, _ = await claims(ledger, writer, 2)
    await writer.settle(answered(first, 30))
    await age(ledger, first, opened=5000, closed=3600)
    found = (await read(ledger, reporting_series.pace, first.dataset_id))[None]
    assert (found.answers, found.tokens_per_second) == (0, 0.0)


async def test_the_sums_equal_the_counters_of_the_dataset_whatever_happens(ledger, writer) -> None:
    """A random history: answers, failures, holds, untold bills and late ones."""
    rng = random.Random(5)
    made = await claims(ledger, writer, 120)
    for claim in made:
        change = rng.choice([{}, {}, {"usage": Usage()}, FAILED, HELD, RELEASED])
        if rng.random() < 0.9:
            await writer.settle(answered(claim, rng.randint(0, 100), rng.choice(["0.1", "0.02", None]), **change))
    await lose(ledger, writer)
    for claim in made[::3]:
        await writer.settle(answered(claim, rng.randint(0, 100), "0.003"))
    dataset = await one(ledger)
    f = (await read(ledger, reporting.figures, dataset.id)).datasets[dataset.id]
    assert (f.completion_tokens, f.held_tokens, f.open_tokens) == (
        dataset.spent_tokens, dataset.held_tokens, dataset.open_tokens
    )  # fmt: skip
    assert (f.cost_usd, f.unpriced_attempts) == (dataset.cost_usd, dataset.unpriced_attempts)
    assert f.answers == sum(dataset.verdicts.values())
    hosts = (await read(ledger, reporting.figures, dataset.id)).hosts[dataset.id]
    assert sum(h.attempts for h in hosts) == f.attempts


async def test_a_dataset_that_is_not_there_brings_nothing(ledger) -> None:
    found = await read(ledger, reporting.figures, 10**6)
    assert found.datasets[None].attempts == 0


async def test_the_totals_and_the_figures_of_a_snapshot_are_of_one_moment(ledger, writer) -> None:
    first, second = await claims(ledger, writer, 2)
    await writer.settle(answered(first, 10))
    async with ledger.begin() as conn:
        await reporting.snapshot(conn)
        (before,) = await reading.totals(conn)
        await writer.settle(answered(second, 30))
        found = await reporting.figures(conn, [first.dataset_id])
    assert found.datasets[None].completion_tokens == before.spent_tokens == 10
