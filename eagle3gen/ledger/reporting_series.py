"""What a report draws and projects from: answer lengths by queue, spend over time, the pace of the last minutes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.reporting import on_told
from eagle3gen.records import Queue

BINS = 40
"""Bars of a histogram up to max_tokens; one more holds what is longer."""
POINTS = 120
"""Points of a line over time."""
PACE_MINUTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueFigures:
    """The prompts of a dataset in one queue: what they cost so far, and how many are left. Lengths are in tokens."""

    dataset_id: int
    queue: Queue
    max_tokens: int
    """The largest of its prompts."""
    waiting: int
    """Prompts that wait their turn."""
    in_flight: int
    worst_tokens: int
    """The sum of max_tokens over the prompts that wait or are in flight."""
    answers: int
    length_sum: int
    length_squares: int
    spent_tokens: int
    """All that these prompts were billed, failed attempts too."""
    priced_tokens: int
    priced_usd: Decimal


_QUEUES = on_told("""
, asked AS (
    SELECT prompt_id, count(verdict) AS answers, sum(length) AS length_sum,
        sum(length::numeric * length) AS length_squares, sum(tokens) AS spent_tokens,
        sum(tokens) FILTER (WHERE usd IS NOT NULL) AS priced_tokens,
        sum(usd) FILTER (WHERE tokens IS NOT NULL) AS priced_usd
    FROM told GROUP BY prompt_id
)
SELECT p.dataset_id, p.queue, max(p.max_tokens) AS max_tokens,
    count(*) FILTER (WHERE p.state IN ('waiting', 'pending', 'queued')) AS waiting,
    count(*) FILTER (WHERE p.state = 'in_flight') AS in_flight,
    coalesce(sum(p.max_tokens) FILTER (WHERE p.state IN ('waiting', 'pending', 'queued', 'in_flight')), 0)::bigint
        AS worst_tokens,
    coalesce(sum(t.answers), 0)::bigint AS answers, coalesce(sum(t.length_sum), 0)::bigint AS length_sum,
    coalesce(sum(t.length_squares), 0)::numeric AS length_squares,
    coalesce(sum(t.spent_tokens), 0)::bigint AS spent_tokens,
    coalesce(sum(t.priced_tokens), 0)::bigint AS priced_tokens, coalesce(sum(t.priced_usd), 0) AS priced_usd
FROM prompts p LEFT JOIN asked t ON t.prompt_id = p.id WHERE p.dataset_id = ANY(CAST(:ids AS integer[]))
GROUP BY p.dataset_id, p.queue ORDER BY p.dataset_id, p.queue DESC
""")


async def queues(conn: Connection, dataset_ids: Sequence[int]) -> list[QueueFigures]:
    """Every queue that a dataset has prompts in, `short` first."""
    rows = (await conn.execute(_QUEUES, {"ids": list(dataset_ids)})).mappings()
    return [
        QueueFigures(**{**row, "queue": Queue(row["queue"]), "length_squares": int(row["length_squares"])})
        for row in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthBar:
    """Answers of a queue that are longer than `bar` and at most `bar + 1` fortieths of its largest max_tokens."""

    dataset_id: int | None
    """None is all datasets together."""
    queue: Queue
    max_tokens: int
    bar: int
    answers: int


_LENGTHS = on_told("""
, limits AS (
    SELECT queue, max(max_tokens) AS max_tokens FROM prompts WHERE dataset_id = ANY(CAST(:ids AS integer[]))
    GROUP BY queue
)
SELECT t.dataset_id, l.queue, l.max_tokens,
    greatest(0, least(:bins, (t.length::bigint * :bins + l.max_tokens - 1) / l.max_tokens - 1))::integer AS bar,
    count(*) AS answers
FROM told t JOIN prompts p ON p.id = t.prompt_id JOIN limits l ON l.queue = p.queue WHERE t.verdict IS NOT NULL
GROUP BY GROUPING SETS ((t.dataset_id, l.queue, l.max_tokens, 4), (l.queue, l.max_tokens, 4)) ORDER BY 1, 2 DESC, 4
""")


async def lengths(conn: Connection, dataset_ids: Sequence[int]) -> list[LengthBar]:
    """How long the answers are, as bars; empty bars are left out."""
    parameters = {"ids": list(dataset_ids), "bins": BINS}
    rows = (await conn.execute(_LENGTHS, parameters)).mappings()
    return [LengthBar(**{**row, "queue": Queue(row["queue"])}) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendPoint:
    """What a dataset was billed in the time up to `at`, since the point before."""

    dataset_id: int | None
    """None is all datasets together."""
    at: datetime
    tokens: int
    usd: Decimal


_SPEND = on_told("""
, spans AS (
    SELECT dataset_id, min(opened_at) AS start,
        greatest(extract(epoch FROM max(billed_at) FILTER (WHERE billed) - min(opened_at)), 1)::float8 / :points
            AS width
    FROM told GROUP BY GROUPING SETS ((dataset_id), ())
), bills_in_time AS (
    SELECT s.dataset_id, s.start, s.width, t.tokens, t.usd,
        least(:points, greatest(1, ceil(extract(epoch FROM t.billed_at - s.start)::float8 / s.width))) AS step
    FROM spans s JOIN told t ON s.dataset_id IS NULL OR t.dataset_id = s.dataset_id WHERE t.billed
)
SELECT dataset_id, start + step * width * interval '1 second' AS at,
    coalesce(sum(tokens), 0)::bigint AS tokens, coalesce(sum(usd), 0) AS usd
FROM bills_in_time GROUP BY dataset_id, start, width, step
UNION ALL SELECT dataset_id, start, 0, 0 FROM spans WHERE start IS NOT NULL
ORDER BY dataset_id, at
""")


async def spend(conn: Connection, dataset_ids: Sequence[int]) -> list[SpendPoint]:
    """When the money went: from the first call (with nothing spent) to the last bill, in equal steps."""
    rows = (await conn.execute(_SPEND, {"ids": list(dataset_ids), "points": POINTS})).mappings()
    return [SpendPoint(**row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a dataset went in its last minutes of work."""

    dataset_id: int | None
    """None is all datasets together."""
    since: datetime
    until: datetime
    """Now while calls are open, else the last answer."""
    answers: int
    tokens: int

    @property
    def tokens_per_second(self) -> float:
        seconds = (self.until - self.since).total_seconds()
        return self.tokens / seconds if seconds > 0 else 0.0


_PACE = on_told("""
, spans AS (
    SELECT dataset_id, min(opened_at) AS first,
        CASE WHEN bool_or(open) THEN now() ELSE max(billed_at) FILTER (WHERE verdict IS NOT NULL) END AS until
    FROM told GROUP BY GROUPING SETS ((dataset_id), ())
)
SELECT s.dataset_id, greatest(s.first, s.until - :minutes * interval '1 minute') AS since, s.until,
    count(t.id) AS answers, coalesce(sum(t.length), 0)::bigint AS tokens
FROM spans s LEFT JOIN told t ON (s.dataset_id IS NULL OR t.dataset_id = s.dataset_id) AND t.verdict IS NOT NULL
    AND t.billed_at > s.until - :minutes * interval '1 minute'
WHERE s.until IS NOT NULL GROUP BY s.dataset_id, s.first, s.until
""")


async def pace(conn: Connection, dataset_ids: Sequence[int]) -> dict[int | None, Pace]:
    """The pace of every dataset that had an answer or has a call open."""
    rows = (await conn.execute(_PACE, {"ids": list(dataset_ids), "minutes": PACE_MINUTES})).mappings()
    return {row["dataset_id"]: Pace(**row) for row in rows}
