"""Datasets: adding them, changing their state, reading them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import RowMapping, select, text, true, update
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.errors import InputError
from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.health import Breaker
from eagle3gen.ledger.money import UNCAPPED, ZERO, Amount, Cap
from eagle3gen.ledger.states import Admission, DatasetState
from eagle3gen.records import Prices

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
    routing: Mapping[str, Any] | None = None
    """Which hosts may serve it, by the endpoint's own names; None leaves that of an existing dataset alone."""
    cap_tokens: int | None = None
    """Completion tokens that may be spent; None leaves an existing cap alone, as do the following."""
    cap_usd: Decimal | None = None
    prices: Prices | None = None
    admission: Admission | None = None
    canary: int | None = None
    breaker: Breaker | None = None


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
    routing: Mapping[str, Any]
    state: DatasetState
    state_reason: str
    cap_tokens: int | None
    cap_usd: Decimal | None
    plan_cap: Cap
    """The cap over all datasets of the ledger."""
    admission: Admission
    prices: Prices | None
    """The dearest that the routing allows; None while nobody knows."""
    spent_tokens: int
    held_tokens: int
    open_tokens: int
    cost_usd: Decimal
    """Sum of all known costs; `unpriced_attempts` says how many are missing from it."""
    held_usd: Decimal
    open_usd: Decimal
    unpriced_attempts: int
    forecast: Mapping[str, int]
    """Under `forecast`: what a call is expected to cost in tokens, by its max_tokens."""
    reserve_tokens: int
    reserve_usd: Decimal
    """What the open calls are expected to cost beyond their holds; may be negative."""
    canary: int
    canary_round: int
    canary_launched: int
    canary_judged: int
    breaker: Breaker
    recent: str
    """The latest answers, one letter each (`health.py`)."""

    @property
    def cap(self) -> Cap:
        return Cap(self.cap_tokens, self.cap_usd)

    @property
    def capped_in_usd(self) -> bool:
        """Whether its prices must not rise above those that its holds were made with."""
        return self.cap_usd is not None or self.plan_cap.usd is not None

    @property
    def spent(self) -> Amount:
        return Amount(self.spent_tokens, self.cost_usd)

    @property
    def held(self) -> Amount:
        return Amount(self.held_tokens, self.held_usd)

    @property
    def open(self) -> Amount:
        """What the open calls reserve, by their holds and by the forecast."""
        return Amount(self.open_tokens, self.open_usd) + Amount(self.reserve_tokens, self.reserve_usd)

    @property
    def used(self) -> Amount:
        """What counts against the caps."""
        return self.spent + self.held + self.open

    @property
    def left(self) -> Cap:
        """What the dataset's own cap still admits."""
        return self.cap.left(self.used)

    @property
    def canary_slots(self) -> int | None:
        """Calls of the canary that may still start; None when the canary is over, or there is none."""
        return None if self.canary_judged >= self.canary else max(0, self.canary - self.canary_launched)


_PRICES = ("prompt_price_usd", "completion_price_usd", "request_price_usd")
_PLAN = ("plan_cap_tokens", "plan_cap_usd")
DATASET_COLUMNS = (
    *(c for c in tables.datasets.c if c.name != "created_at"),
    tables.plan.c.cap_tokens.label("plan_cap_tokens"),
    tables.plan.c.cap_usd.label("plan_cap_usd"),
)


def dataset_from(row: RowMapping) -> Dataset:
    """A row of `DATASET_COLUMNS` as a value."""
    fields = {name: value for name, value in row.items() if name not in {*_PRICES, *_PLAN}}
    prompt, completion, request = (row[name] for name in _PRICES)
    known = completion is not None
    prices = Prices(prompt_usd=prompt, completion_usd=completion, request_usd=request) if known else None
    changed = {
        "state": DatasetState(row["state"]),
        "admission": Admission(row["admission"]),
        "breaker": Breaker(**row["breaker"]),
        "prices": prices,
        "plan_cap": Cap(row["plan_cap_tokens"], row["plan_cap_usd"]),
    }
    return Dataset(**{**fields, **changed})


async def datasets(conn: Connection) -> list[Dataset]:
    """All datasets, oldest first."""
    joined = tables.datasets.join(tables.plan, true())
    rows = await conn.execute(select(*DATASET_COLUMNS).select_from(joined).order_by(tables.datasets.c.id))
    return [dataset_from(row) for row in rows.mappings()]


async def add_dataset(conn: Connection, spec: DatasetSpec) -> int:
    """The id of the dataset, new or known. A known one takes the new cap, if any, and the tokenizer's new place.

    Raises InputError when it exists with another model, endpoint, tokenizer or sampling, and when the plan has a cap
    in USD and no price is known for it.
    """
    t = tables.datasets
    await _check_priced(conn, spec)
    values = {
        "name": spec.name,
        "model": spec.model,
        "endpoint_url": spec.endpoint_url,
        "tokenizer": spec.tokenizer,
        "tokenizer_sha256": spec.tokenizer_sha256,
        "sampling": dict(spec.sampling),
        **_changeable(spec),
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
    await conn.execute(update(t).where(t.c.id == known["id"]).values(tokenizer=spec.tokenizer, **_changeable(spec)))
    return int(known["id"])


async def _check_priced(conn: Connection, spec: DatasetSpec) -> None:
    """A dataset without prices would pass the plan's cap in USD unseen."""
    if spec.prices is not None or (await plan_cap(conn)).usd is None:
        return
    t = tables.datasets
    known = select(t.c.completion_price_usd).where(t.c.name == spec.name)
    if (await conn.execute(known)).scalar_one_or_none() is None:
        raise InputError(
            f"the plan has a cap in USD, but no price is known for dataset {spec.name}; check its model and endpoint"
        )


def _changeable(spec: DatasetSpec) -> dict[str, Any]:
    """What a later enqueue may change, as far as it says anything."""
    prices, breaker = spec.prices, spec.breaker
    told = {
        "routing": spec.routing,
        "cap_tokens": spec.cap_tokens,
        "cap_usd": spec.cap_usd,
        "admission": spec.admission and spec.admission.value,
        "prompt_price_usd": prices and prices.prompt_usd,
        "completion_price_usd": prices and prices.completion_usd,
        "request_price_usd": prices and prices.request_usd,
        "canary": spec.canary,
        "breaker": breaker and breaker.as_json(),
    }
    changes = {name: value for name, value in told.items() if value is not None}
    if spec.admission is Admission.STRICT:
        changes |= {"forecast": {}, "reserve_tokens": 0, "reserve_usd": 0}
    return changes


def _differs(spec: DatasetSpec, known: RowMapping, changed: Sequence[str]) -> str:
    parts = "; ".join(f"{name} is {known[name]}, not {getattr(spec, name)}" for name in changed)
    return f"dataset {spec.name} exists with other settings ({parts}); use another file name or state directory"


async def set_state(conn: Connection, names: Sequence[str], state: DatasetState, reason: str) -> None:
    """Put the named datasets into a state, with the reason that `status` shows."""
    t = tables.datasets
    ids = (await conn.execute(select(t.c.id).where(t.c.name.in_(names)))).scalars().all()
    await lock_datasets(conn, ids)
    await conn.execute(update(t).where(t.c.id.in_(ids)).values(state=state.value, state_reason=reason))


async def set_prices(conn: Connection, dataset_id: int, prices: Prices) -> None:
    """From now on holds are made with these prices; those that are open stay as they are."""
    t = tables.datasets
    values = dict(zip(_PRICES, (prices.prompt_usd, prices.completion_usd, prices.request_usd), strict=True))
    await lock_datasets(conn, [dataset_id])
    await conn.execute(update(t).where(t.c.id == dataset_id).values(values))


async def reopen(conn: Connection, names: Sequence[str], *, recanary: bool) -> None:
    """Open datasets, with what the breaker saw forgotten, and if wanted with a new canary."""
    t = tables.datasets
    ids = (await conn.execute(select(t.c.id).where(t.c.name.in_(names)))).scalars().all()
    await lock_datasets(conn, ids)
    changes: dict[str, Any] = {"state": DatasetState.OPEN.value, "state_reason": "", "recent": ""}
    if recanary:
        changes |= {"canary_round": t.c.canary_round + 1, "canary_launched": 0, "canary_judged": 0}
    await conn.execute(update(t).where(t.c.id.in_(ids)).values(changes))


async def plan_cap(conn: Connection) -> Cap:
    """The cap over all datasets of the ledger."""
    row = (await conn.execute(select(tables.plan.c.cap_tokens, tables.plan.c.cap_usd))).one()
    return Cap(row.cap_tokens, row.cap_usd)


async def set_plan_cap(conn: Connection, cap: Cap) -> None:
    """Change the plan's caps; None leaves one as it is. Raises InputError for USD without known prices."""
    await lock_all_datasets(conn)
    unpriced = [d.name for d in await datasets(conn) if d.prices is None]
    if cap.usd is not None and unpriced:
        raise InputError(f"no price is known for dataset {unpriced[0]}, so a cap in USD could not be kept")
    told = {"cap_tokens": cap.tokens, "cap_usd": cap.usd}
    changes = {name: value for name, value in told.items() if value is not None}
    if changes:
        await conn.execute(update(tables.plan).values(changes))


def plan_left(known: Collection[Dataset]) -> Cap:
    """What the plan's caps still admit, given all datasets."""
    cap = next((d.plan_cap for d in known), UNCAPPED)
    return cap.left(sum((d.used for d in known), start=ZERO))


_LOCK_ALL = text("SELECT FROM datasets ORDER BY id FOR NO KEY UPDATE")


async def lock_all_datasets(conn: Connection) -> None:
    """Lock every dataset, for who decides on the cap of the plan: it counts what all of them use."""
    await conn.execute(_LOCK_ALL)


_LOCK = text("SELECT FROM datasets WHERE id = ANY(CAST(:ids AS integer[])) ORDER BY id FOR NO KEY UPDATE")


async def lock_datasets(conn: Connection, ids: Collection[int]) -> None:
    """Lock the rows whose counters or state will move, in the one order that everybody keeps to.

    Rows that only refer to a dataset (prompts being loaded) are not kept waiting by this lock.
    """
    if ids:
        await conn.execute(_LOCK, {"ids": list(ids)})
