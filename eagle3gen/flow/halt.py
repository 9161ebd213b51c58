"""Stop, pause and resume. The ledger is told first: a worker cut off from the broker stops all the same."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eagle3gen.errors import Eagle3genError, InputError
from eagle3gen.ledger import reading, sweeping
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import Dataset, datasets, reopen, set_state
from eagle3gen.ledger.states import DatasetState
from eagle3gen.telemetry import logger

log = logger(__name__)

POLL_SECONDS = 0.1


class Switchboard(Protocol):
    """What `stop` needs of the broker; `workers.queues` is the real one."""

    async def purge(self) -> int: ...
    async def broadcast_halt(self, dataset_ids: Sequence[int]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """What a stop found and did."""

    datasets: tuple[str, ...]
    unqueued: int
    """Prompts that went from the queues back to pending."""
    cancelled: int
    """Calls that were cut without an answer since the stop was given; what they cost is unknown, so it is held."""
    still_in_flight: int
    held_tokens: int
    """Tokens that calls without a bill may still cost, in these datasets."""
    seconds: float


async def stop(
    ledger: Ledger, switchboard: Switchboard, names: Sequence[str] | None, *, deadline_seconds: float = 10.0
) -> Stopped:
    """Stop datasets (None: all) and wait until nothing of them is in flight.

    Raises InputError for a name that is no dataset.
    """
    started = time.monotonic()
    async with ledger.begin() as conn:
        chosen = await _chosen(conn, names)
        await set_state(conn, [d.name for d in chosen], DatasetState.STOPPED, "stopped by the operator")
        since = await reading.clock(conn)
        unqueued = await sweeping.unqueue(conn, [d.id for d in chosen])
    try:
        await switchboard.broadcast_halt([d.id for d in chosen])
        if names is None:
            await switchboard.purge()
    except Eagle3genError as error:
        # Workers read the dataset's state from the ledger too: the stop holds without the broker.
        log.warning("stop.broker_away", reason=str(error))
    ids = [d.id for d in chosen]
    while True:
        async with ledger.begin() as conn:
            still = await reading.in_flight(conn, ids)
        seconds = time.monotonic() - started
        if still == 0 or seconds > deadline_seconds:
            break
        await asyncio.sleep(POLL_SECONDS)
    async with ledger.begin() as conn:
        cancelled = await reading.held_since(conn, ids, since)
        held_tokens = sum(d.held_tokens for d in await datasets(conn) if d.id in ids)
    return Stopped(
        datasets=tuple(d.name for d in chosen),
        unqueued=unqueued,
        cancelled=cancelled,
        still_in_flight=still,
        held_tokens=held_tokens,
        seconds=seconds,
    )


async def resume(ledger: Ledger, names: Sequence[str] | None, *, recanary: bool = False) -> list[str]:
    """Open datasets again (None: all); the names that were not open before.

    What the breaker had seen is forgotten. `recanary` sends a new canary first, also in datasets that are open.
    """
    async with ledger.begin() as conn:
        chosen = await _chosen(conn, names)
        closed = [d.name for d in chosen if d.state is not DatasetState.OPEN]
        await reopen(conn, [d.name for d in chosen] if recanary else closed, recanary=recanary)
    return closed


async def pause(ledger: Ledger, names: Sequence[str], reason: str) -> None:
    """Pause open datasets with a reason; what is in flight goes on."""
    async with ledger.begin() as conn:
        open_names = [d.name for d in await _chosen(conn, names) if d.state is DatasetState.OPEN]
        await set_state(conn, open_names, DatasetState.PAUSED, reason)


async def pause_key(ledger: Ledger, endpoint_url: str, reason: str) -> None:
    """Pause every open dataset of an endpoint: its key is refused, or out of money."""
    async with ledger.begin() as conn:
        known = await datasets(conn)
        names = [d.name for d in known if d.state is DatasetState.OPEN and d.endpoint_url == endpoint_url]
        await set_state(conn, names, DatasetState.PAUSED, reason)


async def _chosen(conn: reading.Connection, names: Sequence[str] | None) -> list[Dataset]:
    everything = await datasets(conn)
    if names is None:
        return everything
    known = {d.name: d for d in everything}
    for name in names:
        if name not in known:
            raise InputError(f"there is no dataset named {name!r}; the ledger has: {', '.join(known) or 'none'}")
    return [known[name] for name in names]
