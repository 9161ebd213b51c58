"""What open datasets have due and queued, and the marking of prompts as queued: what dispatch decides on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import Dataset, datasets, plan_left
from eagle3gen.ledger.holds import HOLD_TOKENS, HOLD_USD
from eagle3gen.ledger.money import UNCAPPED, Amount, Cap
from eagle3gen.ledger.states import DatasetState
from eagle3gen.records import Queue

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one open dataset has for one queue."""

    dataset_id: int
    queue: Queue
    pending_due: int
    queued: int
    hold: Amount
    """The largest hold, in each unit, of what is pending, due and fits the caps; if none fits, of all that waits."""
    left: Cap = UNCAPPED
    """What the dataset's cap still admits, before what is queued."""
    plan_left: Cap = UNCAPPED
    """The same of the plan's cap; equal in all demands of one look."""
    slots: int | None = None
    """Calls that may still start while the dataset's canary is out."""


# `left_*` is what both caps admit: what cannot fit is passed over, or it would bar the way of what can.
_LEFT = (
    "unnest(CAST(:ids AS integer[]), CAST(:left_tokens AS bigint[]), CAST(:left_usd AS numeric[]))"
    " AS l(id, tokens, usd)"
)
_FITS = f"{HOLD_TOKENS} <= coalesce(l.tokens, {HOLD_TOKENS}) AND {HOLD_USD} <= coalesce(l.usd, {HOLD_USD})"
_DEMAND = text(
    "SELECT d.id AS dataset_id, q.queue, coalesce(w.due, 0) AS pending_due, coalesce(r.queued, 0) AS queued,"
    " coalesce(w.fit_tokens, w.most_tokens, r.most_tokens) AS hold_tokens,"
    " coalesce(w.fit_usd, w.most_usd, r.most_usd) AS hold_usd"
    f" FROM datasets d JOIN {_LEFT} ON l.id = d.id CROSS JOIN unnest(CAST(:queues AS text[])) AS q(queue)"
    f" CROSS JOIN LATERAL (SELECT count(*) AS due, max({HOLD_TOKENS}) AS most_tokens, max({HOLD_USD}) AS most_usd,"
    f"  max({HOLD_TOKENS}) FILTER (WHERE {_FITS}) AS fit_tokens, max({HOLD_USD}) FILTER (WHERE {_FITS}) AS fit_usd"
    "  FROM prompts p WHERE p.dataset_id = d.id AND p.queue = q.queue AND p.state = 'pending'"
    "  AND p.not_before <= now()) w"
    f" CROSS JOIN LATERAL (SELECT count(*) AS queued, max({HOLD_TOKENS}) AS most_tokens, max({HOLD_USD}) AS most_usd"
    "  FROM prompts p WHERE p.dataset_id = d.id AND p.queue = q.queue AND p.state = 'queued') r"
    " WHERE w.due > 0 OR r.queued > 0 ORDER BY d.id"
)


async def demand(conn: Connection) -> list[Demand]:
    """What open datasets have due and queued, per queue."""
    known = {d.id: d for d in await datasets(conn)}
    rest = plan_left(known.values())
    opened = [d for d in known.values() if d.state is DatasetState.OPEN]
    rows = await conn.execute(_DEMAND, {**_left(opened, rest), "queues": [q.value for q in Queue]})
    return [
        Demand(
            dataset_id=row["dataset_id"],
            queue=Queue(row["queue"]),
            pending_due=row["pending_due"],
            queued=row["queued"],
            hold=Amount(row["hold_tokens"], row["hold_usd"]),
            left=known[row["dataset_id"]].left,
            plan_left=rest,
            slots=known[row["dataset_id"]].canary_slots,
        )
        for row in rows.mappings()
    ]


def _left(known: Sequence[Dataset], rest: Cap) -> dict[str, Any]:
    left = [d.left.narrower(rest) for d in known]
    return {
        "ids": [d.id for d in known],
        "left_tokens": [cap.tokens for cap in left],
        "left_usd": [cap.usd for cap in left],
    }


_QUEUE = text(
    "WITH due AS (SELECT p.id FROM prompts p JOIN datasets d ON d.id = p.dataset_id"
    " CROSS JOIN (SELECT CAST(:left_tokens AS bigint) AS tokens, CAST(:left_usd AS numeric) AS usd) l"
    " WHERE p.dataset_id = :dataset_id AND p.queue = :queue AND p.state = 'pending' AND p.not_before <= now()"
    f" AND {_FITS} ORDER BY p.id LIMIT :count FOR NO KEY UPDATE OF p SKIP LOCKED)"
    " UPDATE prompts p SET state = 'queued', queued_at = now() FROM due WHERE p.id = due.id RETURNING p.id"
)


async def queue_prompts(conn: Connection, dataset_id: int, queue: Queue, count: int, left: Cap = UNCAPPED) -> list[int]:
    """Mark up to `count` due prompts as queued, oldest first; the caller rings for them after the commit.

    Each of them fits by itself into what is `left`.
    """
    rows = await conn.execute(
        _QUEUE,
        {
            "dataset_id": dataset_id,
            "queue": queue.value,
            "count": count,
            "left_tokens": left.tokens,
            "left_usd": left.usd,
        },
    )
    return sorted(rows.scalars())


_FITTING = text(
    f"SELECT d.id, bool_or({_FITS}) AS fits, min({HOLD_TOKENS}) AS tokens, min({HOLD_USD}) AS usd"
    f" FROM datasets d JOIN {_LEFT} ON l.id = d.id JOIN prompts p ON p.dataset_id = d.id WHERE p.state = 'pending'"
    " GROUP BY d.id"
)


@dataclass(frozen=True, slots=True)
class Pending:
    """What the pending prompts of a dataset would reserve."""

    fits: bool
    """Whether at least one of them fits the caps now."""
    least: Amount
    """The smallest hold, in each unit."""


async def pending(conn: Connection, known: Sequence[Dataset]) -> Mapping[int, Pending]:
    """For each of all datasets that has pending prompts, whether the caps admit one of them."""
    rows = (await conn.execute(_FITTING, _left(known, plan_left(known)))).mappings()
    return {row["id"]: Pending(row["fits"], Amount(row["tokens"], row["usd"])) for row in rows}
