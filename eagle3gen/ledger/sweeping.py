"""What dispatch asks of the ledger: who lives, what is due, what is lost."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import func, select, text, update
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import lock_datasets
from eagle3gen.records import Queue
from eagle3gen.telemetry import logger

__all__ = ["Connection"]

log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker process as it registers itself."""

    id: UUID
    host: str
    pid: int
    queue: Queue
    concurrency: int


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
    """Say that a worker has ended in good order: it is not waited for, and what it left open is held."""
    t = tables.workers
    await conn.execute(update(t).where(t.c.id == worker_id).values(gone=True))
    await _hold_open_attempts(conn, [worker_id], None)


async def live_slots(conn: Connection) -> dict[Queue, int]:
    """Slots of all workers that have not left, per queue."""
    t = tables.workers
    rows = await conn.execute(select(t.c.queue, func.sum(t.c.concurrency)).where(~t.c.gone).group_by(t.c.queue))
    return {Queue(queue): int(slots) for queue, slots in rows}


async def lost_workers(conn: Connection, timeout_seconds: float) -> int:
    """Give up workers that have been silent for too long: their open attempts are held, their prompts due.

    So are attempts that have been open for as long and belong to no living worker: one that was given up before
    its last commit arrived, or that never told of itself. Returns how many workers were given up.
    """
    t = tables.workers
    silent = t.c.beat_at < func.now() - func.make_interval(0, 0, 0, 0, 0, 0, timeout_seconds)
    rows = await conn.execute(select(t.c.id).where(~t.c.gone, silent).with_for_update(skip_locked=True))
    lost = list(rows.scalars())
    if lost:
        await conn.execute(update(t).where(t.c.id.in_(lost)).values(gone=True))
    await _hold_open_attempts(conn, lost, timeout_seconds)
    return len(lost)


async def forget_workers(conn: Connection) -> int:
    """Give up every worker: for a caller that knows that none lives, by the state directory's lock."""
    t = tables.workers
    lost = (await conn.execute(update(t).where(~t.c.gone).values(gone=True).returning(t.c.id))).scalars().all()
    await _hold_open_attempts(conn, lost, 0.0)
    return len(lost)


# Every open attempt is that of a prompt in flight (books.py), so the few prompts in flight lead to all of them.
_ABANDONED = text(
    "SELECT p.id, p.dataset_id FROM prompts p"
    # OFFSET 0 keeps the planner from reading all attempts instead of those of the prompts in flight.
    " CROSS JOIN LATERAL (SELECT worker_id, opened_at FROM attempts WHERE id = p.attempt_id OFFSET 0) a"
    " LEFT JOIN workers w ON w.id = a.worker_id WHERE p.state = 'in_flight'"
    " AND (a.worker_id = ANY(CAST(:lost AS uuid[])) OR (w.gone IS NOT FALSE"
    "  AND a.opened_at <= now() - CAST(:seconds AS float8) * interval '1 second'))"
    " ORDER BY p.id FOR NO KEY UPDATE OF p"
)
# Nobody knows whether these calls were billed: their holds stay on the books, their prompts are asked again.
_HOLD = text(
    "WITH abandoned AS ("
    " SELECT p.id, p.attempt_id, a.dataset_id, a.hold_tokens, a.hold_usd, a.worst_tokens, a.worst_usd, a.canary_round"
    " FROM prompts p JOIN attempts a ON a.id = p.attempt_id"
    " WHERE p.id = ANY(CAST(:prompts AS bigint[])) AND p.state = 'in_flight'"
    "), held AS ("
    " INSERT INTO resolutions (attempt_id, outcome, error)"
    " SELECT attempt_id, 'held', 'the worker was lost during the call' FROM abandoned"
    "), freed AS ("
    " UPDATE prompts p SET state = 'pending', attempt_id = NULL, not_before = now(),"
    " last_error = 'the worker was lost during the call' FROM abandoned WHERE p.id = abandoned.id"
    "), sums AS ("
    " SELECT a.dataset_id, sum(hold_tokens) AS hold_tokens, sum(hold_usd) AS hold_usd, sum(worst_tokens)"
    " AS worst_tokens, sum(worst_usd) AS worst_usd, count(*) FILTER (WHERE a.canary_round = d.canary_round) AS canaries"
    " FROM abandoned a JOIN datasets d ON d.id = a.dataset_id GROUP BY a.dataset_id"
    ") UPDATE datasets d SET open_tokens = d.open_tokens - s.hold_tokens, open_usd = d.open_usd - s.hold_usd,"
    " held_tokens = d.held_tokens + s.worst_tokens, held_usd = d.held_usd + s.worst_usd,"
    # They said nothing about the answers: other prompts may start in their place.
    " canary_launched = d.canary_launched - s.canaries FROM sums s WHERE d.id = s.dataset_id"
)


async def _hold_open_attempts(conn: Connection, lost: Sequence[UUID], orphaned_seconds: float | None) -> None:
    """`orphaned_seconds`: also those open for so long whose worker is gone or unknown."""
    rows = await conn.execute(_ABANDONED, {"lost": list(lost), "seconds": orphaned_seconds})
    abandoned: dict[int, int] = {row["id"]: row["dataset_id"] for row in rows.mappings()}
    if abandoned:
        await lock_datasets(conn, set(abandoned.values()))
        await conn.execute(_HOLD, {"prompts": list(abandoned)})
        log.warning("attempts.held", attempts=len(abandoned), workers=len(lost))


_STALE = text(
    "WITH lost AS (SELECT id FROM prompts WHERE queue = :queue AND state = 'queued'"
    " AND queued_at < now() - :seconds * interval '1 second' ORDER BY queued_at LIMIT :count"
    " FOR NO KEY UPDATE SKIP LOCKED)"
    " UPDATE prompts p SET queued_at = now() FROM lost WHERE p.id = lost.id RETURNING p.id"
)


async def stale_queued(conn: Connection, queue: Queue, older_than_seconds: float, limit: int) -> list[int]:
    """The prompts that have been queued the longest: the caller knows that so many messages are missing."""
    rows = await conn.execute(_STALE, {"queue": queue.value, "seconds": older_than_seconds, "count": limit})
    return sorted(rows.scalars())


async def unqueue(conn: Connection, dataset_ids: Sequence[int] | None) -> int:
    """Queued prompts back to pending (None: of all datasets), for a purge or a stop; how many.

    Those that are being claimed at this moment are passed over: waiting for them could deadlock with a caller
    that holds their dataset, and a dataset that is being stopped refuses them.
    """
    t = tables.prompts
    queued = select(t.c.id).where(t.c.state == "queued").with_for_update(skip_locked=True, key_share=True)
    if dataset_ids is not None:
        queued = queued.where(t.c.dataset_id.in_(dataset_ids))
    return (await conn.execute(update(t).where(t.c.id.in_(queued)).values(state="pending", queued_at=None))).rowcount
