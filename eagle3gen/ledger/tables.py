"""The schema. `migrations/` brings a database to it; a test holds the two together."""

from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from eagle3gen.ledger.health import CANARY, Fault
from eagle3gen.ledger.states import Admission, CorrectionKind, DatasetState, Outcome, PromptState
from eagle3gen.records import Queue, Verdict

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

USD = Numeric()
"""Every digit that was billed; nothing is rounded."""
INSTANT = DateTime(timezone=True)


def _one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    listed = ", ".join(f"'{value.value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def _bill() -> tuple[CheckConstraint, ...]:
    # A bill below nothing would make room under a cap, and one that is no number would swallow the sum.
    return (
        CheckConstraint("completion_tokens >= 0", name="completion_tokens"),
        CheckConstraint("cost_usd >= 0 AND cost_usd < 'Infinity'", name="cost_usd"),
    )


plan = Table(
    "plan",
    metadata,
    # One row: the caps over all datasets of this ledger.
    Column("id", SmallInteger, primary_key=True, autoincrement=False),
    Column("cap_tokens", BigInteger),
    Column("cap_usd", USD),
    CheckConstraint("id = 1", name="id"),
)

datasets = Table(
    "datasets",
    metadata,
    Column("id", Integer, Identity(always=True), primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("model", Text, nullable=False),
    Column("endpoint_url", Text, nullable=False),
    Column("tokenizer", Text, nullable=False),
    Column("tokenizer_sha256", Text, nullable=False),
    Column("sampling", JSONB, nullable=False),
    Column("routing", JSONB, nullable=False, server_default="{}"),
    Column("state", Text, nullable=False, server_default=DatasetState.OPEN.value),
    Column("state_reason", Text, nullable=False, server_default=""),
    Column("cap_tokens", BigInteger),
    Column("cap_usd", USD),
    Column("admission", Text, nullable=False, server_default=Admission.STRICT.value),
    # The dearest that the routing allows, in USD per token and per request; all or none are known.
    Column("prompt_price_usd", USD),
    Column("completion_price_usd", USD),
    Column("request_price_usd", USD),
    # Counters kept in the transaction that moves the money; `books.audit_books` recounts them.
    Column("spent_tokens", BigInteger, nullable=False, server_default="0"),
    Column("held_tokens", BigInteger, nullable=False, server_default="0"),
    Column("open_tokens", BigInteger, nullable=False, server_default="0"),
    Column("cost_usd", USD, nullable=False, server_default="0"),
    Column("held_usd", USD, nullable=False, server_default="0"),
    Column("open_usd", USD, nullable=False, server_default="0"),
    Column("unpriced_attempts", BigInteger, nullable=False, server_default="0"),
    # Under `forecast`: what a call is expected to cost, by its max_tokens, and what the open calls are expected to
    # cost beyond their holds.
    Column("forecast", JSONB, nullable=False, server_default="{}"),
    Column("reserve_tokens", BigInteger, nullable=False, server_default="0"),
    Column("reserve_usd", USD, nullable=False, server_default="0"),
    # The canary: how many, which round, how many of them were launched and are judged.
    Column("canary", Integer, nullable=False, server_default=str(CANARY)),
    Column("canary_round", Integer, nullable=False, server_default="1"),
    Column("canary_launched", Integer, nullable=False, server_default="0"),
    Column("canary_judged", Integer, nullable=False, server_default="0"),
    Column("breaker", JSONB, nullable=False, server_default="{}"),
    # The latest answers, one letter each (`health.py`).
    Column("recent", Text, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False, server_default=func.now()),
    _one_of("state", DatasetState),
    _one_of("admission", Admission),
    CheckConstraint("cap_usd IS NULL OR completion_price_usd IS NOT NULL", name="cap_usd_needs_prices"),
    CheckConstraint("cap_usd < 'Infinity' AND cap_usd >= 0", name="cap_usd"),
)

prompts = Table(
    "prompts",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False),
    Column("key", LargeBinary, nullable=False),
    Column("source", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("queue", Text, nullable=False),
    Column("max_tokens", Integer, nullable=False),
    Column("state", Text, nullable=False, server_default=PromptState.PENDING.value),
    Column("not_before", INSTANT, nullable=False, server_default=func.now()),
    Column("queued_at", INSTANT),
    Column("tries", SmallInteger, nullable=False, server_default="0"),
    Column("attempt_id", Uuid),
    Column("last_error", Text, nullable=False, server_default=""),
    UniqueConstraint("dataset_id", "key"),
    CheckConstraint("max_tokens > 0", name="max_tokens"),
    _one_of("queue", Queue),
    _one_of("state", PromptState),
)
Index(
    "ix_prompts_pending",
    prompts.c.dataset_id,
    prompts.c.queue,
    prompts.c.id,
    postgresql_where=text("state = 'pending'"),
)
Index("ix_prompts_queued", prompts.c.queue, prompts.c.queued_at, postgresql_where=text("state = 'queued'"))
Index("ix_prompts_in_flight", prompts.c.attempt_id, postgresql_where=text("state = 'in_flight'"))

workers = Table(
    "workers",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("queue", Text, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("started_at", INSTANT, nullable=False, server_default=func.now()),
    Column("beat_at", INSTANT, nullable=False, server_default=func.now()),
    Column("gone", Boolean, nullable=False, server_default=text("false")),
    _one_of("queue", Queue),
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("prompt_id", ForeignKey("prompts.id"), nullable=False, index=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False),
    # No foreign key: a worker registers itself, but its attempts must never wait for that.
    Column("worker_id", Uuid, nullable=False, index=True),
    # Reserved while it is open, and what it counts for when its bill stays unknown.
    Column("hold_tokens", Integer, nullable=False),
    Column("hold_usd", USD, nullable=False, server_default="0"),
    Column("worst_tokens", Integer, nullable=False),
    Column("worst_usd", USD, nullable=False, server_default="0"),
    Column("canary_round", Integer),
    Column("opened_at", INSTANT, nullable=False, server_default=func.now()),
    Index("ix_attempts_dataset_id_opened_at", "dataset_id", "opened_at"),
)

generations = Table(
    "generations",
    metadata,
    # The endpoint's own id of a call, known as soon as its headers came: what a crash leaves to ask about.
    Column("attempt_id", ForeignKey("attempts.id"), primary_key=True),
    Column("generation_id", Text, nullable=False),
    Column("noted_at", INSTANT, nullable=False, server_default=func.now()),
)

resolutions = Table(
    "resolutions",
    metadata,
    # The primary key is the rule: an attempt ends once.
    Column("attempt_id", ForeignKey("attempts.id"), primary_key=True),
    Column("outcome", Text, nullable=False),
    Column("status", SmallInteger),
    Column("generation_id", Text),
    Column("model", Text),
    Column("host", Text),
    Column("finish_reason", Text),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    Column("reasoning_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("cost_usd", USD),
    Column("fault", Text),
    Column("error", Text, nullable=False, server_default=""),
    Column("closed_at", INSTANT, nullable=False, server_default=func.now()),
    _one_of("outcome", Outcome),
    _one_of("fault", Fault),
    *_bill(),
)
Index("ix_resolutions_fault", resolutions.c.fault, resolutions.c.closed_at, postgresql_where=text("fault IS NOT NULL"))
Index("ix_resolutions_held", resolutions.c.closed_at, postgresql_where=text("outcome = 'held'"))

corrections = Table(
    "corrections",
    metadata,
    # What became known later about an attempt whose bill was not; again at most once, and the resolution stays as it
    # was.
    Column("attempt_id", ForeignKey("resolutions.attempt_id"), primary_key=True),
    Column("generation_id", Text),
    Column("model", Text),
    Column("host", Text),
    Column("finish_reason", Text),
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer, nullable=False),
    Column("reasoning_tokens", Integer),
    Column("cached_tokens", Integer),
    Column("cost_usd", USD),
    Column("kind", Text, nullable=False, server_default=CorrectionKind.LATE.value),
    Column("reason", Text, nullable=False),
    Column("made_at", INSTANT, nullable=False, server_default=func.now()),
    _one_of("kind", CorrectionKind),
    *_bill(),
)

key_readings = Table(
    "key_readings",
    metadata,
    # What the endpoint itself says that a key has used; the key is told apart by a digest, never stored.
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("endpoint_url", Text, nullable=False),
    Column("key_digest", Text, nullable=False),
    Column("usage_usd", USD, nullable=False),
    Column("left_usd", USD),
    # The cost of all calls that the ledger knew at that moment.
    Column("ledger_usd", USD, nullable=False),
    Column("read_at", INSTANT, nullable=False, server_default=func.now()),
    Index("ix_key_readings_endpoint_url_key_digest", "endpoint_url", "key_digest", "read_at"),
)

samples = Table(
    "samples",
    metadata,
    # One sample per prompt, whatever happens.
    Column("prompt_id", ForeignKey("prompts.id"), primary_key=True),
    Column("attempt_id", ForeignKey("attempts.id"), nullable=False, unique=True),
    Column("dataset_id", ForeignKey("datasets.id"), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("prompt_ids", LargeBinary, nullable=False),
    Column("output_ids", LargeBinary, nullable=False),
    Column("prompt_len", Integer, nullable=False),
    Column("output_len", Integer, nullable=False),
    Column("difference", Integer),
    Column("prompt_difference", Integer),
    Column("hypothesis", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("tokenizer_sha256", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("created_at", INSTANT, nullable=False, server_default=func.now()),
    _one_of("verdict", Verdict),
    Index("ix_samples_dataset_id_verdict", "dataset_id", "verdict"),
)

profiles = Table(
    "profiles",
    metadata,
    # How a host counts and what it strips, as measured.
    Column("model", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("transport", Text, primary_key=True),
    Column("end_token_counted", Boolean),
    Column("strips_whitespace", Boolean),
    Column("samples", Integer, nullable=False, server_default="0"),
    Column("measured_at", INSTANT, nullable=False, server_default=func.now()),
)
