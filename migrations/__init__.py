"""Alembic revisions of the ledger, shipped in the wheel."""
