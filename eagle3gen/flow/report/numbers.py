"""A report as plain values: every dataset, and all of them together, read in one moment's view of the ledger."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from eagle3gen.flow.report.projection import Fit, Known, Projection, fit, project, project_all
from eagle3gen.flow.status import chosen
from eagle3gen.ledger import reading, reporting, reporting_series
from eagle3gen.ledger.connect import Connection, Ledger
from eagle3gen.ledger.money import UNCAPPED, Cap
from eagle3gen.ledger.reading import DatasetTotals
from eagle3gen.ledger.reporting import AllFigures, Failure, Figures, HostFigures, Mix
from eagle3gen.ledger.reporting_series import LengthBar, Pace, QueueFigures, SpendPoint
from eagle3gen.ledger.states import PromptState
from eagle3gen.records import Verdict

NO_FIGURES = Figures()
"""Of a dataset that was never called for."""
PRICE_DIGITS = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """What one host did under one model name."""

    figures: HostFigures
    verdicts: Mapping[str, int]
    finish_reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A dataset, or all of them together: what it cost, what it brought, what is to come."""

    dataset: DatasetTotals | None
    """None for all of them together."""
    counts: Mapping[PromptState, int]
    cap: Cap
    figures: Figures
    hosts: Sequence[HostReport]
    """Those with the most answers first."""
    verdicts: Mapping[str, int]
    finish_reasons: Mapping[str, int]
    """The key is empty where nobody said."""
    failures: Sequence[Failure]
    """The most frequent kinds; `all_attempts` of each says how many failed in all."""
    lengths: Sequence[LengthBar]
    spend: Sequence[SpendPoint]
    pace: Pace | None
    projection: Projection

    @property
    def name(self) -> str:
        return "all datasets" if self.dataset is None else self.dataset.name

    @property
    def prompts(self) -> int:
        return sum(self.counts.values())

    @property
    def left(self) -> int:
        """Prompts that wait their turn."""
        return sum(self.counts.get(s, 0) for s in (PromptState.WAITING, PromptState.PENDING, PromptState.QUEUED))

    @property
    def tokens_left(self) -> int | None:
        """What the token cap still admits; negative when a bill was dearer than its hold."""
        f = self.figures
        if self.cap.tokens is None:
            return None
        return self.cap.tokens - (f.completion_tokens or 0) - f.held_tokens - f.open_tokens

    @property
    def usd_left(self) -> Decimal | None:
        """What the USD cap still admits."""
        f = self.figures
        return None if self.cap.usd is None else self.cap.usd - (f.cost_usd or 0) - f.held_usd - f.open_usd

    @property
    def failed_attempts(self) -> int:
        """Attempts that brought no answer, whatever they cost."""
        return self.failures[0].all_attempts if self.failures else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything a report shows."""

    at: datetime
    """The database's time at which it was true."""
    plan: Part
    datasets: Sequence[Part]


def usd_per_million(figures: Figures) -> Decimal | None:
    """USD per million completion tokens, over the attempts with both; None when there is none."""
    if not figures.priced_tokens:
        return None
    return (figures.priced_usd * 1_000_000 / figures.priced_tokens).quantize(PRICE_DIGITS)


def cap_of_all(caps: Sequence[Cap], plan: Cap) -> Cap:
    """What all datasets may cost together: the plan's cap, else the sum of their caps, if each has one."""
    if plan.exists:
        return plan
    tokens = [c.tokens for c in caps if c.tokens is not None]
    usd = [c.usd for c in caps if c.usd is not None]
    return Cap(
        tokens=sum(tokens) if caps and len(tokens) == len(caps) else None,
        usd=sum(usd, Decimal(0)) if caps and len(usd) == len(caps) else None,
    )


async def collect(ledger: Ledger, names: Sequence[str] = ()) -> Report:
    """The report on the named datasets, or on all. Raises InputError for a name that is no dataset."""
    wanted = [d.id for d in await chosen(ledger, names)] if names else None
    async with ledger.begin() as conn:
        await reporting.snapshot(conn)
        everything = await reading.totals(conn)
        selected = [d for d in everything if wanted is None or d.id in wanted]
        return await _read(conn, everything, selected)


async def _read(conn: Connection, everything: Sequence[DatasetTotals], selected: Sequence[DatasetTotals]) -> Report:
    ids = [d.id for d in selected]
    at = (await reading.clock(conn)).astimezone(UTC)
    figures = await reporting.figures(conn, ids)
    mixes = await reporting.mixes(conn, ids)
    failures = await reporting.failures(conn, ids)
    lengths = await reporting_series.lengths(conn, ids)
    spend = await reporting_series.spend(conn, ids)
    pace = await reporting_series.pace(conn, ids)
    every_id = [d.id for d in everything]
    known = figures if ids == every_id else await reporting.figures(conn, every_id)
    projections = await _projections(conn, everything, known, pace)

    def part(dataset: DatasetTotals | None, counts: Mapping[PromptState, int], cap: Cap, todo: Projection) -> Part:
        key = None if dataset is None else dataset.id
        found = figures.datasets.get(key, NO_FIGURES)
        mine = [m for m in mixes if key in (None, m.dataset_id)]
        return Part(
            dataset=dataset,
            counts=counts,
            cap=cap,
            figures=found,
            hosts=_hosts(figures.hosts.get(key, ()), mine),
            verdicts=_verdicts(mine),
            finish_reasons=_finish_reasons(mine),
            failures=[f for f in failures if f.dataset_id == key],
            lengths=[bar for bar in lengths if bar.dataset_id == key],
            spend=[point for point in spend if point.dataset_id == key],
            pace=pace.get(key),
            projection=replace(todo, fits_cap=fit(cap, found, todo)),
        )

    parts = [part(d, d.counts, d.cap, projections[d.id]) for d in selected]
    plan_cap = selected[0].plan_cap if selected and ids == every_id else UNCAPPED
    whole = project_all([p.projection for p in parts], pace.get(None), figures.datasets.get(None, NO_FIGURES))
    plan = part(None, _add_counts(p.counts for p in parts), cap_of_all([p.cap for p in parts], plan_cap), whole)
    return Report(at=at, plan=replace(plan, projection=_with_fit(plan.projection, parts)), datasets=parts)


async def _projections(
    conn: Connection, everything: Sequence[DatasetTotals], figures: AllFigures, pace: Mapping[int | None, Pace]
) -> dict[int, Projection]:
    """By dataset id. Datasets that are not reported on are read too: their answers may be all that is known."""
    queues = await reporting_series.queues(conn, [d.id for d in everything])
    models = {d.id: d.model for d in everything}

    def known(queue: QueueFigures) -> Known:
        own = queue.answers > 0
        like = [
            q
            for q in queues
            if q.queue is queue.queue
            and models[q.dataset_id] == models[queue.dataset_id]
            and (not own or q.dataset_id == queue.dataset_id)
        ]
        ids = {q.dataset_id for q in like}
        hosts = [host for i in ids for host in figures.hosts.get(i, ())]
        return Known(queues=like, hosts=hosts, borrowed=not own)

    return {
        d.id: project(
            [q for q in queues if q.dataset_id == d.id],
            known,
            pace.get(d.id),
            figures.datasets.get(d.id, NO_FIGURES),
        )
        for d in everything
    }


def _with_fit(projection: Projection, parts: Sequence[Part]) -> Projection:
    """All fit if each fits under its own cap, too."""
    fits = [fits for p in (projection, *(p.projection for p in parts)) if (fits := p.fits_cap) is not None]
    return replace(projection, fits_cap=max(fits, key=list(Fit).index, default=None))


def _hosts(figures: Sequence[HostFigures], mixes: Sequence[Mix]) -> list[HostReport]:
    found = []
    for host in figures:
        mine = [m for m in mixes if (m.model, m.host) == (host.model, host.host)]
        found.append(HostReport(figures=host, verdicts=_verdicts(mine), finish_reasons=_finish_reasons(mine)))
    return found


def _verdicts(mixes: Sequence[Mix]) -> dict[str, int]:
    """In the order of the glossary: the best proved first."""
    counts: Counter[str] = Counter()
    for mix in mixes:
        counts[mix.verdict] += mix.answers
    return {v.value: counts[v.value] for v in Verdict if counts[v.value]}


def _finish_reasons(mixes: Sequence[Mix]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for mix in mixes:
        counts[mix.finish_reason or ""] += mix.answers
    return dict(counts.most_common())


def _add_counts(counts: Iterable[Mapping[PromptState, int]]) -> dict[PromptState, int]:
    total: Counter[PromptState] = Counter()
    for part in counts:
        total.update(part)
    return dict(total)
