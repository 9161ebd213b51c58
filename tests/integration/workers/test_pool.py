"""The asyncio pool in real worker processes: bounds, endings, and Celery's ordinary life."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from eagle3gen.records import Queue
from workers import queues
from workers.app import TASK, connect

SLEEPY = Path(__file__).with_name("sleepy.py")


class Bench:
    """Starts workers and looks at what they told."""

    def __init__(self, url: str, log: Path) -> None:
        self.url, self.log = url, log
        self.app = connect(url)
        self.redis = redis.Redis.from_url(url, decode_responses=True)
        self.workers: list[subprocess.Popen] = []

    def start(self, concurrency: int, *words: str, wait: bool = True) -> subprocess.Popen:
        command = [sys.executable, str(SLEEPY), self.url, str(concurrency), *words]
        with self.log.open("ab") as log:
            worker = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.workers.append(worker)
        if wait:
            self.until(lambda: "sleepy@test ready" in self.log.read_text("utf-8"))
        return worker

    def ring(self, *numbers: int) -> None:
        queues.ring(self.app, Queue.SHORT, numbers)

    def told(self, name: str) -> list[str]:
        return self.redis.lrange(name, 0, -1)

    def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.log.read_text("utf-8")[-3000:]
            time.sleep(0.03)


@pytest.fixture
def bench(redis_url: str, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(redis_url, tmp_path / "worker.log")
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait(10)
    made.redis.close()


def test_everything_runs_and_never_more_than_the_slots(bench) -> None:
    bench.start(25)
    bench.ring(*[20] * 300)
    bench.until(lambda: len(bench.told("slept")) == 300)
    assert max(map(int, bench.told("in_flight"))) == 25
    assert len(set(bench.told("ids"))) == 300


def test_a_message_is_taken_when_it_can_start_and_the_others_wait_in_the_broker(bench) -> None:
    bench.start(10)
    bench.ring(*[60_000] * 100)
    bench.until(lambda: len(bench.told("in_flight")) == 10)
    time.sleep(0.5)
    assert queues.depth(bench.app, Queue.SHORT) >= 85


def test_kill_9_loses_no_message_that_had_not_started(bench) -> None:
    worker = bench.start(10)
    bench.ring(*[60_000] * 100)
    bench.until(lambda: len(bench.told("in_flight")) == 10)
    worker.kill()
    worker.wait()
    assert queues.depth(bench.app, Queue.SHORT) >= 85


def test_sigterm_finishes_what_is_in_flight_and_starts_nothing(bench) -> None:
    worker = bench.start(10)
    bench.ring(*[1500] * 30)
    bench.until(lambda: len(bench.told("in_flight")) == 10)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    assert len(bench.told("slept")) == 10
    assert bench.told("cancelled") == []
    assert bench.told("log") == ["opened", "closed"]


def test_sigquit_cancels_what_is_in_flight_and_lets_it_settle(bench) -> None:
    worker = bench.start(10)
    bench.ring(*[60_000] * 10)
    bench.until(lambda: len(bench.told("in_flight")) == 10)
    began = time.monotonic()
    worker.send_signal(signal.SIGQUIT)
    worker.wait(20)
    assert time.monotonic() - began < 8
    assert len(bench.told("cancelled")) == 10
    assert bench.told("log") == ["opened", "closed"]


def test_sigquit_cuts_a_warm_shutdown_short(bench) -> None:
    worker = bench.start(5)
    bench.ring(*[60_000] * 5)
    bench.until(lambda: len(bench.told("in_flight")) == 5)
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.7)
    assert worker.poll() is None
    worker.send_signal(signal.SIGQUIT)
    worker.wait(20)
    assert len(bench.told("cancelled")) == 5


def test_the_remote_shutdown_is_a_warm_one(bench) -> None:
    worker = bench.start(5)
    bench.ring(*[1500] * 5)
    bench.until(lambda: len(bench.told("in_flight")) == 5)
    bench.app.control.shutdown()
    assert worker.wait(20) == 0
    assert len(bench.told("slept")) == 5


def test_a_body_that_raises_fails_its_task_and_nothing_else(bench) -> None:
    bench.start(2)
    bench.ring(-1, -1, -1, 10, 10)
    bench.until(lambda: len(bench.told("slept")) == 2)
    assert bench.log.read_text("utf-8").count("a negative number") == 3
    assert "Traceback" not in bench.log.read_text("utf-8")


def test_a_revoked_task_is_cancelled(bench) -> None:
    bench.start(2)
    result = bench.app.send_task(TASK, args=[60_000], queue="short")
    bench.until(lambda: len(bench.told("in_flight")) == 1)
    bench.app.control.revoke(result.id, terminate=True)
    bench.until(lambda: bench.told("cancelled") == ["60000"])
    bench.ring(5)
    bench.until(lambda: bench.told("slept") == ["5"])


def test_a_time_limit_cancels_the_body_and_frees_the_slot(bench) -> None:
    bench.start(1, "limit")
    bench.ring(60_000, 5)
    bench.until(lambda: bench.told("slept") == ["5"])
    assert bench.told("cancelled") == ["60000"]


def test_inspect_answers_while_the_worker_is_full(bench) -> None:
    worker = bench.start(20)
    bench.ring(*[60_000] * 40)
    bench.until(lambda: len(bench.told("in_flight")) == 20)
    inspect = bench.app.control.inspect(timeout=3)
    assert inspect.ping() == {"sleepy@test": {"ok": "pong"}}
    pool = inspect.stats()["sleepy@test"]["pool"]
    assert (pool["in-flight"], pool["max-concurrency"], pool["processes"]) == (20, 20, [worker.pid])
    active = inspect.active()["sleepy@test"]
    assert len(active) == 20
    assert {task["args"][0] for task in active} == {60_000}


@pytest.mark.parametrize("switched_on", ["at the start", "while running"])
def test_task_events_tell_the_whole_story(bench, switched_on) -> None:
    """Flower switches events on while a worker runs."""
    bench.start(5, *(["events"] if switched_on == "at the start" else []))
    seen: dict[str, int] = {}

    def count(event) -> None:
        seen[event["type"]] = seen.get(event["type"], 0) + 1

    with bench.app.connection() as connection:
        receiver = bench.app.events.Receiver(connection, handlers={"*": count})
        with receiver.consumer_context() as (listening, _, _):
            # Events are a broadcast, and subscribing takes a moment: who does not listen yet never hears them.
            with contextlib.suppress(TimeoutError):
                listening.drain_events(timeout=0.5)
            if switched_on == "while running":
                bench.app.control.enable_events(reply=True, timeout=3)
            bench.ring(5, 5, -1)
            end = time.monotonic() + 15
            while seen.get("task-succeeded", 0) + seen.get("task-failed", 0) < 3 and time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    listening.drain_events(timeout=1)
    assert seen["task-received"] == seen["task-started"] == 3
    assert (seen["task-succeeded"], seen["task-failed"]) == (2, 1)


def test_a_worker_that_may_not_start_says_why_in_one_line(bench) -> None:
    worker = bench.start(5, "refuse", wait=False)
    assert worker.wait(20) == 3
    log = bench.log.read_text("utf-8")
    assert "not like this" in log
    assert "Traceback" not in log


def test_cut_connections_and_a_full_stop_of_the_broker_lose_no_running_body(bench) -> None:
    """Every connection is killed ten times in a row; bodies go on and the worker takes messages again."""
    bench.start(10)
    bench.ring(*[100] * 200)
    for _ in range(10):
        for kind in ("normal", "pubsub"):
            bench.redis.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
        time.sleep(0.2)
    bench.until(lambda: len(bench.told("slept")) >= 195 and queues.depth(bench.app, Queue.SHORT) == 0, 40)
    assert bench.told("cancelled") == []
    bench.ring(7)
    bench.until(lambda: "7" in bench.told("slept"))


def test_the_worker_ends_when_it_is_told_although_the_broker_is_gone(bench, tmp_path) -> None:
    """SIGTERM works without a broker."""
    worker = bench.start(5)
    os.kill(worker.pid, signal.SIGTERM)
    assert worker.wait(20) == 0
