"""One group commit: settlements and claims of hundreds of prompts in one transaction.

Locks are always taken in the same order, prompts by id and then datasets by id, and claims wait for no prompt;
so no two writers wait for each other in a circle.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from eagle3gen.ledger import claims, settlements
from eagle3gen.ledger.admission import Room
from eagle3gen.ledger.claims import Claim, Wish
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import Dataset, datasets, lock_datasets
from eagle3gen.ledger.settlements import Delta, Settlement
from eagle3gen.ledger.states import DatasetState


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch made true. Datasets are as they were read, before its own changes to the counters."""

    claims: dict[UUID, Claim]
    datasets: list[Dataset]


async def commit_batch(
    conn: Connection,
    worker_id: UUID,
    wishes: Sequence[Wish],
    ended: Sequence[Settlement],
    *,
    repeated: bool = False,
) -> Committed:
    """Settle, then claim. `repeated` says that an earlier try of this batch may have been, or yet be, committed."""
    ids = {s.claim.prompt_id for s in ended}
    before: dict[UUID, Claim | None] = {}
    if repeated and wishes:
        # The earlier try may still be committing: wait for its locks, and only then look what it did.
        await _lock_prompts(conn, ids | {w.prompt_id for w in wishes})
        before = await claims.made_before(conn, wishes)
    elif ids:
        await _lock_prompts(conn, ids)
    wanted = await claims.candidates(conn, [w for w in wishes if w.attempt_id not in before]) if wishes else []
    await lock_datasets(conn, {c.dataset_id for c in wanted} | {s.claim.dataset_id for s in ended})
    known = await datasets(conn)
    deltas = await settlements.book(conn, ended) if ended else {}
    taken: list[Claim] = []
    if wanted:
        taken = await claims.take(conn, worker_id, _rooms(known, deltas), wanted)
        for claim in taken:
            deltas.setdefault(claim.dataset_id, Delta()).open_tokens += claim.hold_tokens
    await settlements.apply(conn, deltas)
    opened_before = (c for c in before.values() if c is not None)
    return Committed({c.attempt_id: c for c in (*opened_before, *taken)}, known)


_LOCK = text("SELECT FROM prompts WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE")


async def _lock_prompts(conn: Connection, ids: Collection[int]) -> None:
    await conn.execute(_LOCK, {"ids": list(ids)})


def _rooms(known: Sequence[Dataset], deltas: dict[int, Delta]) -> dict[int, Room]:
    rooms = {}
    for dataset in known:
        headroom = dataset.headroom_tokens
        if headroom is not None and (delta := deltas.get(dataset.id)) is not None:
            headroom -= delta.spent_tokens + delta.held_tokens + delta.open_tokens
        rooms[dataset.id] = Room(open=dataset.state is DatasetState.OPEN, headroom_tokens=headroom)
    return rooms
