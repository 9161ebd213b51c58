"""Reading the ledger: totals for the screen, samples for export and audit."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from sqlalchemy import func, select, text

from eagle3gen.ledger import tables
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.datasets import Dataset, datasets, plan_cap
from eagle3gen.ledger.demand import Pending, pending
from eagle3gen.ledger.money import ZERO, Amount, Cap
from eagle3gen.ledger.states import PromptState
from eagle3gen.records import Verdict

__all__ = ["Connection"]

CURSOR_ROWS = 500
"""Samples fetched at a time: tens of megabytes at the very most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetTotals(Dataset):
    """A dataset with the counts of its prompts and verdicts."""

    counts: Mapping[PromptState, int]
    verdicts: Mapping[str, int]
    pending: Pending | None = None
    """What the pending prompts would reserve; None when there are none."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Why prompts failed or were rejected, the most frequent reasons first."""

    @property
    def prompts(self) -> int:
        return sum(self.counts.values())

    def count(self, *states: PromptState) -> int:
        return sum(self.counts.get(state, 0) for state in states)

    @property
    def done(self) -> int:
        return self.count(PromptState.DONE)

    @property
    def rejected(self) -> int:
        return self.count(PromptState.REJECTED)

    @property
    def failed(self) -> int:
        return self.count(PromptState.FAILED)

    @property
    def in_flight(self) -> int:
        return self.count(PromptState.IN_FLIGHT)

    @property
    def queued(self) -> int:
        return self.count(PromptState.QUEUED)

    @property
    def waiting(self) -> int:
        """Prompts that wait their turn."""
        return self.count(PromptState.WAITING, PromptState.PENDING, PromptState.QUEUED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTotals:
    """The sums over all datasets, and the caps over them."""

    cap: Cap
    spent: Amount
    held: Amount
    open: Amount

    @property
    def left(self) -> Cap:
        """What the plan's caps still admit."""
        return self.cap.left(self.spent + self.held + self.open)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """A stored sample with the bill of its attempt."""

    prompt_id: int
    key: bytes
    source: str
    max_tokens: int
    verdict: Verdict
    prompt_ids: bytes
    output_ids: bytes
    output_len: int
    difference: int | None
    prompt_difference: int | None
    tokenizer_sha256: str
    generation_id: str | None
    model: str | None
    host: str | None
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: Decimal | None


_COUNTS = text("SELECT dataset_id, state, count(*) FROM prompts GROUP BY dataset_id, state")
ERRORS_MAX = 5
_ERRORS = text(
    "SELECT dataset_id, last_error, count(*) FROM prompts WHERE state IN ('failed', 'rejected') AND last_error <> ''"
    " GROUP BY dataset_id, last_error ORDER BY count(*) DESC LIMIT 100"
)


async def totals(conn: Connection) -> list[DatasetTotals]:
    """Every dataset with its counts, oldest first."""
    counts: dict[int, dict[PromptState, int]] = {}
    for dataset_id, state, count in await conn.execute(_COUNTS):
        counts.setdefault(dataset_id, {})[PromptState(state)] = count
    verdicts = await _verdicts(conn)
    errors: dict[int, dict[str, int]] = {}
    for dataset_id, sentence, count in await conn.execute(_ERRORS):
        if len(known := errors.setdefault(dataset_id, {})) < ERRORS_MAX:
            known[sentence] = count
    everything = await datasets(conn)
    waiting = await pending(conn, everything)
    return [
        DatasetTotals(
            **{name: getattr(d, name) for name in Dataset.__dataclass_fields__},
            counts=counts.get(d.id, {}),
            verdicts=verdicts.get(d.id, {}),
            pending=waiting.get(d.id),
            errors=errors.get(d.id, {}),
        )
        for d in everything
    ]


async def plan_totals(conn: Connection) -> PlanTotals:
    """The plan's caps, and what counts against them."""
    known = await datasets(conn)
    return PlanTotals(
        cap=await plan_cap(conn),
        spent=sum((d.spent for d in known), start=ZERO),
        held=sum((d.held for d in known), start=ZERO),
        open=sum((d.open for d in known), start=ZERO),
    )


@dataclass(frozen=True, slots=True)
class Load:
    """How much of a dataset is answered and open."""

    answers: int = 0
    in_flight: int = 0


_LOADS = text(
    "SELECT d.id, (SELECT count(*) FROM samples s WHERE s.dataset_id = d.id) AS answers,"
    " (SELECT count(*) FROM prompts p WHERE p.dataset_id = d.id AND p.state = 'in_flight') AS in_flight FROM datasets d"
)


async def loads(conn: Connection) -> dict[int, Load]:
    """Answers and open calls of every dataset."""
    return {row.id: Load(row.answers, row.in_flight) for row in await conn.execute(_LOADS)}


async def clock(conn: Connection) -> datetime:
    """The database's time: what events in the ledger are compared with."""
    now: datetime = (await conn.execute(select(func.clock_timestamp()))).scalar_one()
    return now


async def in_flight(conn: Connection, dataset_ids: Sequence[int]) -> int:
    """Prompts of these datasets that have an open attempt."""
    p = tables.prompts
    statement = select(func.count()).where(p.c.state == PromptState.IN_FLIGHT.value, p.c.dataset_id.in_(dataset_ids))
    return int((await conn.execute(statement)).scalar_one())


async def held_since(conn: Connection, dataset_ids: Sequence[int], since: datetime) -> int:
    """Attempts of these datasets that ended without a word on their bill since then."""
    r, a = tables.resolutions, tables.attempts
    statement = (
        select(func.count())
        .select_from(r.join(a, a.c.id == r.c.attempt_id))
        .where(a.c.dataset_id.in_(dataset_ids), r.c.outcome == "held", r.c.closed_at >= since)
    )
    return int((await conn.execute(statement)).scalar_one())


async def _verdicts(conn: Connection) -> dict[int, dict[str, int]]:
    s = tables.samples
    rows = await conn.execute(select(s.c.dataset_id, s.c.verdict, func.count()).group_by(s.c.dataset_id, s.c.verdict))
    found: dict[int, dict[str, int]] = {}
    for dataset_id, verdict, count in rows:
        found.setdefault(dataset_id, {})[verdict] = count
    return found


_SAMPLES = text(
    "SELECT s.prompt_id, p.key, p.source, p.max_tokens, s.verdict, s.prompt_ids, s.output_ids, s.output_len,"
    " s.difference, s.prompt_difference, s.tokenizer_sha256,"
    # A late answer has its bill in the correction of a held attempt.
    " coalesce(c.generation_id, r.generation_id) AS generation_id, coalesce(c.model, r.model) AS model,"
    " coalesce(c.host, r.host) AS host, coalesce(c.finish_reason, r.finish_reason) AS finish_reason,"
    " coalesce(c.prompt_tokens, r.prompt_tokens) AS prompt_tokens,"
    " coalesce(c.completion_tokens, r.completion_tokens) AS completion_tokens,"
    " coalesce(c.reasoning_tokens, r.reasoning_tokens) AS reasoning_tokens,"
    " coalesce(c.cost_usd, r.cost_usd) AS cost_usd"
    " FROM samples s JOIN prompts p ON p.id = s.prompt_id JOIN resolutions r ON r.attempt_id = s.attempt_id"
    " LEFT JOIN corrections c ON c.attempt_id = s.attempt_id"
    " WHERE s.dataset_id = :dataset_id AND s.verdict = ANY(CAST(:verdicts AS text[])) ORDER BY s.prompt_id"
)


async def stream_samples(conn: Connection, dataset_id: int, verdicts: Collection[Verdict]) -> AsyncIterator[SampleRow]:
    """The samples of a dataset in the order of its prompts, by a server-side cursor."""
    parameters = {"dataset_id": dataset_id, "verdicts": [v.value for v in verdicts]}
    rows = await conn.stream(_SAMPLES, parameters, execution_options={"yield_per": CURSOR_ROWS})
    async for row in rows.mappings():
        yield SampleRow(**{**row, "verdict": Verdict(row["verdict"])})
