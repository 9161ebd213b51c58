"""Attempts whose bill is not known, and the corrections that settle them later."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.counters import Delta, apply
from eagle3gen.ledger.datasets import datasets, lock_datasets
from eagle3gen.ledger.money import NOTHING, Amount
from eagle3gen.ledger.states import CorrectionKind
from eagle3gen.ledger.texts import storable, storable_or_none
from eagle3gen.records import Usage

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """An attempt that ended without a whole bill."""

    attempt_id: UUID
    dataset_id: int
    prompt_id: int
    endpoint_url: str
    generation_id: str | None
    """None when the call was lost before its headers came, or nothing was ever sent."""
    completion_tokens: int | None
    """What is known all the same."""
    cost_usd: Decimal | None
    worst: Amount
    settled: bool
    """Whether the answer came, only without a whole bill."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """What became known of one of them. `usage` has completion tokens and cost."""

    of: Unsettled
    kind: CorrectionKind
    usage: Usage
    reason: str
    model: str | None = None
    host: str | None = None
    finish_reason: str | None = None


_UNSETTLED = text(
    "SELECT r.attempt_id, a.dataset_id, a.prompt_id, d.endpoint_url,"
    " coalesce(r.generation_id, g.generation_id) AS generation_id, a.worst_tokens, a.worst_usd,"
    " CASE WHEN r.outcome = 'settled' THEN r.completion_tokens END AS completion_tokens,"
    " CASE WHEN r.outcome = 'settled' THEN r.cost_usd END AS cost_usd, r.outcome = 'settled' AS settled,"
    " r.error AS reason"
    " FROM resolutions r JOIN attempts a ON a.id = r.attempt_id JOIN datasets d ON d.id = a.dataset_id"
    " LEFT JOIN generations g ON g.attempt_id = r.attempt_id LEFT JOIN corrections c ON c.attempt_id = r.attempt_id"
    " WHERE c.attempt_id IS NULL AND (r.outcome = 'held' OR (r.outcome = 'settled'"
    "  AND (r.completion_tokens IS NULL OR r.cost_usd IS NULL))) ORDER BY r.closed_at, r.attempt_id"
)


async def unsettled(conn: Connection) -> list[Unsettled]:
    """All attempts that ended without a whole bill, oldest first."""
    found = []
    for row in (await conn.execute(_UNSETTLED)).mappings():
        fields = {name: value for name, value in row.items() if name not in {"worst_tokens", "worst_usd"}}
        found.append(Unsettled(**fields, worst=Amount(row["worst_tokens"], row["worst_usd"])))
    return found


async def correct(conn: Connection, made: Sequence[Correction]) -> int:
    """Write corrections and move the counters; how many. An attempt that was corrected meanwhile stays as it is."""
    if not made:
        return 0
    await lock_datasets(conn, {c.of.dataset_id for c in made})
    c = tables.corrections
    statement = insert(c).on_conflict_do_nothing().returning(c.c.attempt_id)
    written = set((await conn.execute(statement, [_row(correction) for correction in made])).scalars())
    deltas: dict[int, Delta] = {}
    for correction in made:
        if correction.of.attempt_id in written:
            _add(deltas.setdefault(correction.of.dataset_id, Delta()), correction)
    recent = {d.id: d.recent for d in await datasets(conn)}
    await apply(conn, deltas, {i: recent[i] for i in deltas})
    return len(written)


def _add(delta: Delta, correction: Correction) -> None:
    """From unknown to known, tokens and USD each on their own. A cost that is still unknown stays held."""
    before, now = correction.of, correction.usage
    delta.spent += Amount((now.completion_tokens or 0) - (before.completion_tokens or 0))
    if before.completion_tokens is None:
        delta.held -= Amount(before.worst.tokens)
    if before.cost_usd is None and now.cost_usd is not None:
        delta.spent += Amount(0, now.cost_usd)
        delta.held -= Amount(0, before.worst.usd)
    elif now.cost_usd is not None:
        delta.spent += Amount(0, now.cost_usd - (before.cost_usd or NOTHING))
    delta.unpriced_attempts += int(now.cost_usd is None) - int(before.settled and before.cost_usd is None)


def _row(correction: Correction) -> dict[str, Any]:
    usage = correction.usage
    return {
        "attempt_id": correction.of.attempt_id,
        "kind": correction.kind.value,
        "reason": storable(correction.reason),
        "generation_id": storable_or_none(correction.of.generation_id),
        "model": storable_or_none(correction.model),
        "host": storable_or_none(correction.host),
        "finish_reason": storable_or_none(correction.finish_reason),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cached_tokens": usage.cached_tokens,
        "cost_usd": usage.cost_usd,
    }
