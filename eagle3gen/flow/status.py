"""What a run looks like now, as plain values: the same for the screen, for `--json` and for the end of a run."""

from collections.abc import Sequence
from typing import Any

from eagle3gen.errors import InputError
from eagle3gen.ledger import reading
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.health import count_faults
from eagle3gen.ledger.money import Amount, Cap
from eagle3gen.ledger.reading import DatasetTotals, PlanTotals
from eagle3gen.ledger.states import DatasetState
from eagle3gen.records import usd


async def totals(ledger: Ledger) -> list[DatasetTotals]:
    """All datasets with their counts, in the order in which they were added."""
    async with ledger.begin() as conn:
        return await reading.totals(conn)


async def plan(ledger: Ledger) -> PlanTotals:
    """The caps over all datasets, and what counts against them."""
    async with ledger.begin() as conn:
        return await reading.plan_totals(conn)


def as_json(datasets: Sequence[DatasetTotals]) -> list[dict[str, Any]]:
    """The stable `datasets` list of every `--json`. Money is a string, `pending` is all that waits its turn."""
    return [
        {
            "name": d.name,
            "state": d.state.value,
            "reason": d.state_reason or None,
            "model": d.model,
            "prompts": d.prompts,
            "done": d.done,
            "rejected": d.rejected,
            "failed": d.failed,
            "pending": d.waiting,
            "in_flight": d.in_flight,
            "verdicts": dict(d.verdicts),
            "completion_tokens": d.spent_tokens,
            "cost_usd": usd(d.cost_usd),
            "unpriced_attempts": d.unpriced_attempts,
            **_money(d.held, d.open, d.cap, d.left),
            "admission": d.admission.value,
            "canary": {"size": d.canary, "launched": d.canary_launched, "judged": d.canary_judged},
            "breaker": {**d.breaker.as_json(), "answers": len(d.recent), "faults": count_faults(d.recent)},
        }
        for d in datasets
    ]


def plan_json(totals: PlanTotals) -> dict[str, Any]:
    """The sums over all datasets, under the same keys."""
    return {
        "completion_tokens": totals.spent.tokens,
        "cost_usd": usd(totals.spent.usd),
        **_money(totals.held, totals.open, totals.cap, totals.left),
    }


def _money(held: Amount, opened: Amount, cap: Cap, left: Cap) -> dict[str, Any]:
    return {
        "held_tokens": held.tokens,
        "held_usd": usd(held.usd),
        "open_tokens": opened.tokens,
        "open_usd": usd(opened.usd),
        "cap_tokens": cap.tokens,
        "cap_usd": None if cap.usd is None else usd(cap.usd),
        "left_tokens": left.tokens,
        "left_usd": None if left.usd is None else usd(left.usd),
    }


def at_cap(d: DatasetTotals) -> bool:
    """Whether work is left that the caps no longer admit, with nothing of it open that could free room."""
    if d.pending is None or d.pending.fits or d.queued or d.in_flight:
        return False
    # With nothing open there is nothing to reserve for: a forecast that still does so is about to be renewed.
    return d.reserve_tokens == 0


def finished(d: DatasetTotals) -> bool:
    """Whether nothing more will happen to this dataset by itself."""
    if d.in_flight:
        return False
    return d.waiting == 0 or d.state is not DatasetState.OPEN or at_cap(d)


async def chosen(ledger: Ledger, names: Sequence[str] | None) -> list[DatasetTotals]:
    """The named datasets, or all. Raises InputError for a name that is no dataset, or an empty ledger."""
    everything = {d.name: d for d in await totals(ledger)}
    if not everything:
        raise InputError("the ledger holds no dataset yet; add one with `eagle3gen enqueue` or `eagle3gen run`")
    for name in names or ():
        if name not in everything:
            raise InputError(f"there is no dataset named {name!r}; the ledger has: {', '.join(everything)}")
    return [everything[name] for name in names] if names else list(everything.values())
