"""The ledger writer of a worker process: collects claims and settlements for a few ms, commits hundreds at once."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from uuid import UUID, uuid4

from sqlalchemy.exc import SQLAlchemyError

from eagle3gen.errors import InvariantBroken, ServiceUnreachable
from eagle3gen.ledger.batch import Committed, commit_batch
from eagle3gen.ledger.claims import Claim, Wish
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import Dataset, datasets
from eagle3gen.ledger.settlements import Settlement
from eagle3gen.ledger.states import DatasetState, Outcome, PromptState
from eagle3gen.records import Usage
from eagle3gen.telemetry import logger

log = logger(__name__)

RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 2.0

Waiting: TypeAlias = "asyncio.Future[Claim | None]"
Settling: TypeAlias = "asyncio.Future[None]"
States: TypeAlias = Mapping[int, DatasetState]


class LedgerWriter:
    """Group commit. While one transaction runs, the next batch collects.

    Nothing is lost while the database is away: claims and settlements wait, and the batch is tried again until
    it is committed. A batch whose commit got no answer is repeated under the same attempt ids, which changes
    nothing that it had changed already.
    """

    def __init__(self, ledger: Ledger, worker_id: UUID, *, batch: int = 500, linger_seconds: float = 0.004) -> None:
        self.on_states: Callable[[States], None] = lambda _: None
        """Called with the states of all datasets, as read in each commit and each refresh."""
        self._ledger = ledger
        self._worker_id = worker_id
        self._batch = batch
        self._linger_seconds = linger_seconds
        self._wishes: list[tuple[Wish, Waiting]] = []
        self._ended: list[tuple[Settlement, Settling]] = []
        self._work = asyncio.Event()
        self._datasets: dict[int, Dataset] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    async def start(self) -> None:
        """Begin to commit."""
        await self.refresh()
        self._task = asyncio.create_task(self._run(), name="ledger writer")

    async def close(self, seconds: float) -> None:
        """Commit what waits, for at most so many seconds; what cannot be told stays open and will be held."""
        self._closing = True
        self._work.set()
        if self._task is None:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task, seconds)
        if left := len(self._ended):
            log.error("writer.closed_without_database", unsettled=left)

    async def claim(self, prompt_id: int) -> Claim | None:
        """Open an attempt for a prompt, or None when it is not due: done, doubled, closed dataset, full cap."""
        future: Waiting = asyncio.get_running_loop().create_future()
        self._wishes.append((Wish(prompt_id, uuid4()), future))
        self._work.set()
        return await future

    async def settle(self, settlement: Settlement) -> None:
        """End an attempt; returns when it is committed, however long the database is away."""
        future: Settling = asyncio.get_running_loop().create_future()
        self._ended.append((settlement, future))
        self._work.set()
        await future

    def dataset(self, dataset_id: int) -> Dataset:
        """The dataset as last read; counters may be a moment old."""
        return self._datasets[dataset_id]

    async def refresh(self) -> None:
        """Read the datasets now. Raises ServiceUnreachable."""
        async with self._ledger.begin() as conn:
            self._remember(await datasets(conn))

    def _remember(self, known: Sequence[Dataset]) -> None:
        self._datasets = {d.id: d for d in known}
        self.on_states({d.id: d.state for d in known})

    async def _run(self) -> None:
        while True:
            await self._work.wait()
            if not self._closing:
                await asyncio.sleep(self._linger_seconds)
            wishes, self._wishes = self._wishes[: self._batch], self._wishes[self._batch :]
            ended, self._ended = self._ended[: self._batch], self._ended[self._batch :]
            if not wishes and not ended:
                if self._closing:
                    return
                self._work.clear()
                continue
            wishes = [(wish, future) for wish, future in wishes if not future.done()]
            try:
                committed = await self._commit([w for w, _ in wishes], [s for s, _ in ended])
            except asyncio.CancelledError:
                self._ended = ended + self._ended
                raise
            self._remember(committed.datasets)
            self._answer(wishes, ended, committed)

    def _answer(
        self,
        wishes: list[tuple[Wish, Waiting]],
        ended: list[tuple[Settlement, Settling]],
        committed: Committed,
    ) -> None:
        for _, settling in ended:
            if not settling.done():
                settling.set_result(None)
        for wish, waiting in wishes:
            claim = committed.claims.get(wish.attempt_id)
            if not waiting.done():
                waiting.set_result(claim)
            elif claim is not None:
                # Its task was cancelled while the claim was on its way: nothing was sent.
                self._ended.append((_given_back(claim), asyncio.get_running_loop().create_future()))
                self._work.set()

    async def _commit(self, wishes: Sequence[Wish], ended: Sequence[Settlement]) -> Committed:
        wait, tries = RETRY_SECONDS, 0
        while True:
            try:
                async with self._ledger.begin() as conn:
                    committed = await commit_batch(conn, self._worker_id, wishes, ended, repeated=tries > 0)
            except ServiceUnreachable as error:
                if tries == 0:
                    log.warning("writer.waiting", reason=str(error), claims=len(wishes), settlements=len(ended))
            except (SQLAlchemyError, OverflowError) as error:
                return await self._commit_one_by_one(wishes, ended, error)
            else:
                if tries:
                    log.info("writer.back", tries=tries)
                return committed
            await asyncio.sleep(wait)
            tries, wait = tries + 1, min(wait * 2, RETRY_SECONDS_MAX)

    async def _commit_one_by_one(
        self, wishes: Sequence[Wish], ended: Sequence[Settlement], error: Exception
    ) -> Committed:
        """One value that Postgres cannot take must not hold up the money of the others."""
        if len(wishes) + len(ended) == 1:
            if not ended or not _tellable(ended[0]):
                raise InvariantBroken(f"the ledger refuses even the bare end of an attempt: {error}") from error
            log.error("writer.unstorable", attempt_id=str(ended[0].claim.attempt_id), reason=str(error)[:500])
            return await self._commit([], [_bare(ended[0])])
        claims: dict[UUID, Claim] = {}
        known: list[Dataset] = []
        for part_wishes, part_ended in [*(([], [s]) for s in ended), *(([w], []) for w in wishes)]:
            committed = await self._commit(part_wishes, part_ended)
            claims.update(committed.claims)
            known = committed.datasets
        return Committed(claims, known)


def _given_back(claim: Claim) -> Settlement:
    return Settlement(
        claim=claim,
        outcome=Outcome.RELEASED,
        prompt_state=PromptState.PENDING,
        count_try=False,
        error="the worker was shut down before the call",
    )


def _tellable(settlement: Settlement) -> bool:
    return settlement != _bare(settlement)


def _bare(settlement: Settlement) -> Settlement:
    """The same end without anything that came from outside: the money counts as held."""
    return replace(
        settlement,
        outcome=Outcome.HELD,
        prompt_state=PromptState.FAILED,
        error="the reply could not be stored; see the worker's log",
        status=None,
        generation_id=None,
        model=None,
        host=None,
        finish_reason=None,
        usage=Usage(),
        stored=None,
    )
