"""What the attempts cost and brought, added up by Postgres: no row of an attempt ever reaches Python.

Every statement reads `told`: one row per attempt with what is known of it now. A correction replaces the bill of its
attempt as a whole, as in `reading` and `books`. The caller runs them all in one `snapshot`, so that the numbers agree
among themselves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import TextClause, text

from eagle3gen.ledger.connect import Connection

ERRORS_MAX = 8
"""Kinds of failure shown per dataset, the most frequent first."""

_TOLD = """
WITH told AS (
    SELECT *, NOT open AND tokens IS NULL AND outcome <> 'released' AS held,
        -- The bill says how long an answer is; without one, what was rebuilt of it.
        CASE WHEN verdict IS NOT NULL THEN coalesce(tokens, output_len) END AS length,
        -- Billed, and no sample came of it.
        billed AND verdict IS NULL AND NOT (tokens IS NOT DISTINCT FROM 0 AND usd IS NOT DISTINCT FROM 0) AS wasted
    FROM (
        SELECT a.id, a.dataset_id, a.prompt_id, a.opened_at, r.closed_at, r.outcome, r.status, r.error,
            -- What counts against the caps: the hold while it is open, then the worst case until its bill is known.
            CASE WHEN r.attempt_id IS NULL THEN a.hold_tokens ELSE a.worst_tokens END AS hold_tokens,
            CASE WHEN r.attempt_id IS NULL THEN a.hold_usd ELSE a.worst_usd END AS hold_usd,
            r.attempt_id IS NULL AS open,
            c.attempt_id IS NOT NULL AS corrected,
            c.attempt_id IS NOT NULL OR coalesce(r.outcome = 'settled', false) AS billed,
            coalesce(c.made_at, r.closed_at) AS billed_at,
            coalesce(c.model, r.model) AS model, coalesce(c.host, r.host) AS host,
            coalesce(c.finish_reason, r.finish_reason) AS finish_reason,
            CASE WHEN c.attempt_id IS NOT NULL THEN coalesce(c.prompt_tokens, r.prompt_tokens)
                WHEN r.outcome = 'settled' THEN r.prompt_tokens END AS prompt_tokens,
            CASE WHEN c.attempt_id IS NOT NULL THEN c.completion_tokens
                WHEN r.outcome = 'settled' THEN r.completion_tokens END AS tokens,
            CASE WHEN c.attempt_id IS NOT NULL THEN c.cost_usd
                WHEN r.outcome = 'settled' THEN r.cost_usd END AS usd,
            s.verdict, s.output_len
        FROM attempts a LEFT JOIN resolutions r ON r.attempt_id = a.id LEFT JOIN corrections c ON c.attempt_id = a.id
            LEFT JOIN samples s ON s.attempt_id = a.id
        WHERE a.dataset_id = ANY(CAST(:ids AS integer[]))
    ) AS bills
)
"""
_NAMED = """
, names AS (
    -- A refusal names no model. It counts with the model that its host answers with, if that is one.
    SELECT dataset_id, host, min(model) AS only_model FROM told WHERE model IS NOT NULL AND host IS NOT NULL
    GROUP BY dataset_id, host HAVING min(model) = max(model)
), named AS (
    SELECT t.dataset_id, coalesce(t.model, n.only_model) AS model, t.host, t.prompt_id, t.id, t.opened_at, t.closed_at,
        t.open, t.billed, t.corrected, t.held, t.wasted, t.hold_tokens, t.hold_usd, t.outcome,
        t.prompt_tokens, t.tokens, t.usd, t.length, t.verdict, t.finish_reason
    FROM told t LEFT JOIN names n ON n.dataset_id = t.dataset_id AND n.host = t.host
)
"""


def on_told(query: str) -> TextClause:
    """A statement on `told`: one row per attempt of the datasets `:ids`, with what is known of it now."""
    return text(_TOLD + query)


def _on_named(query: str) -> TextClause:
    """The same, with the models of refusals made good."""
    return text(_TOLD + _NAMED + query)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A set of attempts, added up. Tokens are completion tokens unless they say prompt; times are seconds.

    A sum is over what was told: None when nobody told anything, and the attempts that it misses are counted beside it.
    """

    attempts: int = 0
    retries: int = 0
    """Attempts that were not the first of their prompt."""
    answers: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost_usd: Decimal | None = Decimal(0)
    priced_tokens: int = 0
    """Completion tokens of the attempts whose cost is known too, and their cost: what a price is made of."""
    priced_usd: Decimal = Decimal(0)
    length_mean: float | None = None
    length_p95: float | None = None
    truncated: int = 0
    failed_attempts: int = 0
    """Billed attempts that brought no sample."""
    failed_tokens: int | None = 0
    failed_usd: Decimal | None = Decimal(0)
    held_attempts: int = 0
    """Attempts that ended without a word on their tokens, and the most that they may have cost."""
    held_tokens: int = 0
    held_usd: Decimal = Decimal(0)
    """The same in USD; an answer whose tokens are known may still have no price."""
    open_attempts: int = 0
    open_tokens: int = 0
    open_usd: Decimal = Decimal(0)
    uncounted_attempts: int = 0
    """Settled attempts whose tokens nobody told; they are among the held."""
    unpriced_attempts: int = 0
    """Settled attempts whose cost nobody told; `cost_usd` is without them."""
    latency_p50: float | None = None
    """From the hold to the settlement of an answer."""
    latency_p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFigures(Figures):
    """The attempts that one host served under one model name; None where nobody said."""

    model: str | None
    host: str | None


_FIGURES = _on_named("""
SELECT grouping(dataset_id, model, host) AS level, dataset_id, model, host,
    count(*) AS attempts, count(*) FILTER (WHERE again) AS retries, count(verdict) AS answers,
    -- Nothing billed is 0; bills of which none says this is unknown.
    CASE WHEN bool_or(billed) AND count(prompt_tokens) = 0 THEN NULL
        ELSE coalesce(sum(prompt_tokens), 0)::bigint END AS prompt_tokens,
    CASE WHEN bool_or(billed) AND count(tokens) = 0 THEN NULL
        ELSE coalesce(sum(tokens), 0)::bigint END AS completion_tokens,
    CASE WHEN bool_or(billed) AND count(usd) = 0 THEN NULL ELSE coalesce(sum(usd), 0) END AS cost_usd,
    coalesce(sum(tokens) FILTER (WHERE usd IS NOT NULL), 0)::bigint AS priced_tokens,
    coalesce(sum(usd) FILTER (WHERE tokens IS NOT NULL), 0) AS priced_usd,
    avg(length)::float8 AS length_mean, percentile_cont(0.95) WITHIN GROUP (ORDER BY length) AS length_p95,
    count(verdict) FILTER (WHERE verdict = 'truncated' OR finish_reason = 'length') AS truncated,
    count(*) FILTER (WHERE wasted) AS failed_attempts,
    CASE WHEN bool_or(wasted) AND count(tokens) FILTER (WHERE wasted) = 0 THEN NULL
        ELSE coalesce(sum(tokens) FILTER (WHERE wasted), 0)::bigint END AS failed_tokens,
    CASE WHEN bool_or(wasted) AND count(usd) FILTER (WHERE wasted) = 0 THEN NULL
        ELSE coalesce(sum(usd) FILTER (WHERE wasted), 0) END AS failed_usd,
    count(*) FILTER (WHERE held) AS held_attempts,
    coalesce(sum(hold_tokens) FILTER (WHERE held), 0)::bigint AS held_tokens,
    coalesce(sum(hold_usd) FILTER (WHERE NOT open AND usd IS NULL AND coalesce(outcome <> 'released', true)), 0)
        AS held_usd,
    count(*) FILTER (WHERE open) AS open_attempts,
    coalesce(sum(hold_usd) FILTER (WHERE open), 0) AS open_usd,
    coalesce(sum(hold_tokens) FILTER (WHERE open), 0)::bigint AS open_tokens,
    count(*) FILTER (WHERE billed AND tokens IS NULL) AS uncounted_attempts,
    count(*) FILTER (WHERE billed AND usd IS NULL) AS unpriced_attempts,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS latency_p50,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS latency_p95
FROM (
    SELECT named.*, row_number() OVER (PARTITION BY prompt_id ORDER BY opened_at, id) > 1 AS again,
        CASE WHEN verdict IS NOT NULL AND NOT corrected
            THEN extract(epoch FROM closed_at - opened_at)::float8 END AS seconds FROM named
) AS timed
GROUP BY GROUPING SETS ((dataset_id, model, host), (model, host), (dataset_id), ())
ORDER BY dataset_id, answers DESC, model, host
""")
_HOST_LEVELS = (0, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllFigures:
    """The same figures at every level. The key None is all datasets together; one without attempts is missing."""

    hosts: Mapping[int | None, Sequence[HostFigures]]
    """Those with the most answers first."""
    datasets: Mapping[int | None, Figures]


async def snapshot(conn: Connection) -> None:
    """Make everything that this transaction reads one moment's view. Must be its first statement."""
    await conn.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


async def figures(conn: Connection, dataset_ids: Sequence[int]) -> AllFigures:
    """What these datasets cost and brought."""
    hosts: dict[int | None, list[HostFigures]] = {}
    datasets: dict[int | None, Figures] = {}
    for row in (await conn.execute(_FIGURES, {"ids": list(dataset_ids)})).mappings():
        values = {name: row[name] for name in Figures.__dataclass_fields__}
        if row["level"] in _HOST_LEVELS:
            found = HostFigures(**values, model=row["model"], host=row["host"])
            hosts.setdefault(row["dataset_id"], []).append(found)
        else:
            datasets[row["dataset_id"]] = Figures(**values)
    return AllFigures(hosts=hosts, datasets=datasets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How many answers of a host had this verdict and ended like this."""

    dataset_id: int
    model: str | None
    host: str | None
    verdict: str
    finish_reason: str | None
    answers: int


_MIXES = _on_named("""
SELECT dataset_id, model, host, verdict, finish_reason, count(*) AS answers FROM named WHERE verdict IS NOT NULL
GROUP BY dataset_id, model, host, verdict, finish_reason ORDER BY answers DESC, verdict
""")


async def mixes(conn: Connection, dataset_ids: Sequence[int]) -> list[Mix]:
    """Verdicts and finish reasons of all answers, the most frequent first."""
    return [Mix(**row) for row in (await conn.execute(_MIXES, {"ids": list(dataset_ids)})).mappings()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Attempts of a dataset that ended alike without an answer."""

    dataset_id: int
    outcome: str
    """`settled` when a late bill came, too."""
    status: int | None
    error: str
    """One of the sentences; they may differ in their digits."""
    attempts: int
    all_attempts: int
    """All that failed in this dataset, shown or not."""


_FAILURES = on_told("""
SELECT dataset_id, outcome, status, error, attempts, all_attempts FROM (
    SELECT dataset_id, ended AS outcome, status, min(error) AS error, count(*) AS attempts,
        sum(count(*)) OVER (PARTITION BY dataset_id)::bigint AS all_attempts,
        row_number() OVER (PARTITION BY dataset_id ORDER BY count(*) DESC, min(error)) AS place
    FROM (
        SELECT dataset_id, status, left(error, 300) AS error, CASE WHEN billed THEN 'settled' ELSE outcome END AS ended
        FROM told WHERE NOT open AND verdict IS NULL
    ) AS failed
    GROUP BY dataset_id, ended, status, regexp_replace(error, '[0-9a-f]*[0-9][0-9a-f]*', '#', 'g')
) AS ranked WHERE place <= :most ORDER BY dataset_id, place
""")


async def failures(conn: Connection, dataset_ids: Sequence[int]) -> list[Failure]:
    """Why attempts brought no answer: the most frequent kinds of each dataset."""
    parameters = {"ids": list(dataset_ids), "most": ERRORS_MAX}
    return [Failure(**row) for row in (await conn.execute(_FAILURES, parameters)).mappings()]
