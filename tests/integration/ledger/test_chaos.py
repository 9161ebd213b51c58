"""Several workers, doubled messages, random endings, stops, moving caps and lost workers, all at once.

The seed is printed; EAGLE3GEN_TEST_SEED replays a failure (as far as the order of commits allows).
"""

import asyncio
import os
import random
import uuid
from dataclasses import dataclass, field

import pytest
from sqlalchemy import text

from eagle3gen.ledger import sweeping
from eagle3gen.ledger.books import audit_books
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import add_dataset, datasets, set_state
from eagle3gen.ledger.demand import demand, queue_prompts
from eagle3gen.ledger.states import MOVES, DatasetState, Outcome, PromptState
from eagle3gen.ledger.writer import LedgerWriter
from eagle3gen.records import Queue, Usage

from .conftest import answered, fill, lose, register, spec

PROMPTS = 60
ROUNDS = 10
WATCH = """
CREATE TABLE moves (source text, target text);
CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN IF OLD.state <> NEW.state THEN INSERT INTO moves VALUES (OLD.state, NEW.state); END IF; RETURN NULL; END$$;
CREATE TRIGGER watch AFTER UPDATE ON prompts FOR EACH ROW EXECUTE FUNCTION watch();
"""


@dataclass
class Fleet:
    """Three workers on two datasets, and the bill that their endpoint would write."""

    ledger: Ledger
    rng: random.Random
    caps: dict[str, int]
    writers: list[LedgerWriter] = field(default_factory=list)
    billed: int = 0

    async def start(self) -> None:
        for _ in range(3):
            writer = LedgerWriter(self.ledger, uuid.uuid4(), batch=self.rng.randint(1, 50))
            await writer.start()
            await register(self.ledger, writer._worker_id)
            self.writers.append(writer)

    async def work(self, prompt_id: int) -> None:
        writer = self.rng.choice(self.writers)
        claiming = asyncio.create_task(writer.claim(prompt_id))
        if self.rng.random() < 0.05:
            await asyncio.sleep(self.rng.random() * 0.01)
            claiming.cancel()
            await asyncio.wait([claiming])
            return
        claim = await claiming
        if claim is None:
            return
        await asyncio.sleep(self.rng.random() * 0.01)
        ending = self.ending(claim)
        if self.rng.random() < 0.1:
            self.billed -= ending.billed_tokens or 0  # nobody will ever tell the ledger
            return
        await writer.settle(ending)
        if self.rng.random() < 0.2:
            await writer.settle(ending)

    def ending(self, claim):
        outcome = self.rng.choice([*[Outcome.SETTLED] * 6, Outcome.RELEASED, Outcome.HELD])
        if outcome is not Outcome.SETTLED:
            state = self.rng.choice([PromptState.PENDING, PromptState.PENDING, PromptState.FAILED])
            return answered(claim, outcome=outcome, prompt_state=state, stored=None)
        tokens = self.rng.randint(1, claim.max_tokens)
        self.billed += tokens
        state = self.rng.choice([PromptState.DONE] * 4 + [PromptState.REJECTED, PromptState.PENDING])
        sample = {"stored": None} if state is PromptState.PENDING else {}
        return answered(claim, usage=Usage(completion_tokens=tokens), prompt_state=state, **sample)

    async def round(self) -> None:
        async with self.ledger.begin() as conn:
            ids = []
            for wanted in await demand(conn):
                ids += await queue_prompts(conn, wanted.dataset_id, Queue.SHORT, self.rng.randint(1, 30))
        doubled = self.rng.sample(ids, len(ids) // 2)
        meanwhile = self.rng.choice([self.stop_and_resume, self.lose_one, self.raise_cap, self.purge])
        await asyncio.gather(meanwhile(), *(self.work(i) for i in [*ids, *doubled]))

    async def stop_and_resume(self) -> None:
        for state in (DatasetState.STOPPED, DatasetState.OPEN):
            async with self.ledger.begin() as conn:
                await set_state(conn, ["a", "b"], state, "")
                await sweeping.unqueue(conn, None)
            await asyncio.sleep(0.01)

    async def lose_one(self) -> None:
        """It lives on all the same: its endings come late."""
        await lose(self.ledger, self.rng.choice(self.writers))

    async def raise_cap(self) -> None:
        name = self.rng.choice(list(self.caps))
        self.caps[name] += self.rng.randint(0, 500)
        async with self.ledger.begin() as conn:
            await add_dataset(conn, spec(name, cap_tokens=self.caps[name]))

    async def purge(self) -> None:
        async with self.ledger.begin() as conn:
            await sweeping.unqueue(conn, None)

    async def check(self) -> None:
        async with self.ledger.begin() as conn:
            assert await audit_books(conn) == []
            for d in await datasets(conn):
                assert d.spent_tokens + d.held_tokens + d.open_tokens <= d.cap_tokens
                assert min(d.spent_tokens, d.held_tokens, d.open_tokens) >= 0
            moves = await conn.execute(text("SELECT DISTINCT source, target FROM moves"))
            assert all(PromptState(target) in MOVES[PromptState(source)] for source, target in moves)


@pytest.mark.parametrize("round_", range(4))
async def test_whatever_happens_at_once_no_cap_is_passed_and_every_token_is_told(ledger, round_) -> None:
    seed = int(os.environ.get("EAGLE3GEN_TEST_SEED") or random.randrange(10**6))
    print(f"EAGLE3GEN_TEST_SEED={seed}")
    rng = random.Random(seed)
    fleet = Fleet(ledger, rng, {name: rng.randint(300, 3000) for name in "ab"})
    async with ledger.begin() as conn:
        await conn.exec_driver_sql(WATCH)
    for name, cap in fleet.caps.items():
        await fill(ledger, PROMPTS, name=name, cap=cap)
        await fill(ledger, 10, start=PROMPTS, name=name, max_tokens=250)
    await fleet.start()
    for _ in range(ROUNDS):
        await fleet.round()
        await fleet.check()
    for writer in fleet.writers:
        await writer.close(5)
    async with ledger.begin() as conn:
        await sweeping.forget_workers(conn)
        spent = sum(d.spent_tokens for d in await datasets(conn))
        assert {d.open_tokens for d in await datasets(conn)} == {0}
    await fleet.check()
    assert spent == fleet.billed
