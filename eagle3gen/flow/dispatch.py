"""Keep the queues topped up, and find what was lost. Runs in every worker's maintenance loop; one pass at a time.

There is no service of its own for this: whoever gets the advisory lock does the pass, so a run goes on as long
as one worker lives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from eagle3gen.config import QUEUE_DEFAULTS
from eagle3gen.errors import ServiceUnreachable
from eagle3gen.ledger import sweeping
from eagle3gen.ledger.connect import Connection, Ledger
from eagle3gen.ledger.datasets import datasets
from eagle3gen.ledger.demand import Demand, demand, queue_prompts
from eagle3gen.ledger.money import Cap
from eagle3gen.ledger.states import Admission, DatasetState
from eagle3gen.records import Queue
from eagle3gen.telemetry import logger

log = logger(__name__)

DISPATCH_LOCK = 0xEA61E3
WINDOW_PER_SLOT = 4
"""Messages kept in the broker per worker slot: enough for several seconds of the fastest answers."""
GRANT_MAX = 20_000
"""Prompts queued in one pass; the next pass is a moment later."""


class Bell(Protocol):
    """The broker as dispatch sees it; `workers.queues` is the real one."""

    async def ring(self, queue: Queue, prompt_ids: Sequence[int]) -> None: ...
    async def depth(self, queue: Queue) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """What one pass did. `led` is False when another worker held the lock."""

    led: bool
    queued: int = 0
    rung_again: int = 0
    lost_workers: int = 0
    hungry: bool = False
    """More could be queued at once: the next pass should come soon."""
    forecasting: bool = False
    """Some dataset's admission goes by a forecast, which must stay fresh."""
    blocked: bool = False
    """Due prompts wait for room under a cap, which any settlement may make."""


@dataclass(frozen=True, slots=True)
class Grant:
    """So many prompts of this dataset may go to this queue now."""

    dataset_id: int
    queue: Queue
    count: int


def share(demands: Sequence[Demand], room: Mapping[Queue, int]) -> list[Grant]:
    """Divide each queue's free places fairly among its datasets, none beyond what the caps still admit.

    A place not needed by one dataset goes to the others. What is already queued will want its holds, and the plan's
    cap is spent once by all; a dataset whose canary is out takes no more than its canary.
    """
    purses = _Purses(demands)
    grants: list[Grant] = []
    for queue in Queue:
        places = min(max(0, room.get(queue, 0)), GRANT_MAX)
        # Those who can take the least come first: what they leave is shared by the others.
        takers = sorted((d for d in demands if d.queue is queue), key=purses.can_take)
        for position, taker in enumerate(takers):
            count = min(purses.can_take(taker), places // (len(takers) - position))
            if count > 0:
                grants.append(Grant(taker.dataset_id, queue, count))
                places -= count
                purses.spend(taker, count)
    return grants


class _Purses:
    """What dispatch may still give out: of each dataset's cap and canary, and of the plan's cap."""

    def __init__(self, demands: Sequence[Demand]) -> None:
        self._plan = demands[0].plan_left if demands else Cap()
        self._left: dict[int, Cap] = {d.dataset_id: d.left for d in demands}
        self._slots: dict[int, int | None] = {d.dataset_id: d.slots for d in demands}
        for known in demands:
            self.spend(known, known.queued)

    def can_take(self, taker: Demand) -> int:
        slots = self._slots[taker.dataset_id]
        most = taker.pending_due if slots is None else min(taker.pending_due, max(0, slots))
        return self._left[taker.dataset_id].narrower(self._plan).times(taker.hold, most)

    def spend(self, taker: Demand, count: int) -> None:
        spent, slots = taker.hold * count, self._slots[taker.dataset_id]
        self._plan = self._plan.left(spent)
        self._left[taker.dataset_id] = self._left[taker.dataset_id].left(spent)
        self._slots[taker.dataset_id] = None if slots is None else slots - count


async def dispatch(
    ledger: Ledger, bell: Bell, *, worker_timeout_seconds: float | None, ring_again_seconds: float
) -> Pass:
    """One pass: sweep lost workers, queue what is due and affordable, ring again for lost messages.

    `worker_timeout_seconds` is None while the caller cannot judge silence, as after its own outage.
    The broker may be away: then only the sweep happens.
    """
    depths = await _depths(bell)
    rings: list[tuple[Queue, list[int]]] = []
    queued = 0
    async with ledger.begin() as conn:
        if not await sweeping.try_lock(conn, DISPATCH_LOCK):
            return Pass(led=False)
        lost = 0
        if worker_timeout_seconds is not None:
            lost = await sweeping.lost_workers(conn, worker_timeout_seconds)
        if depths is None:
            return Pass(led=True, lost_workers=lost)
        demands = await demand(conn)
        left = {d.dataset_id: d.left.narrower(d.plan_left) for d in demands}
        room = await _room(conn, demands, depths)
        grants = share(demands, room)
        for grant in grants:
            ids = await queue_prompts(conn, grant.dataset_id, grant.queue, grant.count, left[grant.dataset_id])
            queued += len(ids)
            rings.append((grant.queue, ids))
        lost_rings = await _lost_rings(conn, demands, depths, ring_again_seconds)
        rung_again = sum(len(ids) for _, ids in lost_rings)
        rings += lost_rings
    # After the commit: a message may only ever speak of what the ledger already says. If ringing fails,
    # these prompts are `queued` without a message, and a later pass rings again.
    for queue, ids in rings:
        if ids:
            await bell.ring(queue, ids)
    forecasting = await _forecast(ledger)
    if rung_again:
        log.warning("dispatch.rung_again", prompts=rung_again)
    due = sum(d.pending_due for d in demands)
    return Pass(
        led=True,
        queued=queued,
        rung_again=rung_again,
        lost_workers=lost,
        forecasting=forecasting,
        hungry=0 < queued < due,
        blocked=queued < due and any(places > queued for places in room.values()),
    )


async def _lost_rings(
    conn: Connection, demands: Sequence[Demand], depths: Mapping[Queue, int], ring_again_seconds: float
) -> list[tuple[Queue, list[int]]]:
    """The prompts that have been queued the longest, where the broker holds fewer messages than there should be."""
    found = []
    for queue in Queue:
        missing = sum(d.queued for d in demands if d.queue is queue) - depths[queue]
        if missing > 0:
            found.append((queue, await sweeping.stale_queued(conn, queue, ring_again_seconds, missing)))
    return found


async def _forecast(ledger: Ledger) -> bool:
    """Forecast anew what goes by a forecast and may have open calls; whether there is any.

    Each in a transaction of its own: what the pass has locked before would be locked out of order.
    """
    async with ledger.begin() as conn:
        known = await datasets(conn)
    wanted = [
        d.id
        for d in known
        if d.admission is Admission.FORECAST
        and (d.cap.exists or d.plan_cap.exists)
        and (d.state is DatasetState.OPEN or d.open_tokens or d.reserve_tokens)
    ]
    if wanted:
        # Numpy is only for those who forecast.
        from eagle3gen.ledger.foresight import refresh_forecast

        for dataset_id in wanted:
            async with ledger.begin() as conn:
                await refresh_forecast(conn, dataset_id)
    return bool(wanted)


async def _depths(bell: Bell) -> dict[Queue, int] | None:
    try:
        return {queue: await bell.depth(queue) for queue in Queue}
    except ServiceUnreachable as error:
        log.warning("dispatch.broker_away", reason=str(error))
        return None


async def _room(conn: Connection, demands: Sequence[Demand], depths: Mapping[Queue, int]) -> dict[Queue, int]:
    slots = await sweeping.live_slots(conn)
    room = {}
    for queue in Queue:
        # With no worker yet, fill for one: tasks are then visible as soon as they are enqueued.
        window = WINDOW_PER_SLOT * (slots.get(queue) or QUEUE_DEFAULTS[queue].concurrency)
        queued = sum(d.queued for d in demands if d.queue is queue)
        room[queue] = window - max(queued, depths[queue])
    return room
