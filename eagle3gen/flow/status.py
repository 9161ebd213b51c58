"""What a run looks like now, as plain values: the same for the screen, for `--json` and for the end of a run."""

from collections.abc import Sequence
from typing import Any

from eagle3gen.errors import InputError
from eagle3gen.ledger import reading
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.reading import DatasetTotals
from eagle3gen.ledger.states import DatasetState
from eagle3gen.records import usd


async def totals(ledger: Ledger) -> list[DatasetTotals]:
    """All datasets with their counts, in the order in which they were added."""
    async with ledger.begin() as conn:
        return await reading.totals(conn)


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
            "pending": d.left,
            "in_flight": d.in_flight,
            "verdicts": dict(d.verdicts),
            "completion_tokens": d.spent_tokens,
            "cost_usd": usd(d.cost_usd),
            "unpriced_attempts": d.unpriced_attempts,
            "held_tokens": d.held_tokens,
            "open_tokens": d.open_tokens,
            "cap_tokens": d.cap_tokens,
        }
        for d in datasets
    ]


def at_cap(d: DatasetTotals) -> bool:
    """Whether work is left that the cap no longer admits, with nothing open that could free room."""
    if d.cap_tokens is None or d.smallest_pending_hold is None or d.queued or d.in_flight:
        return False
    return d.cap_tokens - d.spent_tokens - d.held_tokens - d.open_tokens < d.smallest_pending_hold


def finished(d: DatasetTotals) -> bool:
    """Whether nothing more will happen to this dataset by itself."""
    if d.in_flight:
        return False
    return d.left == 0 or d.state is not DatasetState.OPEN or at_cap(d)


async def chosen(ledger: Ledger, names: Sequence[str] | None) -> list[DatasetTotals]:
    """The named datasets, or all. Raises InputError for a name that is no dataset, or an empty ledger."""
    everything = {d.name: d for d in await totals(ledger)}
    if not everything:
        raise InputError("the ledger holds no dataset yet; add one with `eagle3gen enqueue` or `eagle3gen run`")
    for name in names or ():
        if name not in everything:
            raise InputError(f"there is no dataset named {name!r}; the ledger has: {', '.join(everything)}")
    return [everything[name] for name in names] if names else list(everything.values())
