"""The broker: ring, count, purge. Synchronous; `workers.bell` calls this off the event loop."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import redis
from kombu.exceptions import KombuError

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.records import Queue
from workers.app import TASK

Result = TypeVar("Result")

BATCH = 500
"""Messages per round trip."""
RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2}


def ring(app: Any, queue: Queue, prompt_ids: Sequence[int]) -> None:
    """Publish one message per prompt: its id and nothing else. Raises ServiceUnreachable.

    A failed batch may have been published in part; doubled messages do no harm.
    """

    def publish() -> None:
        with app.producer_pool.acquire(block=True, timeout=10) as producer, producer.batch(max_size=BATCH):
            for prompt_id in prompt_ids:
                app.send_task(TASK, args=[prompt_id], queue=queue.value, producer=producer, retry=False)

    _told(app, publish)


def depth(app: Any, queue: Queue) -> int:
    """Messages waiting in the queue. Raises ServiceUnreachable."""

    def measure() -> int:
        with app.connection_for_write() as connection:
            connection.ensure_connection(**RETRY)
            return int(connection.default_channel.client.llen(queue.value))

    return _told(app, measure)


def purge(app: Any, queues: Sequence[Queue]) -> int:
    """Throw away all messages of these queues; how many. The prompts stay in the ledger."""

    def throw_away() -> int:
        with app.connection_for_write() as connection:
            connection.ensure_connection(**RETRY)
            # One step: what is counted is what is thrown away.
            pipe = connection.default_channel.client.pipeline(transaction=True)
            for queue in queues:
                pipe.llen(queue.value).delete(queue.value)
            return sum(pipe.execute()[::2])

    return _told(app, throw_away)


def broadcast_halt(app: Any, dataset_ids: Sequence[int]) -> None:
    """Tell every worker to cancel the open calls of these datasets, without waiting for answers."""

    def tell() -> None:
        with app.connection_for_write() as connection:
            connection.ensure_connection(**RETRY)
            app.control.broadcast("halt", arguments={"dataset_ids": list(dataset_ids)}, connection=connection)

    _told(app, tell)


def _told(app: Any, call: Callable[[], Result]) -> Result:
    """The result, or ServiceUnreachable with the broker's place but never its password."""
    try:
        return call()
    except (ImportError, KeyError) as error:
        raise ConfigurationError("REDIS_URL is not an address such as redis://host:6379/0") from error
    except (KombuError, redis.RedisError, OSError) as error:
        parts = urlsplit(app.conf.broker_url or "")
        where = f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ServiceUnreachable(f"the broker at {where} failed: {reason}") from error
