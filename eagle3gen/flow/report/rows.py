"""A report for programs: the object of `--json` and the rows of `--csv`.

Keys are stable. Money is a string with all its digits, a count is an integer, a time is ISO 8601 in UTC; null (in CSV:
an empty cell) is unknown and never means 0. A sum of money or tokens is over the attempts that were billed and said so;
`unpriced_attempts` and `uncounted_attempts` are missing from it.

{"generated_at", "totals": PART, "datasets": [{"name", "state", "reason", **PART}]}

PART: the figures, and
  prompts           by state, and `total`
  cap               tokens, usd (null: no cap)
  verdicts          counts by verdict
  finish_reasons    counts by reason ("" where nobody said)
  hosts             [{"model", "host", figures, "verdicts", "finish_reasons"}]
  errors            [{"outcome", "status", "error", "attempts"}], the most frequent kinds; not in `totals`
  pace              since, until, answers, tokens_per_second
  projection        prompts; tokens, usd, hours: {"mean", "pessimistic"} or null; fits_cap yes|perhaps|no or null;
                    borrowed: lengths or prices of other datasets were used; unknown: why something is null
Figures: attempts, retries, answers, prompt_tokens, completion_tokens, cost_usd, usd_per_million_completion_tokens,
  mean_length, p95_length (tokens), truncated, truncated_share, failed_attempts, failed_tokens, failed_usd,
  held_attempts, held_tokens, held_usd, open_attempts, open_tokens, open_usd, uncounted_attempts, unpriced_attempts,
  latency_p50_seconds, latency_p95_seconds
"""

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from eagle3gen.flow.report.numbers import NO_FIGURES, HostReport, Part, Report, usd_per_million
from eagle3gen.flow.report.projection import Projection
from eagle3gen.ledger.reporting import Failure, Figures
from eagle3gen.ledger.reporting_series import Pace
from eagle3gen.ledger.states import PromptState
from eagle3gen.records import Verdict, usd


def as_json(report: Report) -> dict[str, Any]:
    """The object of `report --json`."""
    return {
        "generated_at": _iso(report.at),
        "totals": _part(report.plan),
        "datasets": [
            {"name": d.name, "state": d.state.value, "reason": d.state_reason or None, "model": d.model}
            | _part(part)
            | {"errors": [_error(failure) for failure in part.failures]}
            for part in report.datasets
            if (d := part.dataset) is not None
        ],
    }


def as_csv(report: Report) -> str:
    """One row per dataset, model and host, with a header (RFC 4180). A dataset nobody called for has a row, too."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, CSV_COLUMNS)
    writer.writeheader()
    for part in report.datasets:
        hosts: Sequence[HostReport | None] = part.hosts or [None]
        writer.writerows(_csv_row(part.name, host) for host in hosts)
    return text.getvalue()


def figures_json(figures: Figures) -> dict[str, Any]:
    """The figures of a set of attempts."""
    price = usd_per_million(figures)
    return {
        "attempts": figures.attempts,
        "retries": figures.retries,
        "answers": figures.answers,
        "prompt_tokens": figures.prompt_tokens,
        "completion_tokens": figures.completion_tokens,
        "cost_usd": _usd(figures.cost_usd),
        "usd_per_million_completion_tokens": _usd(price),
        "mean_length": _rounded(figures.length_mean, 1),
        "p95_length": _rounded(figures.length_p95, 1),
        "truncated": figures.truncated,
        "truncated_share": _rounded(figures.truncated / figures.answers, 4) if figures.answers else None,
        "failed_attempts": figures.failed_attempts,
        "failed_tokens": figures.failed_tokens,
        "failed_usd": _usd(figures.failed_usd),
        "held_attempts": figures.held_attempts,
        "held_tokens": figures.held_tokens,
        "held_usd": usd(figures.held_usd),
        "open_attempts": figures.open_attempts,
        "open_tokens": figures.open_tokens,
        "open_usd": usd(figures.open_usd),
        "uncounted_attempts": figures.uncounted_attempts,
        "unpriced_attempts": figures.unpriced_attempts,
        "latency_p50_seconds": _rounded(figures.latency_p50, 3),
        "latency_p95_seconds": _rounded(figures.latency_p95, 3),
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "prompts": {"total": part.prompts} | {state.value: part.counts.get(state, 0) for state in PromptState},
        "cap": {"tokens": part.cap.tokens, "usd": _usd(part.cap.usd)},
        **figures_json(part.figures),
        "verdicts": dict(part.verdicts),
        "finish_reasons": dict(part.finish_reasons),
        "hosts": [_host(host) for host in part.hosts],
        "pace": None if part.pace is None else _pace(part.pace),
        "projection": _projection(part.projection),
    }


def _host(host: HostReport) -> dict[str, Any]:
    return {
        "model": host.figures.model,
        "host": host.figures.host,
        **figures_json(host.figures),
        "verdicts": dict(host.verdicts),
        "finish_reasons": dict(host.finish_reasons),
    }


def _error(failure: Failure) -> dict[str, Any]:
    return {name: getattr(failure, name) for name in ("outcome", "status", "error", "attempts")}


def _pace(pace: Pace) -> dict[str, Any]:
    return {
        "since": _iso(pace.since),
        "until": _iso(pace.until),
        "answers": pace.answers,
        "tokens_per_second": round(pace.tokens_per_second, 3),
    }


def _projection(p: Projection) -> dict[str, Any]:
    return {
        "prompts": p.prompts,
        "tokens": p.tokens and {"mean": p.tokens.mean, "pessimistic": p.tokens.pessimistic},
        "usd": p.usd and {"mean": usd(p.usd.mean), "pessimistic": usd(p.usd.pessimistic)},
        "hours": p.hours and {"mean": round(p.hours.mean, 4), "pessimistic": round(p.hours.pessimistic, 4)},
        "fits_cap": p.fits_cap and p.fits_cap.value,
        "borrowed": p.borrowed,
        "unknown": list(p.unknown),
    }


def _csv_row(dataset: str, host: HostReport | None) -> Mapping[str, Any]:
    if host is None:
        return {"dataset": dataset, **figures_json(NO_FIGURES)}
    return {
        "dataset": dataset,
        "model": host.figures.model,
        "host": host.figures.host,
        **figures_json(host.figures),
        **{_column(verdict): host.verdicts.get(verdict.value, 0) for verdict in Verdict},
        "finish_reasons": " ".join(f"{reason or '-'}={count}" for reason, count in host.finish_reasons.items()),
    }


def _column(verdict: Verdict) -> str:
    return "verdict_" + verdict.value.replace("/", "_")


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else usd(amount)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


CSV_COLUMNS = ("dataset", "model", "host", *figures_json(NO_FIGURES), *map(_column, Verdict), "finish_reasons")
