"""One group commit: settlements and claims of hundreds of prompts in one transaction.

Locks are always taken in the same order, prompts by id and then datasets by id, and claims wait for no prompt;
so no two writers wait for each other in a circle.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import text

from eagle3gen.ledger import claims, settlements
from eagle3gen.ledger.admission import Room
from eagle3gen.ledger.claims import Candidate, Claim, Wish
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.counters import Delta, apply, trip_breakers
from eagle3gen.ledger.datasets import Dataset, datasets, lock_all_datasets, lock_datasets, plan_left
from eagle3gen.ledger.settlements import Settlement
from eagle3gen.ledger.states import DatasetState
from eagle3gen.ledger.texts import storable


@dataclass(frozen=True, slots=True)
class Committed:
    """What a batch made true. Datasets are as after its settlements, without the claims."""

    claims: dict[UUID, Claim]
    datasets: list[Dataset]


async def commit_batch(
    conn: Connection,
    worker_id: UUID,
    wishes: Sequence[Wish],
    ended: Sequence[Settlement],
    *,
    notes: Mapping[UUID, str] | None = None,
    repeated: bool = False,
) -> Committed:
    """Settle, claim, and note generation ids.

    `repeated` says that an earlier try of this batch may have been, or yet be, committed.
    """
    ids = {s.claim.prompt_id for s in ended}
    before: dict[UUID, Claim | None] = {}
    if repeated and wishes:
        # The earlier try may still be committing: wait for its locks, and only then look what it did.
        await _lock_prompts(conn, ids | {w.prompt_id for w in wishes})
        before = await claims.made_before(conn, wishes)
    elif ids:
        await _lock_prompts(conn, ids)
    wanted = await claims.candidates(conn, [w for w in wishes if w.attempt_id not in before]) if wishes else []
    if wanted:
        # Whoever decides on the plan's cap counts what every dataset uses.
        await lock_all_datasets(conn)
    else:
        await lock_datasets(conn, {s.claim.dataset_id for s in ended})
    known = {d.id: d for d in await datasets(conn)}
    deltas = await settlements.book(conn, ended, known) if ended else {}
    known = await trip_breakers(conn, known, deltas)
    taken = await _take(conn, worker_id, known, wanted) if wanted else []
    for claim in taken:
        delta = deltas.setdefault(claim.dataset_id, Delta())
        delta.open += claim.hold
        delta.canary_launched += claim.canary_round is not None
    if notes:
        told = {"attempts": list(notes), "ids": [storable(generation) for generation in notes.values()]}
        await conn.execute(_NOTE, told)
    await apply(conn, deltas, {i: known[i].recent for i in deltas})
    opened_before = (c for c in before.values() if c is not None)
    return Committed({c.attempt_id: c for c in (*opened_before, *taken)}, list(known.values()))


async def _take(
    conn: Connection, worker_id: UUID, known: Mapping[int, Dataset], wanted: Sequence[Candidate]
) -> list[Claim]:
    rooms = {d.id: Room(d.state is DatasetState.OPEN, d.left, d.canary_slots) for d in known.values()}
    return await claims.take(
        conn, worker_id, rooms, plan_left(known.values()), [c.claim(known[c.dataset_id]) for c in wanted]
    )


_NOTE = text(
    "INSERT INTO generations (attempt_id, generation_id)"
    " SELECT * FROM unnest(CAST(:attempts AS uuid[]), CAST(:ids AS text[])) ON CONFLICT DO NOTHING"
)
_LOCK = text("SELECT FROM prompts WHERE id = ANY(CAST(:ids AS bigint[])) ORDER BY id FOR NO KEY UPDATE")


async def _lock_prompts(conn: Connection, ids: Collection[int]) -> None:
    await conn.execute(_LOCK, {"ids": list(ids)})
