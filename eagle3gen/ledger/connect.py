"""Connecting to the ledger."""

import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from sqlalchemy import make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionInTime
from sqlalchemy.ext.asyncio import AsyncConnection as Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from eagle3gen.errors import ConfigurationError, ServiceUnreachable

__all__ = ["Connection", "Ledger", "driver_url", "open_ledger", "place"]

CONNECT_SECONDS = 10
STATEMENT_SECONDS = 120
LOCK_SECONDS = 30
IDLE_SECONDS = 60
"""A process frozen in the middle of a transaction may not keep its locks from all others."""
KEEPALIVE = {
    "keepalives_idle": 20,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


def driver_url(url: str) -> str:
    """The URL for SQLAlchemy with psycopg 3, from any of the usual spellings."""
    scheme, found, rest = url.partition("://")
    driver = f"postgresql+psycopg://{rest}"
    if not found or scheme.split("+")[0] not in {"postgresql", "postgres"} or not _readable(driver):
        raise ConfigurationError("DATABASE_URL is not a Postgres address such as postgresql://user@host:5432/name")
    return driver


def _readable(url: str) -> bool:
    try:
        make_url(url)
        _ = urlsplit(url).port
    except (ArgumentError, ValueError):
        return False
    return True


def place(url: str) -> str:
    """Host and port of a URL, for messages: never its password."""
    parts = urlsplit(url)
    return f"{parts.hostname or 'localhost'}:{parts.port or 5432}"


def open_ledger(database_url: str, *, pool_size: int = 4) -> "Ledger":
    """A ledger at a Postgres URL; connects at first use."""
    engine = create_async_engine(
        driver_url(database_url),
        pool_size=pool_size,
        max_overflow=2,
        pool_pre_ping=True,
        pool_timeout=CONNECT_SECONDS,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "options": f"-c statement_timeout={STATEMENT_SECONDS}s -c lock_timeout={LOCK_SECONDS}s"
            f" -c idle_in_transaction_session_timeout={IDLE_SECONDS}s",
            **KEEPALIVE,
        },
    )
    return Ledger(engine, place(database_url))


class Ledger:
    """An open ledger: a pool of connections, and transactions on them."""

    def __init__(self, engine: AsyncEngine, where: str) -> None:
        self.engine = engine
        self.where = where

    @contextlib.asynccontextmanager
    async def begin(self) -> AsyncIterator[Connection]:
        """One transaction. Raises ServiceUnreachable when the database does not answer or goes away in it."""
        try:
            async with self.engine.begin() as conn:
                yield conn
        except (OperationalError, InterfaceError, InternalError) as error:
            # InternalError is what a server says that has become a read-only standby.
            raise ServiceUnreachable(f"Postgres at {self.where} failed: {_first_line(error)}") from error
        except NoConnectionInTime as error:
            raise ServiceUnreachable(f"Postgres at {self.where} gave no connection in time") from error

    async def ping(self) -> None:
        """Raises ServiceUnreachable, or ConfigurationError when the schema is missing."""
        async with self.begin() as conn:
            if (await conn.execute(text("select to_regclass('datasets')"))).scalar() is None:
                raise ConfigurationError(
                    f"the database at {self.where} holds no ledger; create it with `eagle3gen db upgrade`"
                )

    async def close(self) -> None:
        await self.engine.dispose()


def _first_line(error: DBAPIError) -> str:
    return str(error.orig).strip().splitlines()[0] if error.orig is not None else type(error).__name__
