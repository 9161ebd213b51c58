"""A worker with the real pool and settings, whose tasks only sleep and tell Redis about it.

python sleepy.py REDIS_URL CONCURRENCY [refuse]
"""

import asyncio
import contextlib
import sys

import redis

from eagle3gen import telemetry
from eagle3gen.errors import ConfigurationError
from workers.app import POOL, connect
from workers.pool import current_task_id

url, concurrency = sys.argv[1], int(sys.argv[2])
told = redis.Redis.from_url(url)
app = connect(url)
app.conf.imports = ["workers.control"]
app.lifespan = "__main__:lifespan"
running: set[object] = set()


@contextlib.asynccontextmanager
async def lifespan(_app, _pool):
    if "refuse" in sys.argv:
        raise ConfigurationError("not like this")
    told.rpush("log", "opened")
    yield
    told.rpush("log", "closed")


@app.task(name="eagle3gen.generate")
async def sleep(number: int) -> None:
    me = object()
    running.add(me)
    told.rpush("in_flight", len(running))
    try:
        if number < 0:
            raise ValueError("a negative number")
        await asyncio.sleep(number / 1000)
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
        quiet=True, without_mingle=True, without_gossip=True, task_events="events" in sys.argv,
        time_limit=1.0 if "limit" in sys.argv else None,
    )  # fmt: skip
    worker.start()
    sys.exit(worker.exitcode)
