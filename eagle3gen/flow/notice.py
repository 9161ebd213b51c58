"""What a user should know before a run starts: where a cap will keep calls waiting."""

from collections.abc import Mapping, Sequence

from eagle3gen.flow.enqueue import Enqueued, Intake
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.datasets import Dataset, datasets, plan_left
from eagle3gen.ledger.holds import worst
from eagle3gen.ledger.money import Amount, Cap
from eagle3gen.ledger.states import Admission
from eagle3gen.records import Queue


async def cap_notices(
    ledger: Ledger, intake: Intake, brought: Sequence[Enqueued], slots: Mapping[Queue, int]
) -> list[str]:
    """One sentence for each dataset and queue that strict admission will keep below its slots."""
    async with ledger.begin() as conn:
        known = await datasets(conn)
    by_name, rest = {d.name: d for d in known}, plan_left(known)
    return [
        sentence
        for e in brought
        for queue in Queue
        if (
            sentence := _notice(
                by_name[e.name], rest, queue, intake.max_tokens[queue], min(slots[queue], e.queues[queue])
            )
        )
    ]


def _notice(dataset: Dataset, rest: Cap, queue: Queue, max_tokens: int, wanted: int) -> str:
    if dataset.admission is not Admission.STRICT:
        return ""
    hold = worst(dataset.prices, 0, max_tokens)
    for whose, cap, left in (("cap", dataset.cap, dataset.left), ("the plan's cap", dataset.plan_cap, rest)):
        admitted = left.times(hold, wanted)
        if admitted < wanted:
            by_tokens = left.tokens is not None and Cap(left.tokens).times(hold, wanted) == admitted
            what = _tokens(cap, left, max_tokens) if by_tokens else _usd(cap, left, hold)
            return (
                f"{dataset.name}: {whose} {what} admits {admitted:,} in flight of {wanted:,} in the {queue.value} "
                "queue; --admission forecast lifts that"
            )
    return ""


def _tokens(cap: Cap, left: Cap, max_tokens: int) -> str:
    rest = "" if left == cap else f" ({left.tokens:,} left)"
    return f"{cap.tokens:,}{rest} at max_tokens {max_tokens:,}"


def _usd(cap: Cap, left: Cap, hold: Amount) -> str:
    rest = "" if left == cap else f" (${left.usd:,.2f} left)"
    return f"${cap.usd:,.2f}{rest} at up to ${hold.usd:,.4f} a call"
