"""Caps in USD and for the whole plan, forecasts, canary and breaker, generation ids, readings of the key.

Rows of money may only be added from now on: triggers refuse everything else.

Revision: 0002.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

APPEND_ONLY = ("attempts", "resolutions", "corrections", "generations", "key_readings")
DATASET_COLUMNS = (
    "cap_usd",
    "admission",
    "prompt_price_usd",
    "completion_price_usd",
    "request_price_usd",
    "held_usd",
    "open_usd",
    "forecast",
    "reserve_tokens",
    "reserve_usd",
    "canary",
    "canary_round",
    "canary_launched",
    "canary_judged",
    "breaker",
    "recent",
)


def upgrade() -> None:
    _plan()
    _datasets()
    _attempts()
    _generations()
    _endings()
    _key_readings()
    op.execute(
        "CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'rows of % are only ever added', TG_TABLE_NAME; END$$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )


def downgrade() -> None:
    for table in APPEND_ONLY:
        op.execute(f"DROP TRIGGER append_only ON {table}")
    op.execute("DROP FUNCTION refuse_change")
    op.drop_table("key_readings")
    op.drop_column("corrections", "kind")
    op.drop_index("ix_resolutions_fault", "resolutions")
    op.drop_column("resolutions", "fault")
    op.drop_table("generations")
    op.drop_index("ix_attempts_dataset_id_opened_at", "attempts")
    for column in ("hold_usd", "worst_tokens", "worst_usd", "canary_round"):
        op.drop_column("attempts", column)
    for name in ("admission", "cap_usd", "cap_usd_needs_prices"):
        op.drop_constraint(op.f(f"ck_datasets_{name}"), "datasets")
    for column in DATASET_COLUMNS:
        op.drop_column("datasets", column)
    op.drop_table("plan")


def _plan() -> None:
    op.create_table(
        "plan",
        sa.Column("id", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("cap_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cap_usd", sa.Numeric(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("ck_plan_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_plan")),
    )
    op.execute("INSERT INTO plan (id) VALUES (1)")


def _datasets() -> None:
    for column in (
        sa.Column("cap_usd", sa.Numeric(), nullable=True),
        sa.Column("admission", sa.Text(), server_default="strict", nullable=False),
        sa.Column("prompt_price_usd", sa.Numeric(), nullable=True),
        sa.Column("completion_price_usd", sa.Numeric(), nullable=True),
        sa.Column("request_price_usd", sa.Numeric(), nullable=True),
        sa.Column("held_usd", sa.Numeric(), server_default="0", nullable=False),
        sa.Column("open_usd", sa.Numeric(), server_default="0", nullable=False),
        sa.Column("forecast", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
        sa.Column("reserve_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reserve_usd", sa.Numeric(), server_default="0", nullable=False),
        # What was enqueued before there was a canary has none.
        sa.Column("canary", sa.Integer(), server_default="0", nullable=False),
        sa.Column("canary_round", sa.Integer(), server_default="1", nullable=False),
        sa.Column("canary_launched", sa.Integer(), server_default="0", nullable=False),
        sa.Column("canary_judged", sa.Integer(), server_default="0", nullable=False),
        sa.Column("breaker", postgresql.JSONB(astext_type=sa.Text()), server_default="{}", nullable=False),
        sa.Column("recent", sa.Text(), server_default="", nullable=False),
    ):
        op.add_column("datasets", column)
    op.alter_column("datasets", "canary", server_default="20")
    op.create_check_constraint(op.f("ck_datasets_admission"), "datasets", "admission IN ('strict', 'forecast')")
    op.create_check_constraint(op.f("ck_datasets_cap_usd"), "datasets", "cap_usd < 'Infinity' AND cap_usd >= 0")
    op.create_check_constraint(
        op.f("ck_datasets_cap_usd_needs_prices"), "datasets", "cap_usd IS NULL OR completion_price_usd IS NOT NULL"
    )


def _attempts() -> None:
    op.add_column("attempts", sa.Column("hold_usd", sa.Numeric(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("worst_tokens", sa.Integer(), nullable=True))
    op.execute("UPDATE attempts SET worst_tokens = hold_tokens")
    op.alter_column("attempts", "worst_tokens", nullable=False)
    op.add_column("attempts", sa.Column("worst_usd", sa.Numeric(), server_default="0", nullable=False))
    op.add_column("attempts", sa.Column("canary_round", sa.Integer(), nullable=True))
    op.create_index("ix_attempts_dataset_id_opened_at", "attempts", ["dataset_id", "opened_at"], unique=False)


def _generations() -> None:
    op.create_table(
        "generations",
        sa.Column("attempt_id", sa.Uuid(), nullable=False),
        sa.Column("generation_id", sa.Text(), nullable=False),
        sa.Column("noted_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_generations_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_generations")),
    )


def _endings() -> None:
    op.add_column("resolutions", sa.Column("fault", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("ck_resolutions_fault"),
        "resolutions",
        "fault IN ('verdict', 'structure', 'reasoning', 'permanent', 'lost')",
    )
    op.create_index(
        "ix_resolutions_fault",
        "resolutions",
        ["fault", "closed_at"],
        unique=False,
        postgresql_where=sa.text("fault IS NOT NULL"),
    )
    op.add_column("corrections", sa.Column("kind", sa.Text(), server_default="late", nullable=False))
    op.create_check_constraint(
        op.f("ck_corrections_kind"), "corrections", "kind IN ('late', 'reconciled', 'written_off')"
    )


def _key_readings() -> None:
    op.create_table(
        "key_readings",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("endpoint_url", sa.Text(), nullable=False),
        sa.Column("key_digest", sa.Text(), nullable=False),
        sa.Column("usage_usd", sa.Numeric(), nullable=False),
        sa.Column("left_usd", sa.Numeric(), nullable=True),
        sa.Column("ledger_usd", sa.Numeric(), nullable=False),
        sa.Column("read_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_key_readings")),
    )
    op.create_index(
        "ix_key_readings_endpoint_url_key_digest",
        "key_readings",
        ["endpoint_url", "key_digest", "read_at"],
        unique=False,
    )
