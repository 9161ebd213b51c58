"""Bring a database to this version's schema with Alembic; the revisions are shipped in the package `migrations`."""

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.util import CommandError
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError, ProgrammingError

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.ledger.connect import driver_url, place


def alembic_config(database_url: str) -> Config:
    """An Alembic configuration for this database, without any file."""
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    # ConfigParser reads % as interpolation; passwords may hold it.
    config.set_main_option("sqlalchemy.url", driver_url(database_url).replace("%", "%%"))
    return config


def upgrade(database_url: str) -> None:
    """Apply every missing revision. Safe to run from several places at once.

    Raises ServiceUnreachable, and ConfigurationError for a database that is not ours to change.
    """
    try:
        command.upgrade(alembic_config(database_url), "head")
    except OperationalError as error:
        raise _unreachable(database_url, error) from error
    except CommandError as error:
        raise ConfigurationError(
            f"the ledger at {place(database_url)} was made by another version of eagle3gen ({error}); use that one"
        ) from error
    except ProgrammingError as error:
        raise ConfigurationError(
            f"the database at {place(database_url)} takes no ledger: {_first_line(error)}"
        ) from error


def current(database_url: str) -> str | None:
    """The revision that the database is at; None when it holds no ledger."""
    engine = create_engine(driver_url(database_url))
    try:
        with engine.connect() as conn:
            return MigrationContext.configure(conn).get_current_revision()
    except OperationalError as error:
        raise _unreachable(database_url, error) from error
    finally:
        engine.dispose()


def ensure_database(server_url: str, name: str) -> None:
    """Create the database on this server unless it is there. Raises ServiceUnreachable while the server is not."""
    engine = create_engine(driver_url(server_url + "postgres"), isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as conn:
            known = conn.execute(text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": name}).scalar()
            if known is None:
                conn.execute(text(f'CREATE DATABASE "{name}"'))
    except OperationalError as error:
        raise _unreachable(server_url, error) from error
    finally:
        engine.dispose()


def _unreachable(database_url: str, error: OperationalError) -> ServiceUnreachable:
    return ServiceUnreachable(f"Postgres at {place(database_url)} failed: {_first_line(error)}")


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0]
