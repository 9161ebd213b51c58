"""The first schema.

Revision: 0001.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = ("datasets", "profiles", "workers", "prompts", "attempts", "resolutions", "samples", "corrections")


def upgrade() -> None:
    _datasets()
    _profiles()
    _workers()
    _prompts()
    _attempts()
    _resolutions()
    _samples()
    _corrections()
    for column in ("prompt_ids", "output_ids", "body"):
        # These bytes are compressed already: Postgres must not try again.
        op.execute(f"ALTER TABLE samples ALTER COLUMN {column} SET STORAGE EXTERNAL")


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.Integer(), sa.Identity(always=True), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("endpoint_url", sa.Text(), nullable=False),
        sa.Column("tokenizer", sa.Text(), nullable=False),
        sa.Column("tokenizer_sha256", sa.Text(), nullable=False),
        sa.Column("sampling", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("state", sa.Text(), server_default="open", nullable=False),
        sa.Column("state_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("cap_tokens", sa.BigInteger(), nullable=True),
        sa.Column("spent_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("held_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("open_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("cost_usd", sa.Numeric(), server_default="0", nullable=False),
        sa.Column("unpriced_attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("state IN ('open', 'paused', 'stopped')", name=op.f("ck_datasets_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
        sa.UniqueConstraint("name", name=op.f("uq_datasets_name")),
    )


def _profiles() -> None:
    op.create_table(
        "profiles",
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("transport", sa.Text(), nullable=False),
        sa.Column("end_token_counted", sa.Boolean(), nullable=True),
        sa.Column("strips_whitespace", sa.Boolean(), nullable=True),
        sa.Column("samples", sa.Integer(), server_default="0", nullable=False),
        sa.Column("measured_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("model", "host", "transport", name=op.f("pk_profiles")),
    )


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("beat_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("gone", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.CheckConstraint("queue IN ('short', 'long')", name=op.f("ck_workers_queue")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workers")),
    )


def _prompts() -> None:
    op.create_table(
        "prompts",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("payload", sa.LargeBinary(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("max_tokens", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), server_default="pending", nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("queued_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("tries", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempt_id", sa.Uuid(), nullable=True),
        sa.Column("last_error", sa.Text(), server_default="", nullable=False),
        sa.CheckConstraint("queue IN ('short', 'long')", name=op.f("ck_prompts_queue")),
        sa.CheckConstraint(
            "state IN ('waiting', 'pending', 'queued', 'in_flight', 'done', 'rejected', 'failed')",
            name=op.f("ck_prompts_state"),
        ),
        sa.CheckConstraint("max_tokens > 0", name=op.f("ck_prompts_max_tokens")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_prompts_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prompts")),
        sa.UniqueConstraint("dataset_id", "key", name=op.f("uq_prompts_dataset_id_key")),
    )
    op.create_index(
        "ix_prompts_pending",
        "prompts",
        ["dataset_id", "queue", "id"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_prompts_queued",
        "prompts",
        ["queue", "queued_at"],
        unique=False,
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_index(
        "ix_prompts_in_flight", "prompts", ["attempt_id"], unique=False, postgresql_where=sa.text("state = 'in_flight'")
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("prompt_id", sa.BigInteger(), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("worker_id", sa.Uuid(), nullable=False),
        sa.Column("hold_tokens", sa.Integer(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_attempts_dataset_id_datasets")),
        sa.ForeignKeyConstraint(["prompt_id"], ["prompts.id"], name=op.f("fk_attempts_prompt_id_prompts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
    )
    op.create_index(op.f("ix_attempts_prompt_id"), "attempts", ["prompt_id"], unique=False)
    op.create_index(op.f("ix_attempts_worker_id"), "attempts", ["worker_id"], unique=False)


def _resolutions() -> None:
    op.create_table(
        "resolutions",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("status", sa.SmallInteger(), nullable=True),
        sa.Column("generation_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=True),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Numeric(), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("outcome IN ('settled', 'released', 'held')", name=op.f("ck_resolutions_outcome")),
        sa.CheckConstraint("completion_tokens >= 0", name=op.f("ck_resolutions_completion_tokens")),
        sa.CheckConstraint("cost_usd >= 0 AND cost_usd < 'Infinity'", name=op.f("ck_resolutions_cost_usd")),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_resolutions_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_resolutions")),
    )
    op.create_index(
        "ix_resolutions_held", "resolutions", ["closed_at"], unique=False, postgresql_where=sa.text("outcome = 'held'")
    )


def _samples() -> None:
    op.create_table(
        "samples",
        sa.Column("prompt_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("dataset_id", sa.Integer(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("prompt_ids", sa.LargeBinary(), nullable=False),
        sa.Column("output_ids", sa.LargeBinary(), nullable=False),
        sa.Column("prompt_len", sa.Integer(), nullable=False),
        sa.Column("output_len", sa.Integer(), nullable=False),
        sa.Column("difference", sa.Integer(), nullable=True),
        sa.Column("prompt_difference", sa.Integer(), nullable=True),
        sa.Column("hypothesis", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("tokenizer_sha256", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint(
            "verdict IN ('exact/ids', 'exact/logprobs', 'exact/count', 'repaired', 'ambiguous', 'off_by_k', 'mismatch', 'lossy_text', 'truncated', 'underived')",
            name=op.f("ck_samples_verdict"),
        ),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_samples_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_samples_dataset_id_datasets")),
        sa.ForeignKeyConstraint(["prompt_id"], ["prompts.id"], name=op.f("fk_samples_prompt_id_prompts")),
        sa.PrimaryKeyConstraint("prompt_id", name=op.f("pk_samples")),
        sa.UniqueConstraint("attempt_id", name=op.f("uq_samples_attempt_id")),
    )
    op.create_index("ix_samples_dataset_id_verdict", "samples", ["dataset_id", "verdict"], unique=False)


def _corrections() -> None:
    op.create_table(
        "corrections",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("generation_id", sa.Text(), nullable=True),
        sa.Column("model", sa.Text(), nullable=True),
        sa.Column("host", sa.Text(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("prompt_tokens", sa.Integer(), nullable=True),
        sa.Column("completion_tokens", sa.Integer(), nullable=False),
        sa.Column("reasoning_tokens", sa.Integer(), nullable=True),
        sa.Column("cached_tokens", sa.Integer(), nullable=True),
        sa.Column("cost_usd", sa.Numeric(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["resolutions.attempt_id"], name=op.f("fk_corrections_attempt_id_resolutions")
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_corrections")),
        sa.CheckConstraint("completion_tokens >= 0", name=op.f("ck_corrections_completion_tokens")),
        sa.CheckConstraint("cost_usd >= 0 AND cost_usd < 'Infinity'", name=op.f("ck_corrections_cost_usd")),
    )
