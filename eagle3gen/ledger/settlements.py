"""Ending attempts: money, sample and prompt state, for many prompts in one transaction, each exactly once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Self
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert

from eagle3gen.errors import InvariantBroken
from eagle3gen.ledger import tables
from eagle3gen.ledger.claims import Claim
from eagle3gen.ledger.connect import Connection
from eagle3gen.ledger.counters import Delta
from eagle3gen.ledger.datasets import Dataset
from eagle3gen.ledger.health import Fault
from eagle3gen.ledger.ids import compress, encode_ids
from eagle3gen.ledger.money import NOTHING, Amount
from eagle3gen.ledger.states import ANSWERED, Admission, Outcome, PromptState, check_move
from eagle3gen.ledger.texts import storable, storable_or_none
from eagle3gen.records import Sample, Usage, Verdict


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
    fault: Fault | None = None
    """What is wrong with the answer, for the breaker."""
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

    def __post_init__(self) -> None:
        check_move(PromptState.IN_FLIGHT, self.prompt_state)
        if (self.stored is not None) != (self.prompt_state in ANSWERED):
            raise InvariantBroken(
                f"a prompt that becomes {self.prompt_state} {'with' if self.stored else 'without'} a sample"
            )

    @property
    def billed_tokens(self) -> int | None:
        """Known spend in completion tokens; None when nobody said."""
        if self.outcome is Outcome.RELEASED:
            return 0
        return self.usage.completion_tokens if self.outcome is Outcome.SETTLED else None

    @property
    def billed_usd(self) -> Decimal | None:
        """Known cost; None when nobody said."""
        if self.outcome is Outcome.RELEASED:
            return Decimal(0)
        return self.usage.cost_usd if self.outcome is Outcome.SETTLED else None


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


async def book(conn: Connection, settlements: Sequence[Settlement], known: Mapping[int, Dataset]) -> dict[int, Delta]:
    """Write the endings and samples; what they change per dataset. A second ending changes nothing.

    The prompts and datasets of all settlements must be locked, and `known` read under that lock.
    """
    # The first ending told is the one that counts, in a batch as in the ledger.
    by_attempt = {s.claim.attempt_id: s for s in reversed(settlements)}
    ended = await _resolve(conn, list(by_attempt.values()))
    fresh = [s for attempt, s in by_attempt.items() if attempt in ended]
    late, corrected = await _correct(conn, [s for attempt, s in by_attempt.items() if attempt not in ended])
    closed = await _close(conn, fresh) | await _close_late(conn, late)
    kept = [s for s in (*fresh, *late) if s.claim.attempt_id in closed and s.stored is not None]
    if kept:
        await conn.execute(insert(tables.samples).on_conflict_do_nothing(), [_sample_row(s) for s in kept])
    deltas: dict[int, Delta] = {}
    for settlement in fresh:
        delta = deltas.setdefault(settlement.claim.dataset_id, Delta())
        delta.open -= settlement.claim.hold
        used = _add(delta, settlement)
        if known[settlement.claim.dataset_id].admission is Admission.FORECAST:
            # The last forecast took off the call already what it gives back: the next one makes room of it, once.
            delta.reserve += settlement.claim.hold - used
        _judge(delta, settlement, known[settlement.claim.dataset_id])
    for settlement in corrected:
        delta = deltas.setdefault(settlement.claim.dataset_id, Delta())
        delta.held -= settlement.claim.worst
        _add(delta, settlement)
    return deltas


def _add(delta: Delta, settlement: Settlement) -> Amount:
    """What an ended call counts for now."""
    # What is known counts as spent; what is not keeps its worst case on the books. Tokens and USD each on their own.
    worst, tokens, cost_usd = settlement.claim.worst, settlement.billed_tokens, settlement.billed_usd
    spent = Amount(tokens or 0, cost_usd or NOTHING)
    held = Amount(worst.tokens if tokens is None else 0, worst.usd if cost_usd is None else NOTHING)
    delta.spent += spent
    delta.held += held
    if cost_usd is None and settlement.outcome is Outcome.SETTLED:
        delta.unpriced_attempts += 1
    return spent + held


def _judge(delta: Delta, settlement: Settlement, dataset: Dataset) -> None:
    judged = settlement.fault is not None or settlement.stored is not None
    if judged:
        delta.answers.append(settlement.fault)
    if settlement.claim.canary_round == dataset.canary_round:
        if judged or settlement.prompt_state is not PromptState.PENDING:
            delta.canary_judged += 1
        else:
            # It said nothing about the answers: another prompt may start in its place.
            delta.canary_launched -= 1


async def _resolve(conn: Connection, settlements: Sequence[Settlement]) -> set[UUID]:
    t = tables.resolutions
    statement = insert(t).on_conflict_do_nothing().returning(t.c.attempt_id)
    return set((await conn.execute(statement, [_resolution_row(s) for s in settlements])).scalars())


_HELD = text(
    "SELECT attempt_id FROM resolutions WHERE attempt_id = ANY(CAST(:attempts AS uuid[])) AND outcome = 'held'"
)


async def _correct(conn: Connection, repeated: Sequence[Settlement]) -> tuple[list[Settlement], list[Settlement]]:
    """What is now known of attempts that were given up: a bill, or that there is none.

    Returns the late endings, and those of them whose bill the books did not know yet: `reconcile` may have been
    quicker, and then only the sample is new.
    """
    told = {s.claim.attempt_id: s for s in repeated if s.billed_tokens is not None}
    if not told:
        return [], []
    held = (await conn.execute(_HELD, {"attempts": list(told)})).scalars().all()
    if not held:
        return [], []
    c = tables.corrections
    statement = insert(c).on_conflict_do_nothing().returning(c.c.attempt_id)
    made = await conn.execute(statement, [_correction_row(told[attempt]) for attempt in held])
    return [told[attempt] for attempt in held], [told[attempt] for attempt in made.scalars()]


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
        "errors": [storable(s.error) for s in settlements],
    }


def _usage_row(s: Settlement) -> dict[str, Any]:
    return {
        "attempt_id": s.claim.attempt_id,
        "generation_id": storable_or_none(s.generation_id),
        "model": storable_or_none(s.model),
        "host": storable_or_none(s.host),
        "finish_reason": storable_or_none(s.finish_reason),
        "prompt_tokens": s.usage.prompt_tokens,
        "completion_tokens": s.usage.completion_tokens,
        "reasoning_tokens": s.usage.reasoning_tokens,
        "cached_tokens": s.usage.cached_tokens,
        "cost_usd": s.usage.cost_usd,
    }


def _resolution_row(s: Settlement) -> dict[str, Any]:
    return {
        **_usage_row(s),
        "outcome": s.outcome.value,
        "status": s.status,
        "fault": s.fault,
        "error": storable(s.error),
    }


def _correction_row(s: Settlement) -> dict[str, Any]:
    known = {"completion_tokens": s.billed_tokens, "cost_usd": s.billed_usd}
    reason = s.error or "the answer arrived after the attempt was given up"
    return {**_usage_row(s), **known, "reason": storable(reason)}


def _sample_row(s: Settlement) -> dict[str, Any]:
    if s.stored is None:
        raise AssertionError("only settlements with a sample come here")
    return {
        **{name: getattr(s.stored, name) for name in StoredSample.__dataclass_fields__},
        "prompt_id": s.claim.prompt_id,
        "attempt_id": s.claim.attempt_id,
        "dataset_id": s.claim.dataset_id,
        "verdict": s.stored.verdict.value,
        "reason": storable(s.stored.reason),
    }
