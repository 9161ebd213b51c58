"""A worker with the real pool and settings, whose tasks only sleep and tell Redis about it.

python sleepy.py REDIS_URL TELL_URL CONCURRENCY [WORD...]
"""

import asyncio
import contextlib
import sys
from types import SimpleNamespace

import redis

from eagle3gen import telemetry
from eagle3gen.errors import ConfigurationError
from eagle3gen.records import Queue
from workers import queues, runtime
from workers.app import POOL, connect
from workers.pool import current_task_id
from workers.watchdog import Watchdog

RAISE, EXIT, STRAY_EXIT, GO_DEAF, FINISH_SLOWLY, TIME_OUT_BY_ITSELF, UNPRINTABLE, CANCEL_ITSELF = range(-1, -9, -1)

url, tell_url, concurrency, words = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
told = redis.Redis.from_url(tell_url)
app = connect(url)
app.conf.imports = ["workers.control"]
app.lifespan = "__main__:lifespan"
running: set[object] = set()
strays: list[asyncio.Task] = []


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@contextlib.asynccontextmanager
async def lifespan(_app, pool):
    if "refuse" in words:
        raise ConfigurationError("not like this")
    if "crash" in words:
        raise ZeroDivisionError("a bug in the lifespan")
    told.rpush("log", "opening")
    if "slow" in words:
        await asyncio.sleep(60)
    halted = SimpleNamespace(cancel=lambda dataset_id: told.rpush("halted", dataset_id))
    runtime._bench = SimpleNamespace(calls=halted)
    watch = asyncio.create_task(look(Watchdog(pool.load, pool.reconnect, deaf_seconds=1)))
    told.rpush("log", "opened")
    yield
    watch.cancel()
    if not running:
        told.rpush("log", "closed")


async def look(watchdog: Watchdog) -> None:
    while "watched" in words:
        if watchdog.suspicious:
            with contextlib.suppress(Exception):
                watchdog.look(await asyncio.to_thread(queues.depth, app, Queue.SHORT))
        await asyncio.sleep(0.2)


async def leave() -> None:
    sys.exit(7)


async def behave(number: int) -> None:
    if number == RAISE:
        raise ValueError("a negative number")
    if number == EXIT:
        sys.exit(7)
    if number == STRAY_EXIT:
        strays.append(asyncio.create_task(leave()))
    if number == GO_DEAF:
        # As after kombu's known faults: the consumer never asks the broker again on this connection.
        worker.consumer.task_consumer.channel.qos.can_consume = lambda: False
    if number == TIME_OUT_BY_ITSELF:
        raise TimeoutError("the body's own")
    if number == UNPRINTABLE:
        raise UnprintableError
    if number == CANCEL_ITSELF:
        raise asyncio.CancelledError
    if number == FINISH_SLOWLY:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.5)
            told.rpush("settled", number)
    await asyncio.sleep(max(number, 0) / 1000)


@app.task(name="eagle3gen.generate")
async def sleep(number: int) -> None:
    me = object()
    running.add(me)
    told.rpush("in_flight", len(running))
    try:
        await behave(number)
        told.rpush("slept", number)
        told.rpush("ids", current_task_id.get())
    except asyncio.CancelledError:
        told.rpush("cancelled", number)
        raise
    finally:
        running.discard(me)


if __name__ == "__main__":
    telemetry.configure()
    worker = app.Worker(
        hostname="sleepy@test", pool_cls=POOL, queues=["short"], concurrency=concurrency, loglevel="INFO",
        quiet=True, without_mingle=True, without_gossip=True, task_events="events" in words,
        time_limit=1.0 if "limit" in words else None, soft_time_limit=0.5 if "soft" in words else None,
    )  # fmt: skip
    worker.start()
    sys.exit(worker.exitcode)
