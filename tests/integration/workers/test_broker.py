"""The broker goes, comes back, hangs, or falls silent; bodies go on and the worker takes messages again."""

import signal
import time

import pytest

from eagle3gen.errors import ServiceUnreachable


def test_cut_connections_lose_no_running_body(bench) -> None:
    """Every connection is killed ten times in a row while the worker is busy."""
    bench.start(10)
    bench.ring(*[100] * 200)
    for _ in range(10):
        for kind in ("normal", "pubsub"):
            bench.redis.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        time.sleep(0.2)
    bench.until(lambda: len(bench.told("slept")) >= 190 and bench.depth() == 0, 40)
    assert bench.told("cancelled") == []
    bench.ring(7)
    bench.until(lambda: "7" in bench.told("slept"))
    assert bench.inspect.ping() == {"sleepy@test": {"ok": "pong"}}


def test_a_restart_of_the_broker_while_busy(own_bench, broker) -> None:
    """Nobody starts the worker again: it reconnects by itself, keeps its bound, and answers remote control."""
    worker = own_bench.start(10)
    own_bench.ring(*[400] * 60)
    own_bench.until(lambda: len(own_bench.told("slept")) >= 10)
    broker.stop()
    time.sleep(1)
    broker.start()
    own_bench.until(lambda: own_bench.depth() == 0, 40)
    own_bench.ring(7)
    own_bench.until(lambda: "7" in own_bench.told("slept"), 40)
    assert worker.poll() is None
    own_bench.until(lambda: len(own_bench.told("slept")) >= 58)
    assert len(set(own_bench.told("ids"))) == len(own_bench.told("ids"))
    assert own_bench.told("cancelled") == []
    assert max(map(int, own_bench.told("in_flight"))) <= 10
    assert own_bench.inspect.ping() == {"sleepy@test": {"ok": "pong"}}


def test_a_worker_ends_when_it_is_told_although_the_broker_is_gone(own_bench, broker) -> None:
    """SIGTERM needs no broker."""
    worker = own_bench.start(5)
    broker.stop()
    own_bench.until(lambda: own_bench.logged("Trying again"))
    worker.send_signal(signal.SIGTERM)
    worker.wait(10)


def test_a_worker_may_be_started_before_its_broker(own_bench, broker) -> None:
    """It waits and takes up work when the broker comes."""
    broker.stop()
    worker = own_bench.start(2, wait=False)
    own_bench.until(lambda: own_bench.logged("Trying again"))
    broker.start()
    own_bench.ring(5)
    own_bench.until(lambda: own_bench.told("slept") == ["5"])
    assert worker.poll() is None


def test_a_deaf_consumer_is_connected_anew(bench) -> None:
    """The watchdog sees free slots, messages and silence, and makes Celery reconnect; open bodies go on."""
    bench.start(5, "watched")
    bench.ring(2500, -4)
    bench.until(lambda: bench.told("slept") == ["-4"])
    bench.ring(*[5] * 20)
    bench.until(lambda: len(bench.told("slept")) >= 21)
    bench.until(lambda: "2500" in bench.told("slept"))
    assert bench.logged("worker.deaf") == 1
    assert bench.told("cancelled") == []


def test_a_producer_survives_a_restart_of_the_broker(own_bench, broker) -> None:
    """Held connections are stale after it; the next ring opens new ones."""
    own_bench.ring(1, 2)
    broker.stop()
    with pytest.raises(ServiceUnreachable):
        own_bench.ring(3)
    with pytest.raises(ServiceUnreachable):
        own_bench.depth()
    broker.start()
    own_bench.ring(4)
    assert own_bench.depth() == 3


def test_a_producer_does_not_hang_on_a_broker_that_hangs(own_bench, broker) -> None:
    """Frozen, not gone: it accepts connections and never answers."""
    broker.freeze()
    began = time.monotonic()
    with pytest.raises(ServiceUnreachable):
        own_bench.depth()
    assert time.monotonic() - began < 20
    broker.thaw()
