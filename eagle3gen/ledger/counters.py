"""What a transaction changes in the counters of its datasets, which it has locked."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import bindparam, text, update

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import Dataset
from eagle3gen.ledger.health import Fault, Trip, push, trip
from eagle3gen.ledger.money import ZERO, Amount
from eagle3gen.ledger.states import DatasetState


@dataclass(slots=True)
class Delta:
    """What changes in one dataset: money, canary, and the answers that were judged, oldest first."""

    spent: Amount = ZERO
    held: Amount = ZERO
    open: Amount = ZERO
    reserve: Amount = ZERO
    unpriced_attempts: int = 0
    canary_launched: int = 0
    canary_judged: int = 0
    answers: list[Fault | None] = field(default_factory=list)

    def columns(self) -> dict[str, Any]:
        """By the names of the counters."""
        return {
            "spent_tokens": self.spent.tokens,
            "cost_usd": self.spent.usd,
            "held_tokens": self.held.tokens,
            "held_usd": self.held.usd,
            "open_tokens": self.open.tokens,
            "open_usd": self.open.usd,
            "reserve_tokens": self.reserve.tokens,
            "reserve_usd": self.reserve.usd,
            "unpriced_attempts": self.unpriced_attempts,
            "canary_launched": self.canary_launched,
            "canary_judged": self.canary_judged,
        }


def after(dataset: Dataset, delta: Delta) -> Dataset:
    """The dataset as it will be when the change is applied."""
    spent, held = dataset.spent + delta.spent, dataset.held + delta.held
    opened = Amount(dataset.open_tokens, dataset.open_usd) + delta.open
    reserve = Amount(dataset.reserve_tokens, dataset.reserve_usd) + delta.reserve
    return replace(
        dataset,
        spent_tokens=spent.tokens,
        cost_usd=spent.usd,
        held_tokens=held.tokens,
        held_usd=held.usd,
        open_tokens=opened.tokens,
        open_usd=opened.usd,
        reserve_tokens=reserve.tokens,
        reserve_usd=reserve.usd,
        unpriced_attempts=dataset.unpriced_attempts + delta.unpriced_attempts,
        canary_launched=dataset.canary_launched + delta.canary_launched,
        canary_judged=dataset.canary_judged + delta.canary_judged,
        recent=push(dataset.recent, delta.answers, dataset.breaker.window),
    )


async def trip_breakers(
    conn: Connection, before: Mapping[int, Dataset], deltas: Mapping[int, Delta]
) -> dict[int, Dataset]:
    """The datasets after the change; those whose answers are too bad are paused, with the reason."""
    changed = {i: after(d, deltas[i]) if i in deltas else d for i, d in before.items()}
    for dataset_id in deltas:
        dataset = changed[dataset_id]
        if deltas[dataset_id].answers and dataset.state is DatasetState.OPEN:
            tripped = _tripped(before[dataset_id], dataset)
            if tripped is not None:
                reason = tripped.sentence(*await _examples(conn, dataset_id, tripped))
                changed[dataset_id] = replace(dataset, state=DatasetState.PAUSED, state_reason=reason)
                await conn.execute(_PAUSE, {"dataset": dataset_id, "reason": reason})
    return changed


def _tripped(before: Dataset, dataset: Dataset) -> Trip | None:
    breaker = dataset.breaker
    if dataset.canary_slots is not None:
        return None
    canary_ends = before.canary_slots is not None
    return trip(dataset.recent, breaker, min(breaker.minimum, dataset.canary) if canary_ends else breaker.minimum)


_PAUSE = text("UPDATE datasets SET state = 'paused', state_reason = :reason WHERE id = :dataset AND state = 'open'")
_EXAMPLES = text(
    "SELECT a.prompt_id, r.error FROM resolutions r JOIN attempts a ON a.id = r.attempt_id"
    " WHERE a.dataset_id = :dataset AND r.fault = :fault ORDER BY r.closed_at DESC LIMIT 3"
)


async def _examples(conn: Connection, dataset_id: int, tripped: Trip) -> tuple[list[int], str]:
    rows = (await conn.execute(_EXAMPLES, {"dataset": dataset_id, "fault": tripped.fault.value})).all()
    return [row.prompt_id for row in rows], rows[0].error if rows else ""


async def apply(conn: Connection, deltas: Mapping[int, Delta], recent: Mapping[int, str]) -> None:
    """Move the counters of the datasets, which the caller has locked."""
    if not deltas:
        return
    t = tables.datasets
    names = tuple(Delta().columns())
    values = {n: t.c[n] + bindparam(f"d_{n}") for n in names} | {"recent": bindparam("d_recent")}
    statement = update(t).where(t.c.id == bindparam("dataset")).values(values)
    # Locked in id order already, so the order of these updates cannot deadlock.
    await conn.execute(
        statement,
        [
            {"dataset": i, "d_recent": recent[i], **{f"d_{n}": v for n, v in delta.columns().items()}}
            for i, delta in deltas.items()
        ],
    )
