"""Find the ledger that a command speaks of: a fleet's by DATABASE_URL, or one machine's by its state directory."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from eagle3gen.cli.options import local_dir
from eagle3gen.config import Settings
from eagle3gen.errors import ConfigurationError
from eagle3gen.ledger.connect import Ledger, open_ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """An open ledger, and the broker beside it if one runs."""

    ledger: Ledger
    redis_url: str | None


@contextlib.asynccontextmanager
async def reach(state_dir: Path | None) -> AsyncIterator[Reached]:
    """Open the ledger for one command; starts a one-machine Postgres for it when no run has one open.

    Raises ServiceUnreachable, or InputError when there is no ledger in the state directory.
    """
    directory = local_dir(state_dir)
    async with contextlib.AsyncExitStack() as stack:
        if directory is None:
            settings = Settings()
            database_url, redis_url = settings.database_url or "", settings.redis_url
        else:
            from eagle3gen.local.opening import open_services

            services = await stack.enter_async_context(open_services(directory))
            database_url, redis_url = services.database_url, services.redis_url
        ledger = open_ledger(database_url)
        stack.push_async_callback(ledger.close)
        await ledger.ping()
        yield Reached(ledger=ledger, redis_url=redis_url)


def broker_url(reached: Reached) -> str:
    """The broker's URL. Raises ConfigurationError when the fleet's is not set."""
    if reached.redis_url is None:
        raise ConfigurationError("no broker: set REDIS_URL to the fleet's Redis or Valkey")
    return reached.redis_url
