"""Whole runs against the real ledger, with everything that goes wrong: no cap is passed, and the books balance.

Each run has its own seed, printed when it fails: `EAGLE3GEN_SEED=7 EAGLE3GEN_RUNS=1 pytest tests/simulation` replays
run 7. `EAGLE3GEN_RUNS` says how many runs there are.
"""

import os
import random
import uuid
from dataclasses import dataclass, field, replace
from decimal import Decimal

import pytest
from sqlalchemy import text

from eagle3gen.ledger import reading, unsettled
from eagle3gen.ledger.batch import commit_batch
from eagle3gen.ledger.books import audit_books
from eagle3gen.ledger.claims import Claim, Wish
from eagle3gen.ledger.connect import open_ledger
from eagle3gen.ledger.datasets import DatasetSpec, add_dataset, datasets, lock_all_datasets, plan_left, set_plan_cap
from eagle3gen.ledger.demand import demand, queue_prompts
from eagle3gen.ledger.ids import compress, encode_ids
from eagle3gen.ledger.loading import PromptRow, load_prompts
from eagle3gen.ledger.money import ZERO, Amount, Cap
from eagle3gen.ledger.settlements import Settlement, StoredSample
from eagle3gen.ledger.states import Admission, CorrectionKind, Outcome, PromptState
from eagle3gen.ledger.sweeping import _hold_open_attempts
from eagle3gen.ledger.unsettled import Correction
from eagle3gen.records import Prices, Queue, Usage, Verdict

RUNS = int(os.environ.get("EAGLE3GEN_RUNS", "25"))
SEED = int(os.environ.get("EAGLE3GEN_SEED", "0"))
PRICES = Prices(prompt_usd=Decimal("0.0000006"), completion_usd=Decimal("0.000003"), request_usd=Decimal("0.0001"))
MOST = 1000
TABLES = "datasets, prompts, attempts, resolutions, corrections, generations, samples, workers"
SAMPLE = StoredSample(
    verdict=Verdict.EXACT_COUNT, prompt_ids=encode_ids([1]), output_ids=encode_ids([2]), prompt_len=1, output_len=1,
    difference=0, prompt_difference=0, hypothesis="base", reason="", tokenizer_sha256="s", body=compress(b"{}"),
)  # fmt: skip


@dataclass
class Bill:
    """The endpoint's own: what every call really cost, whether anybody heard of it or not."""

    calls: dict[uuid.UUID, Amount] = field(default_factory=dict)

    def charge(self, claim: Claim, rng: random.Random) -> Usage:
        tokens = min(claim.max_tokens, int(rng.lognormvariate(5.5, 1.0)) + 1)
        # Prices move, but never above what the holds were made with: `max_price` sees to that.
        price = PRICES.completion_usd * rng.choice([1, Decimal("0.5"), Decimal("0.7731")])
        prompt = rng.randint(1, len(claim.payload))
        cost = price * tokens + PRICES.prompt_usd * prompt + PRICES.request_usd
        self.calls[claim.attempt_id] = Amount(tokens, cost)
        return Usage(prompt_tokens=prompt, completion_tokens=tokens, cost_usd=cost)

    @property
    def total(self) -> Amount:
        return sum(self.calls.values(), start=ZERO)


@dataclass
class Run:
    """One simulated run: several workers with open calls, on two datasets with caps, until nothing can start."""

    ledger: object
    rng: random.Random
    bill: Bill = field(default_factory=Bill)
    open: dict[uuid.UUID, list[Claim]] = field(default_factory=dict)
    lowered: bool = False
    """A cap was put below what was used already; then only nothing new may start."""

    async def prepare(self) -> None:
        async with self.ledger.begin() as conn:
            await conn.execute(text("SET LOCAL session_replication_role = replica"))
            await conn.execute(text(f"TRUNCATE {TABLES} RESTART IDENTITY"))
            await conn.execute(text("UPDATE plan SET cap_tokens = NULL, cap_usd = NULL"))
        self.open = {uuid.uuid4(): [] for _ in range(self.rng.randint(1, 4))}
        for name in ("a", "b"):
            spec = DatasetSpec(
                name=name, model="m", endpoint_url="u", tokenizer="t", tokenizer_sha256="s", sampling={},
                cap_tokens=self.rng.choice([None, self.rng.randint(MOST, 20_000)]),
                cap_usd=self.rng.choice([None, Decimal(self.rng.randint(4, 60)) / 1000]), prices=PRICES,
                admission=Admission.STRICT, canary=self.rng.choice([0, 0, 3, 8]),
            )  # fmt: skip
            rows = [
                PromptRow(
                    key=n.to_bytes(32), source="f", payload=b"x" * self.rng.randint(10, 300), queue=Queue.SHORT,
                    max_tokens=self.rng.choice([MOST, 300]),
                )
                for n in range(self.rng.randint(5, 60))
            ]  # fmt: skip
            async with self.ledger.begin() as conn:
                await load_prompts(conn, await add_dataset(conn, spec), rows)
        async with self.ledger.begin() as conn:
            await set_plan_cap(conn, self.rng.choice([Cap(), Cap(15_000), Cap(None, Decimal("0.05")), Cap(9000)]))

    async def step(self) -> None:
        worker = self.rng.choice(list(self.open))
        happens = self.rng.random()
        if happens < 0.08:
            await self.crash(worker)
        elif happens < 0.13:
            await self.change_cap()
        elif happens < 0.18:
            await self.reconcile()
        else:
            await self.commit(worker)

    async def commit(self, worker: uuid.UUID) -> None:
        """A group commit: some calls end, some prompts are claimed; sometimes its answer is lost and it is repeated."""
        mine = self.open[worker]
        self.rng.shuffle(mine)
        ended = [self.ending(mine.pop()) for _ in range(self.rng.randint(0, len(mine)))]
        async with self.ledger.begin() as conn:
            ids: list[int] = []
            for wanted in await demand(conn):
                left = wanted.left.narrower(wanted.plan_left)
                # More than the caps admit, on purpose: admission must refuse them.
                ids += await queue_prompts(conn, wanted.dataset_id, Queue.SHORT, self.rng.randint(0, 30), left)
        wishes = [Wish(i, uuid.uuid4()) for i in ids]
        for again in [False, *([True] if self.rng.random() < 0.2 else [])]:
            async with self.ledger.begin() as conn:
                committed = await commit_batch(conn, worker, wishes, ended, repeated=again)
        mine += committed.claims.values()

    def ending(self, claim: Claim) -> Settlement:
        fate = self.rng.random()
        if fate < 0.15:
            return Settlement(
                claim=claim, outcome=Outcome.RELEASED, prompt_state=PromptState.PENDING, count_try=False, error="429"
            )
        usage = self.bill.charge(claim, self.rng)
        if fate < 0.25:
            return Settlement(claim=claim, outcome=Outcome.HELD, prompt_state=PromptState.PENDING, error="deadline")
        if fate < 0.35:
            return Settlement(claim=claim, outcome=Outcome.SETTLED, prompt_state=PromptState.PENDING, usage=usage)
        if fate < 0.42:
            usage = replace(usage, cost_usd=None)
        elif fate < 0.46:
            usage = Usage()
        return Settlement(
            claim=claim, outcome=Outcome.SETTLED, prompt_state=PromptState.DONE, usage=usage, stored=SAMPLE
        )

    async def crash(self, worker: uuid.UUID) -> None:
        """kill -9: its calls run on at the endpoint and are billed in part; nobody hears of them."""
        lost = self.open.pop(worker)
        for claim in lost:
            if self.rng.random() < 0.7:
                self.bill.charge(claim, self.rng)
        self.open[uuid.uuid4()] = []
        async with self.ledger.begin() as conn:
            await _hold_open_attempts(conn, [worker], None)
        if lost and self.rng.random() < 0.3:
            # It was only thought dead, and tells all the same.
            claim = self.rng.choice(lost)
            tells = self.bill.calls.get(claim.attempt_id)
            usage = Usage(completion_tokens=tells.tokens, cost_usd=tells.usd) if tells else Usage()
            if tells:
                late = Settlement(
                    claim=claim, outcome=Outcome.SETTLED, prompt_state=PromptState.DONE, usage=usage, stored=SAMPLE
                )
                async with self.ledger.begin() as conn:
                    await commit_batch(conn, worker, [], [late])

    async def change_cap(self) -> None:
        async with self.ledger.begin() as conn:
            await lock_all_datasets(conn)
            column, value = self.rng.choice([("cap_tokens", self.rng.randint(500, 25_000)), ("cap_usd", "0.04")])
            await conn.execute(text(f"UPDATE datasets SET {column} = {value} WHERE name = 'a'"))
            (a, *_) = known = await datasets(conn)
            self.lowered |= any(not cap.left(Amount()).admits(ZERO) for cap in (a.left, plan_left(known)))

    async def reconcile(self) -> None:
        async with self.ledger.begin() as conn:
            missing = await unsettled.unsettled(conn)
            told = [u for u in missing if u.attempt_id in self.bill.calls and self.rng.random() < 0.5]
            await unsettled.correct(conn, [self.correction(u) for u in told])

    def correction(self, of: unsettled.Unsettled) -> Correction:
        true = self.bill.calls[of.attempt_id]
        usage = Usage(completion_tokens=true.tokens, cost_usd=true.usd)
        return Correction(of=of, kind=CorrectionKind.RECONCILED, usage=usage, reason="record")

    async def check(self) -> None:
        """The law, at every moment: nothing is used beyond a cap, and the counters are their rows."""
        async with self.ledger.begin() as conn:
            known = await datasets(conn)
            assert await audit_books(conn) == []
        used = {d.name: d.spent + d.held + Amount(d.open_tokens, d.open_usd) for d in known}
        if not self.lowered:
            assert all(d.cap.admits(used[d.name]) for d in known), [(d.cap, used[d.name]) for d in known]
            assert known[0].plan_cap.admits(sum(used.values(), start=ZERO)), known[0].plan_cap

    async def finish(self) -> None:
        """Let everything end, until the caps admit nothing more; then compare with the endpoint's bill."""
        for _ in range(400):
            for worker in self.open:
                await self.commit(worker)
            async with self.ledger.begin() as conn:
                found = await reading.totals(conn)
            waiting = [t for t in found if t.waiting and t.pending and t.pending.fits]
            if not waiting and not any(self.open.values()):
                break
        async with self.ledger.begin() as conn:
            known = {d.id: d for d in await datasets(conn)}
            for t in await reading.totals(conn):
                # Work is left: not one of the pending prompts fits, so less than one hold is unused.
                assert not t.waiting or t.queued == 0
                assert not t.waiting or not t.pending.fits
            missing = await unsettled.unsettled(conn)
            assert await audit_books(conn) == []
        spent = sum((d.spent for d in known.values()), start=ZERO)
        held = sum((d.held for d in known.values()), start=ZERO)
        unknown = {u.attempt_id: u for u in missing}
        dark = sum((self.bill.calls.get(i, ZERO) for i in unknown), start=ZERO)
        half_told = Amount(
            sum(u.completion_tokens or 0 for u in missing), sum((u.cost_usd or Decimal(0) for u in missing), Decimal(0))
        )
        # What is known adds up to the bill exactly; what is not is covered by what is held.
        assert self.bill.total == spent + dark - half_told
        assert (dark - half_told).tokens <= held.tokens
        assert (dark - half_told).usd <= held.usd


@pytest.mark.timeout(3600)
async def test_strict_is_never_over_a_cap_and_the_books_equal_the_bill(database_url) -> None:
    ledger = open_ledger(database_url)
    try:
        for seed in range(SEED, SEED + RUNS):
            run = Run(ledger, random.Random(seed))
            try:
                await run.prepare()
                for _ in range(run.rng.randint(5, 25)):
                    await run.step()
                    await run.check()
                await run.finish()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        await ledger.close()
