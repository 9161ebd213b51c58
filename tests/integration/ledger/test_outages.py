"""The writer and a database that goes away, answers late, or is asked by a worker that is leaving."""

import asyncio
import contextlib
import dataclasses
import os
import signal
import uuid
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from eagle3gen.errors import InvariantBroken, ServiceUnreachable
from eagle3gen.ledger import sweeping
from eagle3gen.ledger import writer as writer_module
from eagle3gen.ledger.batch import commit_batch
from eagle3gen.ledger.claims import Wish
from eagle3gen.ledger.connect import Ledger, open_ledger
from eagle3gen.ledger.datasets import lock_datasets, set_state
from eagle3gen.ledger.migrate import upgrade
from eagle3gen.ledger.states import DatasetState, Outcome, PromptState
from eagle3gen.ledger.writer import LedgerWriter
from eagle3gen.local.services import start_services
from eagle3gen.records import Usage

from .conftest import answered, fill, lose, one, queued, stored


class Flaky(Ledger):
    """A ledger whose transactions fail as a test says: before they begin, or after they were committed."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger.engine, ledger.where)
        self.away = False
        self.lost_answers = 0
        self.lost = asyncio.Event()

    @contextlib.asynccontextmanager
    async def begin(self):
        if self.away:
            raise ServiceUnreachable("away")
        async with super().begin() as conn:
            yield conn
        if self.lost_answers:
            self.lost_answers -= 1
            self.lost.set()
            raise ServiceUnreachable("the answer to the commit was lost")


@pytest.fixture
def flaky(ledger) -> Flaky:
    return Flaky(ledger)


@pytest.fixture
async def shaky(flaky, monkeypatch):
    """A writer on the flaky ledger, quick to try again."""
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.01)
    made = LedgerWriter(flaky, uuid.uuid4())
    await made.start()
    yield made
    await made.close(5)


async def test_claims_and_endings_whose_commit_was_not_answered_count_once(ledger, flaky, shaky) -> None:
    ids = await queued(ledger, await fill(ledger, 10, cap=10_000))
    flaky.lost_answers = 2
    claims = await asyncio.gather(*(shaky.claim(i) for i in ids))
    assert None not in claims
    assert (await one(ledger)).open_tokens == 1000
    flaky.lost_answers = 2
    await asyncio.gather(*(shaky.settle(answered(c, 10)) for c in claims))
    found = await one(ledger)
    assert (found.done, found.spent_tokens, found.cost_usd) == (10, 100, Decimal("0.010"))


async def test_an_attempt_given_up_while_its_commit_went_unanswered_is_no_claim(ledger, flaky, shaky) -> None:
    """The outage outlasts the worker's timeout: its prompt is queued again before the claim is repeated."""
    dataset_id = await fill(ledger, 1)
    (prompt_id,) = await queued(ledger, dataset_id)
    flaky.lost_answers = 1
    waiting = asyncio.create_task(shaky.claim(prompt_id))
    await flaky.lost.wait()
    flaky.away = True
    await lose(ledger, shaky)
    await queued(ledger, dataset_id)
    flaky.away = False
    assert await waiting is None
    found = await one(ledger)
    assert (found.held_tokens, found.open_tokens, found.queued) == (100, 0, 1)


async def test_a_repeated_claim_waits_for_the_commit_that_may_still_come(ledger) -> None:
    """The server may be committing yet while the worker, cut off, asks again; it must not be told `not due`."""
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    worker, wish = uuid.uuid4(), Wish(prompt_id, uuid.uuid4())

    async def again():
        async with ledger.begin() as conn:
            return await commit_batch(conn, worker, [wish], [], repeated=True)

    async with ledger.begin() as conn:
        first = await commit_batch(conn, worker, [wish], [])
        waiting = asyncio.create_task(again())
        await asyncio.sleep(0.1)
        assert not waiting.done()
    assert (await waiting).claims == first.claims
    assert (await one(ledger)).open_tokens == 100


async def test_a_full_connection_pool_is_waited_out_and_spoils_no_answer(database_url) -> None:
    """Other users of the pool may hold it for long; a paid answer waits for its turn."""
    ledger = open_ledger(database_url, pool_size=1)
    ledger.engine.pool._timeout = 0.05
    ledger.engine.pool._max_overflow = 0
    made = LedgerWriter(ledger, uuid.uuid4())
    await made.start()
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    claim = await made.claim(prompt_id)
    async with ledger.begin():
        settling = asyncio.create_task(made.settle(answered(claim, 10)))
        await asyncio.sleep(0.3)
        assert not settling.done()
    await settling
    assert (await one(ledger)).spent_tokens == 10
    await made.close(5)
    await ledger.close()


async def test_a_database_that_became_a_standby_is_waited_out_and_spoils_no_answer(ledger, shaky, database_url) -> None:
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    claim = await shaky.claim(prompt_id)
    name = database_url.rsplit("/", 1)[1]
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as conn:
        await conn.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        await ledger.engine.dispose()
        settling = asyncio.create_task(shaky.settle(answered(claim, 10)))
        await asyncio.sleep(0.2)
        assert not settling.done()
        await conn.execute("SET default_transaction_read_only = off")
        await conn.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')
        await conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await settling
    assert (await one(ledger)).spent_tokens == 10


async def test_a_process_frozen_in_a_transaction_does_not_keep_its_locks(ledger, monkeypatch, database_url) -> None:
    from eagle3gen.ledger import connect

    monkeypatch.setattr(connect, "IDLE_SECONDS", 1)
    frozen = open_ledger(database_url)
    dataset_id = await fill(ledger, 1)

    async def freeze_and_go_on() -> None:
        async with frozen.begin() as conn:
            await lock_datasets(conn, [dataset_id])
            async with asyncio.timeout(10), ledger.begin() as other:
                await lock_datasets(other, [dataset_id])
            await conn.execute(text("SELECT 1"))

    with pytest.raises(ServiceUnreachable):
        await freeze_and_go_on()
    await frozen.close()


async def test_a_crash_of_postgres_in_the_middle_loses_nothing(tmp_path: Path) -> None:
    """Killed without goodbye while 200 prompts are worked on, then started again: each is settled, once."""
    async with start_services(tmp_path / "state", broker=False) as services:
        await asyncio.to_thread(upgrade, services.database_url)
        ledger = open_ledger(services.database_url)
        made = LedgerWriter(ledger, uuid.uuid4(), batch=20)
        await made.start()
        ids = await queued(ledger, await fill(ledger, 200, cap=20_000))

        async def work(prompt_id: int) -> None:
            await asyncio.sleep((prompt_id % 20) / 20)
            claim = await made.claim(prompt_id)
            await asyncio.sleep(0.2)
            await made.settle(answered(claim, 10))

        working = asyncio.gather(*(work(i) for i in ids))
        await asyncio.sleep(0.5)
        os.kill(int((tmp_path / "state/postgres/postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
        assert await services.postgres.ended(20)
        assert not working.done()
        services.check()
        await working
        await made.close(10)
        found = await one(ledger)
        assert (found.done, found.spent_tokens, found.open_tokens) == (200, 2000, 0)
        await ledger.close()


async def test_a_claim_whose_task_is_cancelled_in_the_turn_it_arrives_is_given_back(ledger, writer) -> None:
    """The result is there, but its task wakes up to the cancellation: nobody else knows of the attempt."""
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    waiting = asyncio.create_task(writer.claim(prompt_id))
    answer = writer._answer

    def answer_and_cancel(*args) -> None:
        answer(*args)
        waiting.cancel()

    writer._answer = answer_and_cancel
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0.2)
    found = await one(ledger)
    assert (found.in_flight, found.open_tokens, found.held_tokens) == (0, 0, 0)


async def test_closing_tells_what_waits_and_ends_claims_with_nothing(ledger, writer) -> None:
    ids = await queued(ledger, await fill(ledger, 3))
    claim = await writer.claim(ids[0])
    settling = asyncio.create_task(writer.settle(answered(claim, 10)))
    claiming = asyncio.create_task(writer.claim(ids[1]))
    await asyncio.sleep(0)
    await writer.close(5)
    await settling
    assert await claiming is None
    assert await writer.claim(ids[2]) is None
    found = await one(ledger)
    assert (found.done, found.in_flight) == (1, 0)


async def test_closing_without_the_database_leaves_nobody_waiting(ledger, flaky, shaky) -> None:
    ids = await queued(ledger, await fill(ledger, 3))
    claims = [await shaky.claim(i) for i in ids[:2]]
    flaky.away = True
    settling = [asyncio.create_task(shaky.settle(answered(c))) for c in claims]
    claiming = asyncio.create_task(shaky.claim(ids[2]))
    await asyncio.sleep(0.05)
    async with asyncio.timeout(2):
        await shaky.close(0.2)
        assert await claiming is None
        for each in settling:
            with pytest.raises(ServiceUnreachable, match="the attempt is held"):
                await each
        with pytest.raises(ServiceUnreachable):
            await shaky.settle(answered(claims[0]))


async def test_a_bug_in_a_listener_ends_no_other_prompt(ledger, writer) -> None:
    ids = await queued(ledger, await fill(ledger, 2))

    def broken(_) -> None:
        writer.on_states = lambda _: None
        raise KeyError("a bug")

    writer.on_states = broken
    with pytest.raises(KeyError):
        await writer.claim(ids[0])
    assert await writer.claim(ids[1]) is not None


IMPOSSIBLE = {
    "tokens below nothing": {"usage": Usage(completion_tokens=-5)},
    "tokens beyond any column": {"usage": Usage(completion_tokens=2**70)},
    "a cost below nothing": {"usage": Usage(completion_tokens=5, cost_usd=Decimal(-1))},
    "a cost that is no number": {"usage": Usage(completion_tokens=5, cost_usd=Decimal("NaN"))},
    "a status beyond any": {"status": 10**6},
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
async def test_an_impossible_bill_is_held_and_never_makes_room(ledger, writer, what) -> None:
    ids = await queued(ledger, await fill(ledger, 8, cap=1000))
    claims = await asyncio.gather(*(writer.claim(i) for i in ids))
    endings = [answered(c, 10) for c in claims]
    endings[3] = dataclasses.replace(endings[3], **IMPOSSIBLE[what])
    await asyncio.gather(*(writer.settle(e) for e in endings))
    found = await one(ledger)
    assert (found.done, found.failed, found.spent_tokens, found.held_tokens) == (7, 1, 70, 100)
    assert found.cost_usd == Decimal("0.007")


async def test_names_that_are_no_text_do_not_cost_an_answer(ledger, writer) -> None:
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    odd = "a\0\ud800" + "x" * 9999
    claim = await writer.claim(prompt_id)
    sample = dataclasses.replace(stored(), reason=odd)
    await writer.settle(
        answered(claim, 10, generation_id=odd, model=odd, host=odd, finish_reason=odd, error=odd, stored=sample)
    )
    assert (await one(ledger)).done == 1


async def test_an_ending_that_not_even_bare_can_be_told_fails_alone(ledger, writer) -> None:
    ids = await queued(ledger, await fill(ledger, 2))
    good, bad = [await writer.claim(i) for i in ids]
    strange = dataclasses.replace(bad, attempt_id=uuid.uuid4())
    results = await asyncio.gather(
        writer.settle(answered(good, 10)), writer.settle(answered(strange, 10)), return_exceptions=True
    )
    assert results[0] is None
    assert isinstance(results[1], InvariantBroken)
    assert (await one(ledger)).spent_tokens == 10


async def test_late_word_that_nothing_was_billed_frees_the_hold(ledger, writer) -> None:
    dataset_id = await fill(ledger, 1)
    claim = await writer.claim((await queued(ledger, dataset_id))[0])
    await lose(ledger, writer)
    ending = answered(claim, outcome=Outcome.RELEASED, prompt_state=PromptState.PENDING, stored=None)
    await writer.settle(ending)
    await writer.settle(ending)
    found = await one(ledger)
    assert (found.held_tokens, found.spent_tokens, found.cost_usd, found.unpriced_attempts) == (0, 0, 0, 0)
    assert await queued(ledger, dataset_id) == [claim.prompt_id]


async def test_a_correction_is_made_once(ledger, writer) -> None:
    claim = await writer.claim((await queued(ledger, await fill(ledger, 1)))[0])
    await lose(ledger, writer)
    await asyncio.gather(*(writer.settle(answered(claim, tokens)) for tokens in (10, 20, 30)))
    await writer.settle(answered(claim, 40))
    assert (await one(ledger)).spent_tokens == 10


async def test_an_attempt_settled_twice_in_one_commit_counts_once_and_the_first_word_holds(ledger, writer) -> None:
    claim = await writer.claim((await queued(ledger, await fill(ledger, 1)))[0])
    await asyncio.gather(*(writer.settle(answered(claim, tokens)) for tokens in (10, 20, 30)))
    found = await one(ledger)
    assert (found.spent_tokens, found.open_tokens, found.cost_usd) == (10, 0, Decimal("0.001"))


async def test_stopping_all_while_workers_commit_does_not_deadlock(ledger) -> None:
    """A stop holds the datasets and wants the queued prompts; a claim holds the prompt and wants its dataset."""
    (prompt_id,) = await queued(ledger, await fill(ledger, 1))
    wish = Wish(prompt_id, uuid.uuid4())
    async with asyncio.timeout(5), ledger.begin() as stopping:
        await set_state(stopping, ["set"], DatasetState.STOPPED, "")
        async with contextlib.AsyncExitStack() as stack:
            claiming = await stack.enter_async_context(ledger.begin())
            waiting = asyncio.create_task(commit_batch(claiming, uuid.uuid4(), [wish], []))
            await asyncio.sleep(0.1)
            assert not waiting.done()
            assert await sweeping.unqueue(stopping, None) == 0
            await stopping.commit()
            assert (await waiting).claims == {}
    found = await one(ledger)
    assert found.count(PromptState.PENDING) == 1
