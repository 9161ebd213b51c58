"""Reports made of plain values."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from eagle3gen.flow.report.numbers import HostReport, Part, Report
from eagle3gen.flow.report.projection import NOTHING_LEFT
from eagle3gen.ledger.money import Cap
from eagle3gen.ledger.reading import DatasetTotals
from eagle3gen.ledger.reporting import Failure, Figures, HostFigures
from eagle3gen.ledger.reporting_series import LengthBar, Pace, QueueFigures, SpendPoint
from eagle3gen.ledger.states import PromptState
from eagle3gen.records import Queue
from tests.making import dataset_totals

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPENT = {
    "attempts": 12, "retries": 2, "answers": 10, "prompt_tokens": 500, "completion_tokens": 2000,
    "cost_usd": Decimal("0.0050"), "priced_tokens": 2000, "priced_usd": Decimal("0.0050"), "length_mean": 190.5,
    "length_p95": 400.0, "truncated": 1, "latency_p50": 2.0, "latency_p95": 4.5,
}  # fmt: skip


def dataset(name: str = "set", **changes) -> DatasetTotals:
    return dataset_totals(name=name, **changes)


def figures(**changes) -> Figures:
    return Figures(**{**SPENT, **changes})


def host(name: str | None = "Chutes", model: str | None = "m-1", **changes) -> HostReport:
    return HostReport(
        figures=HostFigures(host=name, model=model, **{**SPENT, **changes}),
        verdicts={"exact/count": 9, "truncated": 1},
        finish_reasons={"stop": 9, "length": 1},
    )


def failure(**changes) -> Failure:
    fields = {
        "dataset_id": 1,
        "outcome": "released",
        "status": 503,
        "error": "no route",
        "attempts": 2,
        "all_attempts": 2,
    }
    return Failure(**{**fields, **changes})


def queue(**changes) -> QueueFigures:
    """20 answers of 100 tokens each, at 1 micro-USD a token, and nothing left."""
    fields = {
        "dataset_id": 1, "queue": Queue.SHORT, "max_tokens": 1000, "waiting": 0, "in_flight": 0, "worst_tokens": 0,
        "answers": 20, "length_sum": 2000, "length_squares": 200_000, "spent_tokens": 2000, "priced_tokens": 2000,
        "priced_usd": Decimal("0.002"),
    }  # fmt: skip
    return QueueFigures(**{**fields, **changes})


def pace(tokens_per_second: int = 10, **changes) -> Pace:
    fields = {
        "dataset_id": 1, "since": NOON - timedelta(seconds=100), "until": NOON, "answers": 10,
        "tokens": 100 * tokens_per_second,
    }  # fmt: skip
    return Pace(**{**fields, **changes})


def spend(*tokens: int, seconds: float = 10) -> list[SpendPoint]:
    return [
        SpendPoint(dataset_id=1, at=NOON + timedelta(seconds=n * seconds), tokens=t, usd=Decimal(t) / 1_000_000)
        for n, t in enumerate((0, *tokens))
    ]


def bars(*answers: int, max_tokens: int = 4000, of: Queue = Queue.SHORT) -> list[LengthBar]:
    return [
        LengthBar(dataset_id=1, queue=of, max_tokens=max_tokens, bar=n, answers=count)
        for n, count in enumerate(answers)
        if count
    ]


def part(name: str | None = "set", **changes) -> Part:
    fields = {
        "dataset": None if name is None else dataset(name), "counts": {PromptState.DONE: 10}, "cap": Cap(),
        "figures": figures(), "hosts": [host()], "verdicts": {"exact/count": 9, "truncated": 1},
        "finish_reasons": {"stop": 9, "length": 1}, "failures": [], "lengths": bars(3, 0, 7), "spend": spend(500, 1500),
        "pace": pace(), "projection": NOTHING_LEFT,
    }  # fmt: skip
    return Part(**{**fields, **changes})


def untouched(name: str = "untouched") -> Part:
    """A dataset that nobody called for."""
    nothing = {"hosts": [], "verdicts": {}, "finish_reasons": {}, "lengths": [], "spend": [], "pace": None}
    return part(name, figures=Figures(), counts={PromptState.PENDING: 5}, **nothing)


def report(*parts: Part) -> Report:
    return Report(at=NOON, plan=part(None), datasets=list(parts))
