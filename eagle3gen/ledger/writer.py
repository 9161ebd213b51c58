"""The ledger writer of a worker process: collects claims and settlements for a few ms, commits hundreds at once."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from uuid import UUID, uuid4

from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

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
CANCEL_SECONDS = 5.0
"""How long an unanswered transaction may take to be broken off."""
UNSTORABLE = (DataError, IntegrityError, ArithmeticError, ValueError)
"""The fault of a value, which no waiting mends. Whatever else goes wrong is the database's, and is waited out."""

Wishes: TypeAlias = "list[tuple[Wish, asyncio.Future[Claim | None]]]"
Endings: TypeAlias = "list[tuple[Settlement, asyncio.Future[None]]]"
Notes: TypeAlias = Mapping[UUID, str]
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
        self._wishes: Wishes = []
        self._ended: Endings = []
        self._notes: dict[UUID, str] = {}
        self._committing: tuple[Wishes, Endings] = ([], [])
        self._work = asyncio.Event()
        self._datasets: dict[int, Dataset] = {}
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    async def start(self) -> None:
        """Begin to commit. Raises ServiceUnreachable."""
        await self.refresh()
        self._task = asyncio.create_task(self._run(), name="ledger writer")

    async def close(self, seconds: float) -> None:
        """Commit the settlements that wait, for at most so many seconds; claims that wait get None.

        A settlement that cannot be told in time raises ServiceUnreachable where it waits: its attempt stays open,
        and is held when the worker has left.
        """
        self._closing = True
        self._work.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_SECONDS)
        for _, wanted in (*self._committing[0], *self._wishes):
            if not wanted.done():
                wanted.set_result(None)
        ended = (*self._committing[1], *self._ended)
        for _, told in ended:
            _fail(told, ServiceUnreachable("the worker closed before the ledger could be told; the attempt is held"))
        if ended:
            log.error("writer.closed_without_database", unsettled=len(ended))
        self._wishes, self._ended, self._committing = [], [], ([], [])

    async def claim(self, prompt_id: int) -> Claim | None:
        """Open an attempt for a prompt, or None when it is not due: done, doubled, closed dataset, full cap."""
        if self._closing:
            return None
        future: asyncio.Future[Claim | None] = asyncio.get_running_loop().create_future()
        self._wishes.append((Wish(prompt_id, uuid4()), future))
        self._work.set()
        try:
            return await future
        except asyncio.CancelledError:
            # The claim may have arrived in the very turn in which its task was cancelled.
            if not future.cancelled() and future.exception() is None:
                self._give_back(future.result())
            raise

    async def settle(self, settlement: Settlement) -> None:
        """End an attempt; returns when it is committed, however long the database is away.

        Raises ServiceUnreachable when the writer is closed before that.
        """
        if self._closing and (self._task is None or self._task.done()):
            raise ServiceUnreachable("the ledger writer is closed; the attempt is held")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended.append((settlement, future))
        self._work.set()
        await future

    def note(self, attempt_id: UUID, generation_id: str) -> None:
        """Write down the endpoint's id of an open call with the next commit: a crash can then be reconciled."""
        self._notes[attempt_id] = generation_id
        self._work.set()

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
            if not self._closing and max(len(self._wishes), len(self._ended)) < self._batch:
                await asyncio.sleep(self._linger_seconds)
            wishes, ended = self._committing = self._next_batch()
            notes = self._next_notes(ended)
            if not wishes and not ended and not notes:
                if self._closing:
                    return
                self._work.clear()
                continue
            try:
                await self._process(wishes, ended, notes)
            except Exception as error:
                # A bug of ours. Those who wait must not wait for ever, and the next batch may be a better one.
                log.exception("writer.broken", claims=len(wishes), settlements=len(ended))
                for _, wanted in wishes:
                    _fail(wanted, error)
                for _, told in ended:
                    _fail(told, error)
            self._committing = [], []

    def _next_batch(self) -> tuple[Wishes, Endings]:
        if self._closing:
            # A call must not begin any more.
            for _, future in self._wishes:
                if not future.done():
                    future.set_result(None)
        waiting = [(wish, future) for wish, future in self._wishes if not future.done()]
        wishes, self._wishes = waiting[: self._batch], waiting[self._batch :]
        ended, self._ended = self._ended[: self._batch], self._ended[self._batch :]
        return wishes, ended

    def _next_notes(self, ended: Endings) -> Notes:
        """An attempt that ends now brings its id along."""
        notes, self._notes = self._notes, {}
        for settlement, _ in ended:
            notes.pop(settlement.claim.attempt_id, None)
        return notes

    async def _process(
        self, wishes: Wishes, ended: Endings, notes: Notes | None = None, *, repeated: bool = False
    ) -> None:
        """Commit and answer. A value that Postgres cannot take must not hold up the money of the others.

        A batch with such a value is halved until it stands alone.
        """
        try:
            committed = await self._commit([w for w, _ in wishes], [s for s, _ in ended], notes, repeated=repeated)
        except UNSTORABLE as error:
            if notes:
                await self._process(wishes, ended, repeated=True)
            elif len(wishes) + len(ended) > 1:
                middle_wish, middle_end = (len(wishes) + 1) // 2, len(ended) // 2
                await self._process(wishes[:middle_wish], ended[:middle_end], repeated=True)
                await self._process(wishes[middle_wish:], ended[middle_end:], repeated=True)
            elif ended:
                await self._process_bare(*ended[0], error)
            elif wishes:
                _fail(wishes[0][1], InvariantBroken(f"the ledger refuses an attempt: {error}"))
        else:
            self._answer(wishes, ended, committed)

    async def _process_bare(self, settlement: Settlement, told: asyncio.Future[None], error: Exception) -> None:
        bare = _bare(settlement)
        if settlement == bare:
            _fail(told, InvariantBroken(f"the ledger refuses even the bare end of an attempt: {error}"))
            return
        log.error("writer.unstorable", attempt_id=str(settlement.claim.attempt_id), reason=str(error)[:500])
        await self._process([], [(bare, told)], repeated=True)

    def _answer(self, wishes: Wishes, ended: Endings, committed: Committed) -> None:
        self._remember(committed.datasets)
        for _, told in ended:
            if not told.done():
                told.set_result(None)
        for wish, wanted in wishes:
            claim = committed.claims.get(wish.attempt_id)
            if not wanted.done():
                wanted.set_result(claim)
            else:
                self._give_back(claim)

    def _give_back(self, claim: Claim | None) -> None:
        """Release an attempt whose task was cancelled while the claim was on its way: nothing was sent."""
        if claim is not None:
            self._ended.append((_given_back(claim), asyncio.get_running_loop().create_future()))
            self._work.set()

    async def _commit(
        self, wishes: Sequence[Wish], ended: Sequence[Settlement], notes: Notes | None, *, repeated: bool
    ) -> Committed:
        wait, tries = RETRY_SECONDS, 0
        while True:
            try:
                async with self._ledger.begin() as conn:
                    again = repeated or tries > 0
                    committed = await commit_batch(conn, self._worker_id, wishes, ended, notes=notes, repeated=again)
            except UNSTORABLE:
                raise
            except (ServiceUnreachable, SQLAlchemyError, OSError) as error:
                if tries == 0:
                    log.warning("writer.waiting", reason=str(error), claims=len(wishes), settlements=len(ended))
            else:
                if tries:
                    log.info("writer.back", tries=tries)
                return committed
            await asyncio.sleep(wait)
            tries, wait = tries + 1, min(wait * 2, RETRY_SECONDS_MAX)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Nobody may be waiting any more, and that is no fault.


def _given_back(claim: Claim) -> Settlement:
    return Settlement(
        claim=claim,
        outcome=Outcome.RELEASED,
        prompt_state=PromptState.PENDING,
        count_try=False,
        error="the worker was shut down before the call",
    )


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
