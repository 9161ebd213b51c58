"""Claiming prompts: `queued → in_flight`, with an attempt and its hold, for many prompts in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import text

from eagle3gen.ledger import holds, tables
from eagle3gen.ledger.admission import Room, admit
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import Dataset
from eagle3gen.ledger.money import Amount, Cap
from eagle3gen.records import Queue


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right, and the duty, to settle one attempt."""

    attempt_id: UUID
    prompt_id: int
    dataset_id: int
    payload: bytes
    queue: Queue
    max_tokens: int
    tries: int
    """Which counted try this is, from 1."""

    hold: Amount
    """What it reserves of the caps while it is open."""
    worst: Amount
    """What it counts for when its bill stays unknown: the most that the answer can cost."""
    canary_round: int | None = None
    """Which canary it belongs to, if any."""


@dataclass(frozen=True, slots=True)
class Wish:
    """A worker's wish to answer a prompt, under an attempt id that it made before asking."""

    prompt_id: int
    attempt_id: UUID


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queued prompt that is wished for, locked, before anything is reserved for it."""

    row: Mapping[Any, Any]
    attempt_id: UUID

    @property
    def dataset_id(self) -> int:
        return int(self.row["dataset_id"])

    def claim(self, dataset: Dataset) -> Claim:
        payload, most = self.row["payload"], self.row["max_tokens"]
        return _claim(
            self.row,
            self.attempt_id,
            hold=holds.hold(dataset.prices, dataset.forecast, len(payload), most),
            worst=holds.worst(dataset.prices, len(payload), most),
            canary_round=None if dataset.canary_slots is None else dataset.canary_round,
        )


# A doubled message finds no queued row. A row locked by another claim is skipped: it is being taken.
_CANDIDATES = text(
    "SELECT id, dataset_id, payload, queue, max_tokens, tries FROM prompts"
    " WHERE id = ANY(CAST(:ids AS bigint[])) AND state = 'queued' FOR NO KEY UPDATE SKIP LOCKED"
)
# After a commit whose answer was lost: the attempts that it made. One may have been given up meanwhile.
_MADE_BEFORE = text(
    "SELECT p.id, p.dataset_id, p.payload, p.queue, p.max_tokens, p.tries, a.id AS attempt_id,"
    " a.hold_tokens, a.hold_usd, a.worst_tokens, a.worst_usd, a.canary_round,"
    " p.state = 'in_flight' AND p.attempt_id = a.id AS open"
    " FROM attempts a JOIN prompts p ON p.id = a.prompt_id WHERE a.id = ANY(CAST(:attempts AS uuid[]))"
)
_TAKE = text(
    "UPDATE prompts p SET state = 'in_flight', attempt_id = v.attempt_id, queued_at = NULL"
    " FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[])) AS v(id, attempt_id)"
    " WHERE p.id = v.id AND p.state = 'queued'"
)
_REFUSE = text(
    "UPDATE prompts SET state = 'pending', queued_at = NULL WHERE id = ANY(CAST(:ids AS bigint[])) AND state = 'queued'"
)


async def candidates(conn: Connection, wishes: Sequence[Wish]) -> list[Candidate]:
    """Lock the wished-for prompts that are queued; the first wish for a prompt gets it."""
    by_prompt: dict[int, UUID] = {}
    for wish in wishes:
        by_prompt.setdefault(wish.prompt_id, wish.attempt_id)
    rows = (await conn.execute(_CANDIDATES, {"ids": list(by_prompt)})).mappings()
    found = {row["id"]: row for row in rows}
    return [Candidate(found[i], attempt) for i, attempt in by_prompt.items() if i in found]


async def made_before(conn: Connection, wishes: Sequence[Wish]) -> dict[UUID, Claim | None]:
    """The attempts of these wishes that an earlier commit made although its answer never arrived.

    None for one that was given up since: its id is spent.
    """
    rows = (await conn.execute(_MADE_BEFORE, {"attempts": [w.attempt_id for w in wishes]})).mappings()
    return {row["attempt_id"]: _made(row) if row["open"] else None for row in rows}


async def take(
    conn: Connection, worker_id: UUID, rooms: Mapping[int, Room], plan_left: Cap, wanted: Sequence[Claim]
) -> list[Claim]:
    """Admit what the caps allow, and open an attempt for each; the refused go back to pending.

    All datasets must be locked, and `rooms` and `plan_left` read under that lock.
    """
    admitted, refused = admit(rooms, plan_left, ((c, c.dataset_id, c.hold) for c in wanted))
    if refused:
        await conn.execute(_REFUSE, {"ids": [c.prompt_id for c in refused]})
    if admitted:
        await conn.execute(tables.attempts.insert(), [_attempt_row(c, worker_id) for c in admitted])
        ids, attempts = [c.prompt_id for c in admitted], [c.attempt_id for c in admitted]
        await conn.execute(_TAKE, {"ids": ids, "attempts": attempts})
    return admitted


def _attempt_row(claim: Claim, worker_id: UUID) -> dict[str, Any]:
    return {
        "id": claim.attempt_id,
        "prompt_id": claim.prompt_id,
        "dataset_id": claim.dataset_id,
        "worker_id": worker_id,
        "hold_tokens": claim.hold.tokens,
        "hold_usd": claim.hold.usd,
        "worst_tokens": claim.worst.tokens,
        "worst_usd": claim.worst.usd,
        "canary_round": claim.canary_round,
    }


def _made(row: Mapping[Any, Any]) -> Claim:
    return _claim(
        row,
        row["attempt_id"],
        hold=Amount(row["hold_tokens"], row["hold_usd"]),
        worst=Amount(row["worst_tokens"], row["worst_usd"]),
        canary_round=row["canary_round"],
    )


def _claim(row: Mapping[Any, Any], attempt_id: UUID, *, hold: Amount, worst: Amount, canary_round: int | None) -> Claim:
    return Claim(
        attempt_id=attempt_id,
        prompt_id=row["id"],
        dataset_id=row["dataset_id"],
        payload=row["payload"],
        queue=Queue(row["queue"]),
        max_tokens=row["max_tokens"],
        tries=row["tries"] + 1,
        hold=hold,
        worst=worst,
        canary_round=canary_round,
    )
