"""Forecast admission in the ledger: read the calls of a dataset, forecast them, keep the forecast with the dataset."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from sqlalchemy import text, update

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import Dataset, datasets, lock_datasets
from eagle3gen.ledger.forecast import SETTLED_MAX, Observed, forecast
from eagle3gen.ledger.money import EXACT

__all__ = ["Connection"]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is stored with a dataset."""

    call_tokens: Mapping[str, int]
    """What one more call is expected to cost, by its max_tokens."""
    open_tokens: int
    """What all open calls are expected to cost together."""


# An answer that came late ended at an unknown moment, so only what was settled in time is an end.
_ENDED = text(
    "SELECT a.worst_tokens AS most, CAST(extract(epoch FROM r.closed_at - a.opened_at) AS float8) AS seconds,"
    " CAST(extract(epoch FROM clock_timestamp() - a.opened_at) AS float8) AS age,"
    " CASE WHEN r.outcome = 'settled' THEN coalesce(r.completion_tokens, a.worst_tokens) ELSE 0 END AS tokens"
    " FROM attempts a JOIN resolutions r ON r.attempt_id = a.id WHERE a.dataset_id = :dataset"
    " ORDER BY a.opened_at DESC LIMIT :most"
)
_OPEN = text(
    "SELECT a.worst_tokens AS most, CAST(extract(epoch FROM clock_timestamp() - a.opened_at) AS float8) AS seconds"
    " FROM prompts p JOIN attempts a ON a.id = p.attempt_id WHERE p.dataset_id = :dataset AND p.state = 'in_flight'"
)


async def observe(conn: Connection, dataset_id: int) -> list[Observed]:
    """The calls of a dataset as they stand, one group per max_tokens."""
    ended = (await conn.execute(_ENDED, {"dataset": dataset_id, "most": SETTLED_MAX})).all()
    opened = (await conn.execute(_OPEN, {"dataset": dataset_id})).all()
    return [
        Observed(
            settled_seconds=np.array([row.seconds for row in ended if row.most == most], dtype=np.float64),
            settled_ages=np.array([row.age for row in ended if row.most == most], dtype=np.float64),
            settled_tokens=np.array([row.tokens for row in ended if row.most == most], dtype=np.float64),
            open_seconds=np.array([row.seconds for row in opened if row.most == most], dtype=np.float64),
            max_tokens=most,
        )
        for most in sorted({row.most for row in (*ended, *opened)})
    ]


def foresee(observed: list[Observed]) -> Foreseen:
    """The forecasts of all groups."""
    made = {group.max_tokens: forecast(group) for group in observed}
    return Foreseen({str(most): f.call_tokens for most, f in made.items()}, sum(f.open_tokens for f in made.values()))


async def refresh_forecast(conn: Connection, dataset_id: int) -> Foreseen:
    """Forecast a dataset anew, under its lock, so that no claim falls between reading and writing."""
    await lock_datasets(conn, [dataset_id])
    foreseen = foresee(await observe(conn, dataset_id))
    (dataset,) = [d for d in await datasets(conn) if d.id == dataset_id]
    reserve = foreseen.open_tokens - dataset.open_tokens
    t = tables.datasets
    values = {
        "forecast": dict(foreseen.call_tokens),
        "reserve_tokens": reserve,
        "reserve_usd": _usd(dataset, reserve),
    }
    await conn.execute(update(t).where(t.c.id == dataset_id).values(values))
    return foreseen


def _usd(dataset: Dataset, tokens: int) -> Decimal:
    """The prompts are in the holds already; only completions are forecast."""
    if dataset.prices is None:
        return Decimal(0)
    return EXACT.multiply(dataset.prices.completion_usd, Decimal(tokens))
