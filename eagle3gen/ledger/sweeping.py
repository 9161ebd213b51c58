"""What dispatch asks of the ledger: who lives, what is due, what is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.records import Queue

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker process as it registers itself."""

    id: UUID
    host: str
    pid: int
    queue: Queue
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one open dataset has for one queue."""

    dataset_id: int
    queue: Queue
    pending_due: int
    queued: int
    hold_tokens: int
    """The largest hold among what is pending and due."""
    headroom_tokens: int | None
    """What the cap still admits, before what is queued; None without a cap."""


async def try_lock(conn: Connection, key: int) -> bool:
    """Take a lock until the end of the transaction, or False if somebody has it."""
    return bool((await conn.execute(select(func.pg_try_advisory_xact_lock(key)))).scalar_one())


async def heartbeat(conn: Connection, worker: WorkerRow) -> None:
    """Say that a worker lives, by the database's clock."""
    t = tables.workers
    row = {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "queue": worker.queue.value,
        "concurrency": worker.concurrency,
    }
    statement = insert(t).values(row)
    alive = {"beat_at": func.now(), "gone": False}
    await conn.execute(statement.on_conflict_do_update(index_elements=[t.c.id], set_=alive))


async def leave(conn: Connection, worker_id: UUID) -> None:
    """Say that a worker has ended in good order: it has no open attempts, and is not waited for."""
    t = tables.workers
    await conn.execute(update(t).where(t.c.id == worker_id).values(gone=True))
    await _hold_open_attempts(conn, [worker_id])


async def live_slots(conn: Connection) -> dict[Queue, int]:
    """Slots of all workers that have not left, per queue."""
    t = tables.workers
    rows = await conn.execute(select(t.c.queue, func.sum(t.c.concurrency)).where(~t.c.gone).group_by(t.c.queue))
    return {Queue(queue): int(slots) for queue, slots in rows}


async def lost_workers(conn: Connection, timeout_seconds: float) -> int:
    """Give up workers that have been silent for too long: their open attempts are held, their prompts due."""
    t = tables.workers
    silent = t.c.beat_at < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, timeout_seconds)
    rows = await conn.execute(select(t.c.id).where(~t.c.gone, silent).with_for_update(skip_locked=True))
    return await _give_up(conn, list(rows.scalars()))


async def forget_workers(conn: Connection) -> int:
    """Give up every worker: for a caller that knows that none lives, by the state directory's lock."""
    rows = await conn.execute(select(tables.workers.c.id).where(~tables.workers.c.gone).with_for_update())
    return await _give_up(conn, list(rows.scalars()))


async def _give_up(conn: Connection, ids: Sequence[UUID]) -> int:
    if ids:
        t = tables.workers
        await conn.execute(update(t).where(t.c.id.in_(ids)).values(gone=True))
        await _hold_open_attempts(conn, ids)
    return len(ids)


# Nobody knows whether these calls were billed: their holds stay on the books, their prompts are asked again.
_LOCK = text(
    "SELECT p.id FROM prompts p JOIN attempts a ON a.prompt_id = p.id AND a.id = p.attempt_id"
    " WHERE a.worker_id = ANY(CAST(:workers AS uuid[])) AND p.state = 'in_flight' ORDER BY p.id FOR UPDATE OF p"
)
_LOCK_DATASETS = text("SELECT id FROM datasets ORDER BY id FOR UPDATE")
_HOLD = text(
    "WITH held AS ("
    " INSERT INTO resolutions (attempt_id, outcome, error)"
    " SELECT a.id, 'held', 'the worker was lost during the call' FROM attempts a"
    " WHERE a.worker_id = ANY(CAST(:workers AS uuid[]))"
    " AND NOT EXISTS (SELECT FROM resolutions r WHERE r.attempt_id = a.id)"
    " ON CONFLICT DO NOTHING RETURNING attempt_id"
    "), freed AS ("
    " UPDATE prompts p SET state = 'pending', attempt_id = NULL, not_before = now(),"
    " last_error = 'the worker was lost during the call'"
    " FROM held h JOIN attempts a ON a.id = h.attempt_id"
    " WHERE p.id = a.prompt_id AND p.attempt_id = a.id AND p.state = 'in_flight'"
    "), sums AS ("
    " SELECT a.dataset_id, sum(a.hold_tokens) AS tokens FROM held h JOIN attempts a ON a.id = h.attempt_id GROUP BY 1"
    ") UPDATE datasets d SET open_tokens = d.open_tokens - s.tokens, held_tokens = d.held_tokens + s.tokens"
    " FROM sums s WHERE d.id = s.dataset_id"
)


async def _hold_open_attempts(conn: Connection, workers: Sequence[UUID]) -> None:
    parameters = {"workers": list(workers)}
    await conn.execute(_LOCK, parameters)
    await conn.execute(_LOCK_DATASETS)
    await conn.execute(_HOLD, parameters)


_DEMAND = text(
    "SELECT d.id AS dataset_id, q.queue, coalesce(p.due, 0) AS pending_due, coalesce(r.queued, 0) AS queued,"
    " coalesce(p.hold, r.hold) AS hold_tokens,"
    " d.cap_tokens - d.spent_tokens - d.held_tokens - d.open_tokens AS headroom_tokens"
    " FROM datasets d CROSS JOIN unnest(CAST(:queues AS text[])) AS q(queue)"
    " LEFT JOIN LATERAL (SELECT count(*) AS due, max(max_tokens) AS hold FROM prompts"
    "  WHERE dataset_id = d.id AND queue = q.queue AND state = 'pending' AND not_before <= now()) p ON true"
    " LEFT JOIN LATERAL (SELECT count(*) AS queued, max(max_tokens) AS hold FROM prompts"
    "  WHERE dataset_id = d.id AND queue = q.queue AND state = 'queued') r ON true"
    " WHERE d.state = 'open' AND (p.due > 0 OR r.queued > 0) ORDER BY d.id"
)


async def demand(conn: Connection) -> list[Demand]:
    """What open datasets have due and queued, per queue."""
    rows = (await conn.execute(_DEMAND, {"queues": [q.value for q in Queue]})).mappings()
    return [Demand(**{**row, "queue": Queue(row["queue"])}) for row in rows]


_QUEUE = text(
    "WITH due AS (SELECT id FROM prompts WHERE dataset_id = :dataset_id AND queue = :queue AND state = 'pending'"
    " AND not_before <= now() ORDER BY id LIMIT :count FOR UPDATE SKIP LOCKED)"
    " UPDATE prompts p SET state = 'queued', queued_at = now() FROM due WHERE p.id = due.id RETURNING p.id"
)


async def queue_prompts(conn: Connection, dataset_id: int, queue: Queue, count: int) -> list[int]:
    """Mark up to `count` due prompts as queued, oldest first; the caller rings for them after the commit."""
    rows = await conn.execute(_QUEUE, {"dataset_id": dataset_id, "queue": queue.value, "count": count})
    return sorted(rows.scalars())


_STALE = text(
    "WITH lost AS (SELECT id FROM prompts WHERE queue = :queue AND state = 'queued'"
    " AND queued_at < now() - :seconds * interval '1 second' ORDER BY queued_at LIMIT :count FOR UPDATE SKIP LOCKED)"
    " UPDATE prompts p SET queued_at = now() FROM lost WHERE p.id = lost.id RETURNING p.id"
)


async def stale_queued(conn: Connection, queue: Queue, older_than_seconds: float, limit: int) -> list[int]:
    """The prompts that have been queued the longest: the caller knows that so many messages are missing."""
    rows = await conn.execute(_STALE, {"queue": queue.value, "seconds": older_than_seconds, "count": limit})
    return sorted(rows.scalars())


async def unqueue(conn: Connection, dataset_ids: Sequence[int] | None) -> int:
    """Queued prompts back to pending (None: of all datasets), for a purge or a stop; how many."""
    t = tables.prompts
    statement = update(t).where(t.c.state == "queued").values(state="pending", queued_at=None)
    if dataset_ids is not None:
        statement = statement.where(t.c.dataset_id.in_(dataset_ids))
    return (await conn.execute(statement)).rowcount
