"""Ending attempts: money, sample and prompt state, for many prompts in one transaction, each exactly once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

from sqlalchemy import bindparam, select, text, update
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.ledger import tables
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.ids import compress, encode_ids
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Sample, Usage, Verdict

ERROR_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSample:
    """A sample as it is stored: ids and raw body already compressed."""

    verdict: Verdict
    prompt_ids: bytes
    output_ids: bytes
    prompt_len: int
    output_len: int
    difference: int | None
    prompt_difference: int | None
    hypothesis: str
    reason: str
    tokenizer_sha256: str
    body: bytes

    @classmethod
    def of(cls, sample: Sample, body: bytes) -> Self:
        """Compress a sample and the body it was made of; milliseconds of work for a long answer."""
        return cls(
            verdict=sample.verdict,
            prompt_ids=encode_ids(sample.prompt_ids),
            output_ids=encode_ids(sample.output_ids),
            prompt_len=len(sample.prompt_ids),
            output_len=len(sample.output_ids),
            difference=sample.difference,
            prompt_difference=sample.prompt_difference,
            hypothesis=sample.hypothesis,
            reason=sample.reason,
            tokenizer_sha256=sample.tokenizer_sha256,
            body=compress(body),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one attempt ends."""

    claim: Claim
    outcome: Outcome
    prompt_state: PromptState
    """done, rejected, failed, or pending for another try."""
    not_before_seconds: float = 0.0
    """For pending: due again in so many seconds, by the database's clock."""
    count_try: bool = True
    """False when the attempt says nothing about the prompt: a pause, a stop, a shutdown."""
    error: str = ""
    status: int | None = None
    generation_id: str | None = None
    model: str | None = None
    host: str | None = None
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    stored: StoredSample | None = None

    @property
    def billed_tokens(self) -> int | None:
        """Known spend in completion tokens; None when nobody said."""
        return self.usage.completion_tokens if self.outcome is Outcome.SETTLED else None


@dataclass(slots=True)
class Delta:
    """What a batch changes in one dataset's counters."""

    spent_tokens: int = 0
    held_tokens: int = 0
    open_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    unpriced_attempts: int = 0


_CLOSE = text(
    "UPDATE prompts p SET state = v.state, tries = p.tries + v.tries, last_error = v.error, attempt_id = NULL,"
    " not_before = now() + v.wait * interval '1 second'"
    " FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[]), CAST(:states AS text[]),"
    " CAST(:tries AS smallint[]), CAST(:errors AS text[]), CAST(:waits AS float8[]))"
    " AS v(id, attempt_id, state, tries, error, wait)"
    " WHERE p.id = v.id AND p.attempt_id = v.attempt_id AND p.state = 'in_flight' RETURNING v.attempt_id"
)
# A worker thought dead answers after all: its prompt needs no second call, unless one is already open.
_CLOSE_LATE = text(
    "UPDATE prompts p SET state = v.state, last_error = v.error, queued_at = NULL"
    " FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS uuid[]), CAST(:states AS text[]), CAST(:errors AS text[]))"
    " AS v(id, attempt_id, state, error)"
    " WHERE p.id = v.id AND p.state IN ('pending', 'queued') RETURNING v.attempt_id"
)


async def lock_prompts(conn: Connection, settlements: Sequence[Settlement]) -> None:
    """Lock the prompts to be settled, in id order."""
    t = tables.prompts
    ids = [s.claim.prompt_id for s in settlements]
    await conn.execute(select(t.c.id).where(t.c.id.in_(ids)).order_by(t.c.id).with_for_update())


async def book(conn: Connection, settlements: Sequence[Settlement]) -> dict[int, Delta]:
    """Write the endings and samples; what they change per dataset. A second ending changes nothing."""
    fresh = await _resolve(conn, settlements)
    late = await _correct(conn, [s for s in settlements if s not in fresh])
    closed = await _close(conn, fresh) | await _close_late(conn, late)
    kept = [s for s in (*fresh, *late) if s.claim.attempt_id in closed and s.stored is not None]
    if kept:
        await conn.execute(insert(tables.samples).on_conflict_do_nothing(), [_sample_row(s) for s in kept])
    deltas: dict[int, Delta] = {}
    for settlement in fresh:
        _add(deltas.setdefault(settlement.claim.dataset_id, Delta()), settlement)
    for settlement in late:
        delta = deltas.setdefault(settlement.claim.dataset_id, Delta())
        _add(delta, settlement)
        # The hold was counted as held when the attempt was given up, not as open.
        delta.open_tokens += settlement.claim.hold_tokens
        delta.held_tokens -= settlement.claim.hold_tokens
    return deltas


def _add(delta: Delta, settlement: Settlement) -> None:
    hold = settlement.claim.hold_tokens
    delta.open_tokens -= hold
    billed = settlement.billed_tokens
    if settlement.outcome is Outcome.RELEASED:
        return
    if billed is None:
        delta.held_tokens += hold
        return
    delta.spent_tokens += billed
    if settlement.usage.cost_usd is None:
        delta.unpriced_attempts += 1
    else:
        delta.cost_usd += settlement.usage.cost_usd


async def _resolve(conn: Connection, settlements: Sequence[Settlement]) -> list[Settlement]:
    t = tables.resolutions
    statement = insert(t).on_conflict_do_nothing().returning(t.c.attempt_id)
    rows = await conn.execute(statement, [_resolution_row(s) for s in settlements])
    ended = set(rows.scalars())
    return [s for s in settlements if s.claim.attempt_id in ended]


async def _correct(conn: Connection, repeated: Sequence[Settlement]) -> list[Settlement]:
    billed = [s for s in repeated if s.billed_tokens is not None]
    if not billed:
        return []
    t = tables.resolutions
    ids = [s.claim.attempt_id for s in billed]
    held = select(t.c.attempt_id).where(t.c.attempt_id.in_(ids), t.c.outcome == Outcome.HELD.value)
    late = set((await conn.execute(held)).scalars())
    rows = [_correction_row(s) for s in billed if s.claim.attempt_id in late]
    if not rows:
        return []
    c = tables.corrections
    made = await conn.execute(insert(c).on_conflict_do_nothing().returning(c.c.attempt_id), rows)
    corrected = set(made.scalars())
    return [s for s in billed if s.claim.attempt_id in corrected]


async def _close(conn: Connection, settlements: Sequence[Settlement]) -> set[UUID]:
    if not settlements:
        return set()
    rows = await conn.execute(
        _CLOSE,
        {
            **_common(settlements),
            "tries": [int(s.count_try) for s in settlements],
            "waits": [s.not_before_seconds for s in settlements],
        },
    )
    return set(rows.scalars())


async def _close_late(conn: Connection, settlements: Sequence[Settlement]) -> set[UUID]:
    usable = [s for s in settlements if s.stored is not None]
    return set((await conn.execute(_CLOSE_LATE, _common(usable))).scalars()) if usable else set()


def _common(settlements: Sequence[Settlement]) -> dict[str, list[Any]]:
    return {
        "ids": [s.claim.prompt_id for s in settlements],
        "attempts": [s.claim.attempt_id for s in settlements],
        "states": [s.prompt_state.value for s in settlements],
        "errors": [_storable(s.error) for s in settlements],
    }


def _usage_row(s: Settlement) -> dict[str, Any]:
    return {
        "attempt_id": s.claim.attempt_id,
        "generation_id": s.generation_id,
        "model": s.model,
        "host": s.host,
        "finish_reason": s.finish_reason,
        "prompt_tokens": s.usage.prompt_tokens,
        "completion_tokens": s.usage.completion_tokens,
        "reasoning_tokens": s.usage.reasoning_tokens,
        "cached_tokens": s.usage.cached_tokens,
        "cost_usd": s.usage.cost_usd,
    }


def _resolution_row(s: Settlement) -> dict[str, Any]:
    return {**_usage_row(s), "outcome": s.outcome.value, "status": s.status, "error": _storable(s.error)}


def _correction_row(s: Settlement) -> dict[str, Any]:
    return {**_usage_row(s), "reason": "the answer arrived after the attempt was given up"}


def _sample_row(s: Settlement) -> dict[str, Any]:
    if s.stored is None:
        raise AssertionError("only settlements with a sample come here")
    names = (c.name for c in tables.samples.c if c.name not in {"prompt_id", "attempt_id", "dataset_id", "created_at"})
    ids = {"prompt_id": s.claim.prompt_id, "attempt_id": s.claim.attempt_id, "dataset_id": s.claim.dataset_id}
    return {**ids, **{name: getattr(s.stored, name) for name in names}, "verdict": s.stored.verdict.value}


def _storable(sentence: str) -> str:
    """Postgres text holds no NUL and no lone surrogate, and nobody reads more than a few hundred characters."""
    return sentence[:ERROR_CHARS].replace("\0", "").encode("utf-8", "replace").decode("utf-8")


async def apply(conn: Connection, deltas: Mapping[int, Delta]) -> None:
    """Move the counters of the datasets, which the caller has locked."""
    if not deltas:
        return
    t = tables.datasets
    names = ("spent_tokens", "held_tokens", "open_tokens", "cost_usd", "unpriced_attempts")
    statement = update(t).where(t.c.id == bindparam("dataset")).values({n: t.c[n] + bindparam(f"d_{n}") for n in names})
    # Locked in id order already, so the order of these updates cannot deadlock.
    await conn.execute(
        statement, [{"dataset": i, **{f"d_{n}": getattr(d, n) for n in names}} for i, d in deltas.items()]
    )
