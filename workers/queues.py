"""The broker: ring, count, purge. Synchronous; `workers.bell` calls this off the event loop."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import redis
from kombu.exceptions import KombuError

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.records import Queue
from workers.address import place
from workers.app import BAD_ADDRESS, TASK

Result = TypeVar("Result")

BATCH = 500
"""Messages per round trip."""
HELD_SECONDS = 10.0
"""How long to wait for one of the app's few connections."""
REASON_CHARACTERS = 200
RETRY = {"max_retries": 1, "interval_start": 0, "interval_step": 0.2}


def ring(app: Any, queue: Queue, prompt_ids: Sequence[int]) -> None:
    """Publish one message per prompt: its id and nothing else. Raises ServiceUnreachable.

    A failed batch may have been published in part; doubled messages do no harm.
    """

    def publish() -> None:
        with app.producer_pool.acquire(block=True, timeout=HELD_SECONDS) as producer:
            producer.connection.ensure_connection(**RETRY)
            with producer.batch(max_size=BATCH):
                for prompt_id in prompt_ids:
                    app.send_task(TASK, args=[prompt_id], queue=queue.value, producer=producer, retry=False)

    _told(app, publish)


def depth(app: Any, queue: Queue) -> int:
    """Messages waiting in the queue. Raises ServiceUnreachable."""

    def measure() -> int:
        with _connected(app) as connection:
            return int(connection.default_channel.client.llen(queue.value))

    return _told(app, measure)


def purge(app: Any, queues: Sequence[Queue]) -> int:
    """Throw away all messages of these queues; how many. The prompts stay in the ledger. Raises ServiceUnreachable."""

    def throw_away() -> int:
        with _connected(app) as connection:
            # One step: what is counted is what is thrown away.
            pipe = connection.default_channel.client.pipeline(transaction=True)
            for queue in queues:
                pipe.llen(queue.value).delete(queue.value)
            return sum(pipe.execute()[::2])

    return _told(app, throw_away)


def broadcast_halt(app: Any, dataset_ids: Sequence[int]) -> None:
    """Tell every worker to cancel the open calls of these datasets, without waiting for answers.

    Raises ServiceUnreachable.
    """

    def tell() -> None:
        with _connected(app) as connection:
            app.control.broadcast("halt", arguments={"dataset_ids": list(dataset_ids)}, connection=connection)

    _told(app, tell)


@contextlib.contextmanager
def _connected(app: Any) -> Iterator[Any]:
    with app.pool.acquire(block=True, timeout=HELD_SECONDS) as connection:
        connection.ensure_connection(**RETRY)
        yield connection


def _told(app: Any, call: Callable[[], Result]) -> Result:
    """The result, or ServiceUnreachable with the broker's place but never its password."""
    try:
        return call()
    except (ImportError, KeyError) as error:
        raise ConfigurationError(BAD_ADDRESS) from error
    except (KombuError, redis.RedisError, OSError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:REASON_CHARACTERS]
        raise ServiceUnreachable(f"the broker at {place(app.conf.broker_url)} failed: {reason}") from error
