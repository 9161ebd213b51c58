"""What dispatch asks of the ledger: what is due, what is queued, who is lost."""

import uuid

import pytest
from sqlalchemy import text

from eagle3gen.ledger import demand as demands
from eagle3gen.ledger import sweeping
from eagle3gen.ledger.datasets import set_state
from eagle3gen.ledger.demand import Demand
from eagle3gen.ledger.money import Amount, Cap
from eagle3gen.ledger.states import DatasetState, Outcome, PromptState
from eagle3gen.ledger.sweeping import WorkerRow
from eagle3gen.records import Queue

from .conftest import answered, fill, lose, one, queued, register


async def demand(ledger) -> list[Demand]:
    async with ledger.begin() as conn:
        return await demands.demand(conn)


async def execute(ledger, statement: str, **parameters) -> None:
    async with ledger.begin() as conn:
        # A test may age what only time ages.
        await conn.execute(text("SET LOCAL session_replication_role = replica"))
        await conn.execute(text(statement), parameters)


async def test_demand_tells_what_is_due_and_queued_per_dataset_and_queue(ledger) -> None:
    first = await fill(ledger, 5, name="a", cap=1000)
    second = await fill(ledger, 2, name="b", queue=Queue.LONG, max_tokens=70)
    await queued(ledger, first, 2)
    assert await demand(ledger) == [
        Demand(dataset_id=first, queue=Queue.SHORT, pending_due=3, queued=2, hold=Amount(100), left=Cap(1000)),
        Demand(dataset_id=second, queue=Queue.LONG, pending_due=2, queued=0, hold=Amount(70)),
    ]


async def test_what_is_only_queued_is_still_a_demand(ledger) -> None:
    dataset_id = await fill(ledger, 2)
    await queued(ledger, dataset_id)
    (found,) = await demand(ledger)
    assert (found.pending_due, found.queued, found.hold.tokens) == (0, 2, 100)


@pytest.mark.parametrize("state", [DatasetState.PAUSED, DatasetState.STOPPED])
async def test_a_closed_dataset_demands_nothing(ledger, state) -> None:
    await fill(ledger, 2)
    async with ledger.begin() as conn:
        await set_state(conn, ["set"], state, "")
    assert await demand(ledger) == []


async def test_what_is_due_later_is_not_due_now(ledger) -> None:
    dataset_id = await fill(ledger, 2)
    await execute(ledger, "UPDATE prompts SET not_before = now() + interval '1 hour' WHERE source = 'f line 0'")
    (found,) = await demand(ledger)
    assert found.pending_due == 1
    assert len(await queued(ledger, dataset_id)) == 1


async def test_headroom_counts_spent_held_and_open_tokens(ledger, writer) -> None:
    ids = await queued(ledger, await fill(ledger, 4, cap=1000), 3)
    for prompt_id, outcome in zip(ids, (Outcome.SETTLED, Outcome.HELD, None), strict=True):
        claim = await writer.claim(prompt_id)
        if outcome is Outcome.SETTLED:
            await writer.settle(answered(claim, 10))
        elif outcome is Outcome.HELD:
            await writer.settle(answered(claim, outcome=outcome, prompt_state=PromptState.FAILED, stored=None))
    (found,) = await demand(ledger)
    assert found.left.tokens == 1000 - 10 - 100 - 100


async def test_prompts_are_queued_oldest_first_and_once(ledger) -> None:
    dataset_id = await fill(ledger, 5)
    first = await queued(ledger, dataset_id, 3)
    second = await queued(ledger, dataset_id, 3)
    assert [len(first), len(second)] == [3, 2]
    assert first + second == sorted({*first, *second})


async def test_two_passes_at_once_queue_different_prompts(ledger) -> None:
    dataset_id = await fill(ledger, 4)
    async with ledger.begin() as one_pass, ledger.begin() as other_pass:
        first = await demands.queue_prompts(one_pass, dataset_id, Queue.SHORT, 2)
        second = await demands.queue_prompts(other_pass, dataset_id, Queue.SHORT, 2)
    assert len({*first, *second}) == 4


async def test_a_prompt_too_large_for_the_cap_does_not_bar_the_way_of_smaller_ones(ledger) -> None:
    """A second run with another max_tokens mixes holds in one queue; the rest must be used up all the same."""
    dataset_id = await fill(ledger, 3, cap=250, max_tokens=300)
    await fill(ledger, 2, start=3, max_tokens=100)
    (found,) = await demand(ledger)
    assert (found.pending_due, found.hold.tokens) == (5, 100)
    assert len(await queued(ledger, dataset_id, 2)) == 2


async def test_demand_of_what_cannot_fit_is_told_with_its_true_hold(ledger) -> None:
    dataset_id = await fill(ledger, 2, cap=50)
    (found,) = await demand(ledger)
    assert (found.pending_due, found.hold.tokens, found.left.tokens) == (2, 100, 50)
    assert await queued(ledger, dataset_id) == []


async def test_only_the_longest_queued_are_rung_for_again_and_then_count_as_new(ledger) -> None:
    ids = await queued(ledger, await fill(ledger, 4))
    await execute(ledger, "UPDATE prompts SET queued_at = now() - id * interval '1 minute'")
    async with ledger.begin() as conn:
        assert await sweeping.stale_queued(conn, Queue.LONG, 1, 10) == []
        assert await sweeping.stale_queued(conn, Queue.SHORT, 1, 2) == ids[2:]
        assert await sweeping.stale_queued(conn, Queue.SHORT, 1, 10) == ids[:2]
        assert await sweeping.stale_queued(conn, Queue.SHORT, 1, 10) == []


async def test_unqueueing_gives_back_the_queued_prompts_of_these_datasets(ledger, writer) -> None:
    first, second = await fill(ledger, 3, name="a"), await fill(ledger, 3, name="b")
    ids = await queued(ledger, first)
    await queued(ledger, second)
    await writer.claim(ids[0])
    async with ledger.begin() as conn:
        assert await sweeping.unqueue(conn, [first]) == 2
        assert await sweeping.unqueue(conn, None) == 3


async def test_one_leads_at_a_time_until_its_transaction_ends(ledger) -> None:
    async with ledger.begin() as conn:
        assert await sweeping.try_lock(conn, 7)
        async with ledger.begin() as other:
            assert not await sweeping.try_lock(other, 7)
    async with ledger.begin() as conn:
        assert await sweeping.try_lock(conn, 7)


async def test_slots_are_those_of_workers_that_have_not_left(ledger) -> None:
    gone = uuid.uuid4()
    await register(ledger, gone)
    await register(ledger, uuid.uuid4())
    async with ledger.begin() as conn:
        await sweeping.leave(conn, gone)
        await sweeping.heartbeat(conn, WorkerRow(id=uuid.uuid4(), host="h", pid=2, queue=Queue.LONG, concurrency=5))
        assert await sweeping.live_slots(conn) == {Queue.SHORT: 10, Queue.LONG: 5}


async def test_a_worker_that_was_given_up_is_alive_again_with_its_next_heartbeat(ledger, writer) -> None:
    await lose(ledger, writer)
    await register(ledger, writer._worker_id)
    async with ledger.begin() as conn:
        assert await sweeping.live_slots(conn) == {Queue.SHORT: 10}


async def test_leaving_holds_what_is_still_open_and_only_that(ledger, writer) -> None:
    ids = await queued(ledger, await fill(ledger, 2))
    await writer.settle(answered(await writer.claim(ids[0]), 10))
    await writer.claim(ids[1])
    await register(ledger, writer._worker_id)
    async with ledger.begin() as conn:
        await sweeping.leave(conn, writer._worker_id)
    found = await one(ledger)
    assert (found.done, found.spent_tokens, found.held_tokens, found.open_tokens) == (1, 10, 100, 0)


async def test_an_attempt_committed_after_its_worker_was_given_up_is_found_as_well(ledger, writer) -> None:
    """A commit may still be on its way while the worker is being given up, and nobody looks at that worker again."""
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    await lose(ledger, writer)
    await writer.claim(prompt_id)
    await execute(ledger, "UPDATE attempts SET opened_at = now() - interval '20 seconds'")
    async with ledger.begin() as conn:
        await sweeping.lost_workers(conn, 30)
    assert (await one(ledger)).in_flight == 1
    async with ledger.begin() as conn:
        await sweeping.lost_workers(conn, 15)
    assert (await one(ledger)).held_tokens == 100


async def test_an_attempt_of_a_worker_that_never_told_of_itself_is_found_as_well(ledger, writer) -> None:
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    await writer.claim(prompt_id)
    await execute(ledger, "UPDATE attempts SET opened_at = now() - interval '20 seconds'")
    async with ledger.begin() as conn:
        assert await sweeping.lost_workers(conn, 15) == 0
    assert (await one(ledger)).held_tokens == 100


async def test_old_calls_of_a_living_worker_are_left_alone(ledger, writer) -> None:
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    await writer.claim(prompt_id)
    await register(ledger, writer._worker_id)
    await execute(ledger, "UPDATE attempts SET opened_at = now() - interval '1 hour'")
    async with ledger.begin() as conn:
        assert await sweeping.lost_workers(conn, 15) == 0
    assert (await one(ledger)).in_flight == 1


async def test_forgetting_finds_attempts_of_workers_that_had_left_already(ledger, writer) -> None:
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    await lose(ledger, writer)
    await writer.claim(prompt_id)
    async with ledger.begin() as conn:
        assert await sweeping.forget_workers(conn) == 0
    assert (await one(ledger)).held_tokens == 100


async def test_a_lost_prompt_is_due_at_once_and_uncounted(ledger, writer) -> None:
    dataset_id = await fill(ledger, 1)
    (prompt_id,) = await queued(ledger, dataset_id)
    await writer.claim(prompt_id)
    await lose(ledger, writer)
    assert await queued(ledger, dataset_id) == [prompt_id]
    assert (await writer.claim(prompt_id)).tries == 1
