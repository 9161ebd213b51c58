"""Datasets: adding them, changing their state, reading them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import RowMapping, select, text, update
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.errors import InputError
from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.states import DatasetState

FROZEN = ("model", "endpoint_url", "tokenizer_sha256", "sampling")
"""What may not change once prompts were answered with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetSpec:
    """What a dataset is to be."""

    name: str
    model: str
    endpoint_url: str
    tokenizer: str
    tokenizer_sha256: str
    sampling: Mapping[str, Any]
    cap_tokens: int | None = None
    """Completion tokens that may be spent; None leaves an existing cap alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """One row of `datasets`."""

    id: int
    name: str
    model: str
    endpoint_url: str
    tokenizer: str
    tokenizer_sha256: str
    sampling: Mapping[str, Any]
    state: DatasetState
    state_reason: str
    cap_tokens: int | None
    spent_tokens: int
    held_tokens: int
    open_tokens: int
    cost_usd: Decimal
    """Sum of all known costs; `unpriced_attempts` says how many are missing from it."""
    unpriced_attempts: int

    @property
    def headroom_tokens(self) -> int | None:
        """What the cap still admits; None without a cap. Negative when a bill was dearer than its hold."""
        if self.cap_tokens is None:
            return None
        return self.cap_tokens - self.spent_tokens - self.held_tokens - self.open_tokens


DATASET_COLUMNS = tuple(c for c in tables.datasets.c if c.name != "created_at")


def dataset_from(row: RowMapping) -> Dataset:
    """A row of `DATASET_COLUMNS` as a value."""
    return Dataset(**{**dict(row), "state": DatasetState(row["state"])})


async def datasets(conn: Connection) -> list[Dataset]:
    """All datasets, oldest first."""
    rows = await conn.execute(select(*DATASET_COLUMNS).order_by(tables.datasets.c.id))
    return [dataset_from(row) for row in rows.mappings()]


async def add_dataset(conn: Connection, spec: DatasetSpec) -> int:
    """The id of the dataset, new or known. A known one takes the new cap, if any, and the tokenizer's new place.

    Raises InputError when it exists with another model, endpoint, tokenizer or sampling.
    """
    t = tables.datasets
    values = {
        "name": spec.name,
        "model": spec.model,
        "endpoint_url": spec.endpoint_url,
        "tokenizer": spec.tokenizer,
        "tokenizer_sha256": spec.tokenizer_sha256,
        "sampling": dict(spec.sampling),
        "cap_tokens": spec.cap_tokens,
    }
    # Two enqueues may bring the same file at the same time: one of them makes the dataset.
    made = await conn.execute(insert(t).values(values).on_conflict_do_nothing().returning(t.c.id))
    if (new_id := made.scalar_one_or_none()) is not None:
        return int(new_id)
    locked = select(t).where(t.c.name == spec.name).with_for_update(key_share=True)
    known = (await conn.execute(locked)).mappings().one()
    changed = [name for name in FROZEN if known[name] != getattr(spec, name)]
    if changed:
        raise InputError(_differs(spec, known, changed))
    changes: dict[str, Any] = {"tokenizer": spec.tokenizer}
    if spec.cap_tokens is not None:
        changes["cap_tokens"] = spec.cap_tokens
    await conn.execute(update(t).where(t.c.id == known["id"]).values(changes))
    return int(known["id"])


def _differs(spec: DatasetSpec, known: RowMapping, changed: Sequence[str]) -> str:
    parts = "; ".join(f"{name} is {known[name]}, not {getattr(spec, name)}" for name in changed)
    return f"dataset {spec.name} exists with other settings ({parts}); use another file name or state directory"


async def set_state(conn: Connection, names: Sequence[str], state: DatasetState, reason: str) -> None:
    """Put the named datasets into a state, with the reason that `status` shows."""
    t = tables.datasets
    ids = (await conn.execute(select(t.c.id).where(t.c.name.in_(names)))).scalars().all()
    await lock_datasets(conn, ids)
    await conn.execute(update(t).where(t.c.id.in_(ids)).values(state=state.value, state_reason=reason))


_LOCK = text("SELECT FROM datasets WHERE id = ANY(CAST(:ids AS integer[])) ORDER BY id FOR NO KEY UPDATE")


async def lock_datasets(conn: Connection, ids: Collection[int]) -> None:
    """Lock the rows whose counters or state will move, in the one order that everybody keeps to.

    Rows that only refer to a dataset (prompts being loaded) are not kept waiting by this lock.
    """
    if ids:
        await conn.execute(_LOCK, {"ids": list(ids)})
