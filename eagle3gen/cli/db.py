"""`eagle3gen db`: the ledger's schema."""

import click

from eagle3gen.errors import ConfigurationError


@click.group()
def db() -> None:
    """Look after the ledger's schema."""


@db.command()
def upgrade() -> None:
    """Bring the schema of the fleet's ledger (DATABASE_URL) to this version.

    A one-machine ledger is upgraded by `eagle3gen run` itself.
    """
    from eagle3gen.ledger.migrate import current
    from eagle3gen.ledger.migrate import upgrade as migrate

    url = _fleet_url()
    migrate(url)
    click.echo(f"The ledger is at revision {current(url)}.")


def _fleet_url() -> str:
    from eagle3gen.config import Settings

    url = Settings().database_url
    if url is None:
        raise ConfigurationError("no database: set DATABASE_URL to the ledger's Postgres")
    return url
