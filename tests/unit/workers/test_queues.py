"""Ringing, counting and purging, on fakeredis; what is published is Celery's own message."""

import json
import threading
from collections.abc import Iterator

import fakeredis
import pytest
import redis

from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from eagle3gen.records import Queue
from workers import queues
from workers.app import TASK, connect


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    server = fakeredis.TcpFakeServer(("127.0.0.1", 0), server_type="redis")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"redis://127.0.0.1:{server.server_address[1]}/0"
    server.shutdown()
    server.server_close()


@pytest.fixture
def app(broker: str):
    with redis.Redis.from_url(broker) as client:
        client.flushall()
    return connect(broker)


def test_a_ring_publishes_the_prompt_id_and_nothing_else(app, broker) -> None:
    queues.ring(app, Queue.SHORT, [41, 42])
    with redis.Redis.from_url(broker) as client:
        messages = [json.loads(m) for m in client.lrange("short", 0, -1)]
    assert sorted(json.loads(_body(m))[0][0] for m in messages) == [41, 42]
    assert {m["headers"]["task"] for m in messages} == {TASK}
    assert len({m["headers"]["id"] for m in messages}) == 2


def _body(message: dict) -> str:
    import base64

    return base64.b64decode(message["body"]).decode()


def test_depth_counts_each_queue_on_its_own(app) -> None:
    queues.ring(app, Queue.SHORT, range(7))
    queues.ring(app, Queue.LONG, range(3))
    assert (queues.depth(app, Queue.SHORT), queues.depth(app, Queue.LONG)) == (7, 3)


def test_a_purge_says_how_many_it_threw_away(app) -> None:
    queues.ring(app, Queue.SHORT, range(5))
    queues.ring(app, Queue.LONG, range(2))
    assert queues.purge(app, list(Queue)) == 7
    assert queues.depth(app, Queue.SHORT) == queues.depth(app, Queue.LONG) == 0


def test_ringing_for_nobody_publishes_nothing(app) -> None:
    queues.ring(app, Queue.SHORT, [])
    assert queues.depth(app, Queue.SHORT) == 0


@pytest.mark.parametrize("call", [lambda a: queues.depth(a, Queue.SHORT), lambda a: queues.ring(a, Queue.SHORT, [1])])
def test_a_broker_that_is_away_is_named_without_its_password(call) -> None:
    with pytest.raises(ServiceUnreachable, match=r"the broker at 127\.0\.0\.1:9 failed") as refused:
        call(connect("redis://:hunter2@127.0.0.1:9/0"))
    assert "hunter2" not in str(refused.value)


def test_an_address_that_is_none_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="REDIS_URL"):
        queues.depth(connect("nonsense://x"), Queue.SHORT)
