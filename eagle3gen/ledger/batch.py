"""One group commit: settlements and claims of hundreds of prompts in one transaction.

Locks are always taken in the same order, prompts and then datasets by id, so that no two writers wait for each
other in a circle.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import select

from eagle3gen.ledger import claims, settlements, tables
from eagle3gen.ledger.admission import Room
from eagle3gen.ledger.claims import Claim, Wish
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import DATASET_COLUMNS, Dataset, dataset_from
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
    """Settle, then claim. `repeated` says that an earlier try of this batch may have been committed."""
    before = await claims.claimed_before(conn, wishes) if repeated and wishes else []
    known = {c.attempt_id for c in before}
    wanted = await claims.candidates(conn, [w for w in wishes if w.attempt_id not in known]) if wishes else []
    if ended:
        await settlements.lock_prompts(conn, ended)
    await _lock_datasets(conn, {c.dataset_id for c in wanted} | {s.claim.dataset_id for s in ended})
    rows = await conn.execute(select(*DATASET_COLUMNS).order_by(tables.datasets.c.id))
    datasets = [dataset_from(row) for row in rows.mappings()]
    deltas = await settlements.book(conn, ended) if ended else {}
    taken: list[Claim] = []
    if wanted:
        taken = await claims.take(conn, worker_id, _rooms(datasets, deltas), wanted)
        for claim in taken:
            deltas.setdefault(claim.dataset_id, Delta()).open_tokens += claim.hold_tokens
    await settlements.apply(conn, deltas)
    return Committed({c.attempt_id: c for c in (*before, *taken)}, datasets)


async def _lock_datasets(conn: Connection, ids: set[int]) -> None:
    if ids:
        t = tables.datasets
        await conn.execute(select(t.c.id).where(t.c.id.in_(ids)).order_by(t.c.id).with_for_update())


def _rooms(datasets: Sequence[Dataset], deltas: dict[int, Delta]) -> dict[int, Room]:
    rooms = {}
    for dataset in datasets:
        headroom = dataset.headroom_tokens
        if headroom is not None and (delta := deltas.get(dataset.id)) is not None:
            headroom -= delta.spent_tokens + delta.held_tokens + delta.open_tokens
        rooms[dataset.id] = Room(open=dataset.state is DatasetState.OPEN, headroom_tokens=headroom)
    return rooms
