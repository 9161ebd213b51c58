"""The ledger of a state directory for one command: the running run's, or opened for the moment."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from eagle3gen.errors import InputError
from eagle3gen.local.services import start_services
from eagle3gen.local.state_dir import Addresses, running


@contextlib.asynccontextmanager
async def open_services(path: Path) -> AsyncIterator[Addresses]:
    """Where the ledger listens while the command runs. Raises InputError when there is none."""
    addresses = running(path)
    if addresses is not None:
        yield addresses
        return
    if not (path / "postgres" / "PG_VERSION").exists():
        raise InputError(f"there is no ledger in {path}; `eagle3gen run` makes one")
    async with start_services(path, broker=False) as services:
        yield Addresses(database_url=services.database_url, redis_url=None)
