"""Runs the revisions in one transaction, one caller at a time."""

from alembic import context
from sqlalchemy import create_engine, pool, text

from eagle3gen.ledger.tables import metadata

UPGRADE_LOCK = 0xEA61E2


def run() -> None:
    url = context.config.get_main_option("sqlalchemy.url")
    if url is None:
        raise RuntimeError("use eagle3gen.ledger.migrate, which sets the address")
    engine = create_engine(url, poolclass=pool.NullPool)
    with engine.begin() as conn:
        # A fleet's migrate jobs and workers may start together.
        conn.execute(text("select pg_advisory_xact_lock(:key)"), {"key": UPGRADE_LOCK})
        context.configure(connection=conn, target_metadata=metadata, transaction_per_migration=False)
        context.run_migrations()


run()
