"""Money in the ledger: caps in USD and of the plan, canary and breaker, corrections, rows that are only added."""

import asyncio
import uuid
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from eagle3gen.errors import InputError
from eagle3gen.flow import halt
from eagle3gen.flow.status import as_json
from eagle3gen.ledger import reading, unsettled
from eagle3gen.ledger.books import audit_books
from eagle3gen.ledger.datasets import add_dataset, datasets, plan_left, set_plan_cap, set_prices
from eagle3gen.ledger.demand import demand
from eagle3gen.ledger.health import Breaker, Fault
from eagle3gen.ledger.holds import HOLD_TOKENS, HOLD_USD, hold, worst
from eagle3gen.ledger.loading import load_prompts
from eagle3gen.ledger.money import Amount, Cap
from eagle3gen.ledger.states import Admission, CorrectionKind, DatasetState, Outcome, PromptState
from eagle3gen.ledger.unsettled import Correction
from eagle3gen.records import Prices, Usage

from .conftest import answered, fill, lose, one, prompt_rows, queued, spec

PRICES = Prices(prompt_usd=Decimal("0.000001"), completion_usd=Decimal("0.00001"), request_usd=Decimal("0.0005"))
HOLD = worst(PRICES, len(b'{"n":0}'), 100).usd


async def add(ledger, count=10, *, name="set", max_tokens=100, **changes) -> int:
    async with ledger.begin() as conn:
        dataset_id = await add_dataset(conn, spec(name, prices=PRICES, **changes))
        await load_prompts(conn, dataset_id, prompt_rows(count, max_tokens=max_tokens))
    return dataset_id


async def claim_all(writer, ids):
    return [c for c in await asyncio.gather(*(writer.claim(i) for i in ids)) if c]


async def test_a_hold_in_usd_prices_the_prompt_and_the_worst_completion(ledger, writer) -> None:
    (claim,) = await claim_all(writer, await queued(ledger, await add(ledger, 1)))
    # 7 bytes of JSON and 64 tokens of template, 100 tokens, one request.
    assert claim.worst == claim.hold == Amount(100, Decimal("0.000071") + Decimal("0.001") + Decimal("0.0005"))
    assert (await one(ledger)).open_usd == claim.hold.usd


async def test_a_cap_in_usd_admits_no_hold_beyond_it(ledger, writer) -> None:
    dataset_id = await add(ledger, cap_usd=HOLD * 3 + Decimal("0.0001"))
    async with ledger.begin() as conn:
        (found,) = await demand(conn)
    assert found.left.times(found.hold, 10) == 3
    claims = await claim_all(writer, await queued(ledger, dataset_id))
    assert len(claims) == 3
    await writer.settle(answered(claims[0], 10, "0.0001"))
    # What the answer did not need makes room for one more.
    assert len(await claim_all(writer, await queued(ledger, dataset_id))) == 1


async def test_a_plans_cap_is_spent_by_all_datasets_together(ledger, writer) -> None:
    first, second = await add(ledger, name="a"), await add(ledger, name="b")
    async with ledger.begin() as conn:
        await set_plan_cap(conn, Cap(450))
    ids = await queued(ledger, first) + await queued(ledger, second)
    assert len(await claim_all(writer, ids)) == 4
    async with ledger.begin() as conn:
        assert plan_left(await datasets(conn)) == Cap(50)
        totals = await reading.plan_totals(conn)
    assert (totals.open.tokens, totals.left.tokens) == (400, 50)


async def test_a_plans_cap_in_usd_needs_the_prices_of_every_dataset(ledger) -> None:
    await fill(ledger, 1, name="unpriced")
    with pytest.raises(InputError, match="no price is known for dataset unpriced"):
        async with ledger.begin() as conn:
            await set_plan_cap(conn, Cap(None, Decimal(5)))


async def test_a_dataset_without_prices_is_refused_where_the_plan_has_a_cap_in_usd(ledger) -> None:
    async with ledger.begin() as conn:
        await set_plan_cap(conn, Cap(None, Decimal(5)))
    with pytest.raises(InputError, match="no price is known for dataset unpriced"):
        await fill(ledger, 1, name="unpriced")
    await add(ledger, 1)
    await fill(ledger, 1)


async def test_a_bill_beyond_the_worst_case_is_found_by_the_audit(ledger, writer) -> None:
    first, second = await claim_all(writer, await queued(ledger, await add(ledger, 2)))
    await writer.settle(answered(first, 10, "0.5"))
    await writer.settle(answered(second, 101, "0.0001"))
    async with ledger.begin() as conn:
        (finding,) = await audit_books(conn)
    assert finding == "an attempt was billed beyond its worst case: prices rose, or max_tokens was not kept (2)"


async def test_a_cap_in_usd_without_prices_is_refused_by_the_database(ledger) -> None:
    with pytest.raises(DBAPIError, match="cap_usd_needs_prices"):
        async with ledger.begin() as conn:
            await add_dataset(conn, spec(cap_usd=Decimal(1)))


async def test_new_prices_hold_for_new_calls_and_leave_the_open_ones(ledger, writer) -> None:
    dataset_id = await add(ledger, 2)
    first, second = await queued(ledger, dataset_id)
    await writer.claim(first)
    dearer = Prices(prompt_usd=Decimal(0), completion_usd=Decimal("0.1"))
    async with ledger.begin() as conn:
        await set_prices(conn, dataset_id, dearer)
    claim = await writer.claim(second)
    assert claim.hold.usd == 10
    assert (await one(ledger)).open_usd == HOLD + 10


async def test_an_answer_without_a_price_keeps_its_worst_case_in_usd_only(ledger, writer) -> None:
    (claim,) = await claim_all(writer, await queued(ledger, await add(ledger, 1)))
    await writer.settle(answered(claim, 10, None))
    found = await one(ledger)
    assert (found.spent, found.held, found.unpriced_attempts) == (Amount(10), Amount(0, HOLD), 1)


@given(st.binary(min_size=1, max_size=50), st.integers(1, 10**6), st.integers(0, 10**6), st.booleans())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_holds_are_the_same_in_python_and_in_sql(ledger, payload, max_tokens, call_tokens, forecast) -> None:
    prices = Prices(prompt_usd=Decimal("0.00000044"), completion_usd=Decimal("0.0000022"), request_usd=Decimal("0.01"))
    expected = {str(max_tokens): call_tokens} if forecast else {}
    query = text(
        f"SELECT {HOLD_TOKENS} AS tokens, {HOLD_USD} AS usd FROM (SELECT CAST(:payload AS bytea) AS payload,"
        " CAST(:most AS integer) AS max_tokens) p, (SELECT CAST(:forecast AS jsonb) AS forecast,"
        " CAST(:prompt AS numeric) AS prompt_price_usd, CAST(:completion AS numeric) AS completion_price_usd,"
        " CAST(:request AS numeric) AS request_price_usd) d"
    )
    async with ledger.begin() as conn:
        row = (
            await conn.execute(
                query,
                {
                    "payload": payload, "most": max_tokens, "prompt": prices.prompt_usd, "request": prices.request_usd,
                    "completion": prices.completion_usd, "forecast": str(expected).replace("'", '"'),
                },
            )
        ).one()  # fmt: skip
    assert Amount(row.tokens, row.usd) == hold(prices, expected, len(payload), max_tokens)


# The canary, and the breaker that comes after it


async def test_a_canary_is_waited_for_in_full_before_the_dataset_opens(ledger, writer) -> None:
    dataset_id = await fill(ledger, 10)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=3))
    claims = await claim_all(writer, await queued(ledger, dataset_id))
    assert len(claims) == 3
    for claim in claims[:2]:
        await writer.settle(answered(claim))
        assert await claim_all(writer, await queued(ledger, dataset_id)) == []
    await writer.settle(answered(claims[2]))
    assert len(await claim_all(writer, await queued(ledger, dataset_id))) == 7


async def test_dispatch_rings_for_no_more_than_the_canary(ledger) -> None:
    await fill(ledger, 10)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=3))
        (found,) = await demand(conn)
    assert found.slots == 3


@pytest.mark.parametrize("outcome", [Outcome.RELEASED, Outcome.HELD])
async def test_a_call_that_says_nothing_about_the_answers_gives_its_place_in_the_canary_back(
    ledger, writer, outcome
) -> None:
    dataset_id = await fill(ledger, 5)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=1))
    (claim,) = await claim_all(writer, await queued(ledger, dataset_id))
    await writer.settle(answered(claim, outcome=outcome, prompt_state=PromptState.PENDING, stored=None))
    assert len(await claim_all(writer, await queued(ledger, dataset_id))) == 1
    assert (await one(ledger)).canary_judged == 0


async def test_a_lost_worker_gives_its_places_in_the_canary_back(ledger, writer) -> None:
    dataset_id = await fill(ledger, 5)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=2))
    assert len(await claim_all(writer, await queued(ledger, dataset_id))) == 2
    await lose(ledger, writer)
    found = await one(ledger)
    assert (found.canary_launched, found.canary_slots, found.held_tokens) == (0, 2, 200)


def bad(claim, fault=Fault.VERDICT):
    return answered(claim, prompt_state=PromptState.REJECTED, fault=fault, error="off by two")


async def test_a_bad_canary_pauses_the_dataset_with_reason_and_examples(ledger, writer) -> None:
    dataset_id = await fill(ledger, 10)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=4))
    claims = await claim_all(writer, await queued(ledger, dataset_id))
    await asyncio.gather(*(writer.settle(bad(c)) for c in claims))
    found = await one(ledger)
    assert found.state is DatasetState.PAUSED
    assert found.state_reason.startswith("breaker: 4 of the last 4 answers had ids that are not proved (more than 20%)")
    assert "off by two" in found.state_reason
    assert any(str(c.prompt_id) in found.state_reason for c in claims)
    assert await claim_all(writer, await queued(ledger, dataset_id)) == []


async def test_a_batch_that_trips_the_breaker_starts_nothing(ledger, writer) -> None:
    """Settlements and claims share a transaction: the claims see what the settlements did."""
    dataset_id = await fill(ledger, 30)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(breaker=Breaker(minimum=2, window=2)))
    ids = await queued(ledger, dataset_id)
    claims = await claim_all(writer, ids[:2])
    waiting = [asyncio.ensure_future(writer.settle(bad(c))) for c in claims]
    assert await claim_all(writer, ids[2:]) == []
    await asyncio.gather(*waiting)


async def test_the_breaker_looks_at_its_window_only(ledger, writer) -> None:
    dataset_id = await fill(ledger, 60)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(breaker=Breaker(minimum=10, window=20, verdict=0.5)))
    claims = await claim_all(writer, await queued(ledger, dataset_id))
    for number, claim in enumerate(claims[:40]):
        await writer.settle(bad(claim) if number % 2 else answered(claim))
    assert (await one(ledger)).state is DatasetState.OPEN
    for claim in claims[40:42]:
        await writer.settle(bad(claim))
    found = await one(ledger)
    assert (found.state, len(found.recent)) == (DatasetState.PAUSED, 20)
    (row,) = as_json([found])
    assert row["breaker"]["faults"] == {"verdict": 11, "structure": 0, "reasoning": 0, "permanent": 0, "lost": 0}


async def test_resume_forgets_what_the_breaker_saw(ledger, writer) -> None:
    dataset_id = await fill(ledger, 10)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=2))
    await asyncio.gather(*(writer.settle(bad(c)) for c in await claim_all(writer, await queued(ledger, dataset_id))))
    assert await halt.resume(ledger, None) == ["set"]
    found = await one(ledger)
    assert (found.state, found.recent, found.canary_slots) == (DatasetState.OPEN, "", None)
    assert len(await claim_all(writer, await queued(ledger, dataset_id))) == 8


async def test_resume_with_a_new_canary_ignores_what_the_old_one_still_tells(ledger, writer) -> None:
    dataset_id = await fill(ledger, 10)
    async with ledger.begin() as conn:
        await add_dataset(conn, spec(canary=2))
    first, second = await claim_all(writer, await queued(ledger, dataset_id))
    await halt.resume(ledger, None, recanary=True)
    await writer.settle(answered(first))
    await writer.settle(answered(second))
    found = await one(ledger)
    assert (found.canary_round, found.canary_judged, found.canary_slots) == (2, 0, 2)
    assert len(await claim_all(writer, await queued(ledger, dataset_id))) == 2


async def test_a_key_pauses_the_datasets_of_its_endpoint_only(ledger) -> None:
    await fill(ledger, 1, name="a")
    async with ledger.begin() as conn:
        await add_dataset(conn, spec("b", endpoint_url="http://other/v1"))
    await halt.pause_key(ledger, "http://127.0.0.1/v1", "key: 402")
    async with ledger.begin() as conn:
        states = {d.name: d.state for d in await datasets(conn)}
    assert states == {"a": DatasetState.PAUSED, "b": DatasetState.OPEN}


# Append-only rows


@pytest.mark.parametrize("table", ["attempts", "resolutions", "corrections", "generations", "key_readings"])
@pytest.mark.parametrize("change", ["DELETE FROM {}", "TRUNCATE {} CASCADE", "UPDATE {} SET {} = {}"])
async def test_a_row_of_money_is_never_changed(ledger, writer, table, change) -> None:
    column = {"attempts": "hold_tokens", "key_readings": "usage_usd"}.get(table, "attempt_id")
    with pytest.raises(DBAPIError, match="only ever added"):
        async with ledger.begin() as conn:
            await conn.execute(text(change.format(table, column, column)))


outcomes = st.lists(st.sampled_from(["settle", "release", "hold", "late", "reconcile", "write off"]), max_size=8)


@given(outcomes, st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_an_attempt_ends_once_whatever_is_told_of_it_in_whatever_order(ledger, writer, told, priced) -> None:
    name = uuid.uuid4().hex
    dataset_id = await add(ledger, 1, name=name)
    (claim,) = await claim_all(writer, await queued(ledger, dataset_id))
    for word in told:
        await tell(ledger, writer, claim, word, "0.0002" if priced else None)
    async with ledger.begin() as conn:
        query = "SELECT count(*) FROM {} WHERE attempt_id = :id"
        ends = (await conn.execute(text(query.format("resolutions")), {"id": claim.attempt_id})).scalar_one()
        later = (await conn.execute(text(query.format("corrections")), {"id": claim.attempt_id})).scalar_one()
        (found,) = [d for d in await datasets(conn) if d.name == name]
        assert await audit_books(conn) == []
    ending = [word for word in told if word in {"settle", "release", "hold", "late"}]
    assert (ends, later <= 1) == (min(1, len(ending)), True)
    assert found.spent.tokens in {0, 10}
    assert found.held.tokens + found.open_tokens in {0, 100}


async def tell(ledger, writer, claim, word, cost) -> None:
    if word in {"reconcile", "write off"}:
        kind = CorrectionKind.RECONCILED if word == "reconcile" else CorrectionKind.WRITTEN_OFF
        async with ledger.begin() as conn:
            of = [u for u in await unsettled.unsettled(conn) if u.attempt_id == claim.attempt_id]
            usage = Usage(completion_tokens=10 if word == "reconcile" else 0, cost_usd=Decimal("0.0001"))
            await unsettled.correct(conn, [Correction(of=u, kind=kind, usage=usage, reason=word) for u in of])
        return
    outcome = {"release": Outcome.RELEASED, "hold": Outcome.HELD}.get(word, Outcome.SETTLED)
    if word == "late" or outcome is Outcome.SETTLED:
        await writer.settle(answered(claim, 10, cost))
    else:
        await writer.settle(answered(claim, outcome=outcome, prompt_state=PromptState.FAILED, stored=None))


# What is noted, and settled later


async def test_the_id_of_an_open_call_is_noted_and_found_when_the_worker_is_lost(ledger, writer) -> None:
    (claim,) = await claim_all(writer, await queued(ledger, await add(ledger, 1)))
    writer.note(claim.attempt_id, "gen-7")
    for _ in range(100):
        async with ledger.begin() as conn:
            if (await conn.execute(text("SELECT count(*) FROM generations"))).scalar_one():
                break
        await asyncio.sleep(0.02)
    await lose(ledger, writer)
    async with ledger.begin() as conn:
        (found,) = await unsettled.unsettled(conn)
    assert (found.generation_id, found.worst, found.settled) == ("gen-7", Amount(100, HOLD), False)


async def test_a_note_that_cannot_be_stored_keeps_nothing_from_being_settled(ledger, writer) -> None:
    (claim,) = await claim_all(writer, await queued(ledger, await add(ledger, 1)))
    writer.note(uuid.uuid4(), "an attempt that nobody made")
    await writer.settle(answered(claim, 10))
    assert (await one(ledger)).spent_tokens == 10


async def test_a_correction_moves_the_worst_case_to_what_it_was(ledger, writer) -> None:
    (claim,) = await claim_all(writer, await queued(ledger, await add(ledger, 1)))
    await writer.settle(answered(claim, outcome=Outcome.HELD, prompt_state=PromptState.FAILED, stored=None))
    assert (await one(ledger)).held == Amount(100, HOLD)
    async with ledger.begin() as conn:
        (of,) = await unsettled.unsettled(conn)
        usage = Usage(completion_tokens=30, cost_usd=Decimal("0.0003"))
        made = [Correction(of=of, kind=CorrectionKind.RECONCILED, usage=usage, reason="record")]
        assert await unsettled.correct(conn, made) == 1
        assert await unsettled.correct(conn, made) == 0
        assert await unsettled.unsettled(conn) == []
    found = await one(ledger)
    assert (found.spent, found.held) == (Amount(30, Decimal("0.0003")), Amount())


async def test_a_late_answer_after_its_bill_was_reconciled_still_brings_its_sample(ledger, writer) -> None:
    (claim,) = await claim_all(writer, await queued(ledger, await add(ledger, 1)))
    await lose(ledger, writer)
    async with ledger.begin() as conn:
        (of,) = await unsettled.unsettled(conn)
        usage = Usage(completion_tokens=10, cost_usd=Decimal("0.001"))
        await unsettled.correct(conn, [Correction(of=of, kind=CorrectionKind.RECONCILED, usage=usage, reason="record")])
    await writer.settle(answered(claim, 10))
    found = await one(ledger)
    assert (found.done, found.spent.tokens, found.verdicts) == (1, 10, {"exact/count": 1})


# Forecast admission


async def test_under_forecast_a_call_reserves_what_it_is_expected_to_cost_and_counts_its_worst_when_lost(
    ledger, writer
) -> None:
    from eagle3gen.ledger.foresight import refresh_forecast

    dataset_id = await add(ledger, 400, cap_tokens=20_000, admission=Admission.FORECAST)
    claims = await claim_all(writer, await queued(ledger, dataset_id, 150))
    assert {c.hold.tokens for c in claims} == {100}
    await asyncio.gather(*(writer.settle(answered(c, 10)) for c in claims))
    async with ledger.begin() as conn:
        # They took a minute each.
        await conn.execute(text("SET LOCAL session_replication_role = replica"))
        await conn.execute(text("UPDATE attempts SET opened_at = opened_at - interval '1 minute'"))
    assert len(await claim_all(writer, await queued(ledger, dataset_id, 10))) == 10
    async with ledger.begin() as conn:
        await refresh_forecast(conn, dataset_id)
    (claim,) = await claim_all(writer, (await queued(ledger, dataset_id, 1)))
    assert (claim.hold.tokens < 60, claim.worst.tokens) == (True, 100)
    await lose(ledger, writer)
    assert (await one(ledger)).held_tokens == 11 * 100


async def test_what_a_call_gives_back_makes_no_room_before_the_next_forecast(ledger, writer) -> None:
    from eagle3gen.ledger.foresight import refresh_forecast

    dataset_id = await add(ledger, 10, cap_tokens=1000, admission=Admission.FORECAST)
    claims = await claim_all(writer, await queued(ledger, dataset_id))
    before = (await one(ledger)).left.tokens
    await writer.settle(answered(claims[0], 10))
    assert (await one(ledger)).left.tokens == before
    async with ledger.begin() as conn:
        await refresh_forecast(conn, dataset_id)
    assert (await one(ledger)).left.tokens > before


async def test_strict_again_forgets_the_forecast(ledger, writer) -> None:
    dataset_id = await add(ledger, 10, cap_tokens=1000, admission=Admission.FORECAST)
    await writer.settle(answered((await claim_all(writer, await queued(ledger, dataset_id)))[0], 10))
    await add(ledger, 10, admission=Admission.STRICT)
    found = await one(ledger)
    assert (found.admission, found.forecast, found.reserve_tokens) == (Admission.STRICT, {}, 0)
