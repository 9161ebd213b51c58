"""What is still to come: tokens, USD and hours for the prompts that have no answer yet, each as a range.

Short answers settle first, so the mean of what has settled is too low while calls are open. The pessimistic end
therefore counts every open call, and three more, as if it ran to its max_tokens, prices it as the dearest host of
weight, and adds two standard errors.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from eagle3gen.ledger.money import Cap
from eagle3gen.ledger.reporting import Figures, HostFigures
from eagle3gen.ledger.reporting_series import Pace, QueueFigures

PSEUDO_ANSWERS = 3
"""Answers as long as they may be that nobody has seen: they keep the tail open while few answers are known."""
STANDARD_ERRORS = 2
WEIGHT = Decimal("0.05")
"""A host with less of the tokens than this does not decide the price."""
MICRO_USD = Decimal("0.000001")


class Fit(StrEnum):
    """Whether the rest goes under the cap."""

    YES = "yes"
    PERHAPS = "perhaps"
    NO = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """A range of completion tokens."""

    mean: int
    pessimistic: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Usd:
    """A range of cost."""

    mean: Decimal
    pessimistic: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Hours:
    """A range of time."""

    mean: float
    pessimistic: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """What the prompts without an answer will still take. None is unknown, and `unknown` says why."""

    prompts: int
    tokens: Tokens | None
    usd: Usd | None
    hours: Hours | None
    fits_cap: Fit | None = None
    unknown: Sequence[str] = ()
    """One sentence for each thing that cannot be said."""
    borrowed: bool = False
    """Whether lengths or prices of other datasets with the same model were used."""


NOTHING_LEFT = Projection(
    prompts=0,
    tokens=Tokens(mean=0, pessimistic=0),
    usd=Usd(mean=Decimal(0), pessimistic=Decimal(0)),
    hours=Hours(mean=0.0, pessimistic=0.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the answers of one queue."""

    queues: Sequence[QueueFigures]
    hosts: Sequence[HostFigures]
    borrowed: bool

    def add(self, value: Callable[[QueueFigures], int]) -> int:
        return sum(value(q) for q in self.queues)


def project(
    queues: Sequence[QueueFigures], known: Callable[[QueueFigures], Known], pace: Pace | None, latency: Figures
) -> Projection:
    """The projection of one dataset. `known(queue)` gives what its answers are expected to be like."""
    sources = [(q, known(q)) for q in queues if q.waiting or q.in_flight]
    return _combined(
        sum(q.waiting + q.in_flight for q, _ in sources),
        [_tokens(q, k) for q, k in sources],
        [_usd(_tokens(q, k), k) for q, k in sources],
        (pace, latency),
        borrowed=any(k.borrowed for _, k in sources),
    )


def project_all(parts: Sequence[Projection], pace: Pace | None, latency: Figures) -> Projection:
    """The projection of all datasets together: sums, and the time at the pace of them all."""
    left = [p for p in parts if p.prompts]
    return _combined(
        sum(p.prompts for p in left),
        [p.tokens for p in left],
        [p.usd for p in left],
        (pace, latency),
        borrowed=any(p.borrowed for p in left),
    )


def _combined(
    prompts: int,
    tokens_parts: Sequence[Tokens | None],
    usd_parts: Sequence[Usd | None],
    speed: tuple[Pace | None, Figures],
    *,
    borrowed: bool,
) -> Projection:
    if not prompts:
        return NOTHING_LEFT
    tokens, usd = _sum_tokens(tokens_parts), _sum_usd(usd_parts)
    hours = _hours(tokens, *speed)
    unknown = _unknown(tokens, usd, hours)
    return Projection(prompts=prompts, tokens=tokens, usd=usd, hours=hours, unknown=unknown, borrowed=borrowed)


def fit(cap: Cap, figures: Figures, projection: Projection) -> Fit | None:
    """Whether the rest goes under the cap; None without a cap, a rest or a projection. Held tokens take room."""
    if not projection.prompts:
        return None
    found = []
    if cap.tokens is not None and projection.tokens is not None:
        room = cap.tokens - (figures.completion_tokens or 0) - figures.held_tokens
        found.append(_fit(room >= projection.tokens.mean, room >= projection.tokens.pessimistic))
    if cap.usd is not None and projection.usd is not None:
        left_usd = cap.usd - (figures.cost_usd or 0) - figures.held_usd
        found.append(_fit(left_usd >= projection.usd.mean, left_usd >= projection.usd.pessimistic))
    return max(found, key=list(Fit).index, default=None)


def _fit(mean_fits: bool, pessimistic_fits: bool) -> Fit:
    if pessimistic_fits:
        return Fit.YES
    return Fit.PERHAPS if mean_fits else Fit.NO


def _tokens(queue: QueueFigures, known: Known) -> Tokens | None:
    answers, length_sum = known.add(lambda q: q.answers), known.add(lambda q: q.length_sum)
    if not answers:
        return None
    left = queue.waiting + queue.in_flight
    # Failed attempts were paid for so far, and will be.
    overhead = max(1.0, known.add(lambda q: q.spent_tokens) / length_sum) if length_sum else 1.0
    mean = left * length_sum / answers
    unseen = PSEUDO_ANSWERS + known.add(lambda q: q.in_flight)
    count = answers + unseen
    long_mean = (length_sum + unseen * queue.max_tokens) / count
    squares = known.add(lambda q: q.length_squares) + unseen * queue.max_tokens**2
    variance = max(0.0, squares / count - long_mean**2)
    error = math.sqrt(variance * (queue.waiting + queue.waiting**2 / count))
    worst = queue.waiting * long_mean + queue.in_flight * queue.max_tokens + STANDARD_ERRORS * error
    pessimistic = max(mean, min(worst, queue.worst_tokens))
    return Tokens(mean=round(mean * overhead), pessimistic=math.ceil(pessimistic * overhead))


def _usd(tokens: Tokens | None, known: Known) -> Usd | None:
    priced = known.add(lambda q: q.priced_tokens)
    if tokens is None or not priced:
        return None
    mean = sum((q.priced_usd for q in known.queues), Decimal(0)) / priced
    weighty = [h for h in known.hosts if h.priced_tokens > WEIGHT * priced]
    dearest = max([mean, *(h.priced_usd / h.priced_tokens for h in weighty)])
    return Usd(
        mean=(tokens.mean * mean).quantize(MICRO_USD), pessimistic=(tokens.pessimistic * dearest).quantize(MICRO_USD)
    )


def _hours(tokens: Tokens | None, pace: Pace | None, latency: Figures) -> Hours | None:
    if tokens is None or pace is None or not pace.tokens_per_second:
        return None
    # The last call takes as long as a call takes, however many go on beside it.
    mean = max(tokens.mean / pace.tokens_per_second, latency.latency_p50 or 0.0)
    pessimistic = tokens.pessimistic / pace.tokens_per_second + (latency.latency_p95 or 0.0)
    return Hours(mean=mean / 3600, pessimistic=pessimistic / 3600)


def _unknown(tokens: Tokens | None, usd: Usd | None, hours: Hours | None) -> tuple[str, ...]:
    if tokens is None:
        return ("No answer of this model is known yet in a queue with prompts left, so nothing can be projected",)
    sentences = []
    if usd is None:
        sentences.append("No cost was told yet, so none can be projected")
    if hours is None:
        sentences.append("No answer in the last minutes, so the time to go is unknown")
    return tuple(sentences)


def _sum_tokens(parts: Sequence[Tokens | None]) -> Tokens | None:
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    return Tokens(mean=sum(p.mean for p in known), pessimistic=sum(p.pessimistic for p in known))


def _sum_usd(parts: Sequence[Usd | None]) -> Usd | None:
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    zero = Decimal(0)
    return Usd(mean=sum((p.mean for p in known), zero), pessimistic=sum((p.pessimistic for p in known), zero))
