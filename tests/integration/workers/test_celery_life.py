"""Celery's ordinary life goes on with this pool: inspect, events, remote control, its own command line."""

import contextlib
import os
import subprocess
import sys
import time

import pytest


def test_inspect_answers_while_the_worker_is_full(bench) -> None:
    """ping, stats and active; `active` names the prompt."""
    worker = bench.start(20)
    bench.ring(*[60_000] * 40)
    bench.in_flight(20)
    assert bench.inspect.ping() == {"sleepy@test": {"ok": "pong"}}
    pool = bench.inspect.stats()["sleepy@test"]["pool"]
    assert (pool["in-flight"], pool["max-concurrency"], pool["processes"]) == (20, 20, [worker.pid])
    active = bench.inspect.active()["sleepy@test"]
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
                bench.app.control.enable_events(reply=True, timeout=5, destination=["sleepy@test"])
            bench.ring(5, 5, -1)
            end = time.monotonic() + 15
            while seen.get("task-succeeded", 0) + seen.get("task-failed", 0) < 3 and time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    listening.drain_events(timeout=1)
    assert seen["task-received"] == seen["task-started"] == 3
    assert (seen["task-succeeded"], seen["task-failed"]) == (2, 1)


def test_halt_reaches_the_calls_of_every_named_dataset(bench) -> None:
    """The broadcast of `stop` runs on the loop of the calls, and the log tells what it found."""
    from workers import queues

    bench.start(2)
    queues.broadcast_halt(bench.app, [3, 8])
    bench.until(lambda: bench.told("halted") == ["3", "8"])
    bench.until(lambda: bench.logged("worker.halted"))


def test_celerys_own_command_line_finds_the_workers(bench) -> None:
    """`celery -A workers.app` takes the broker from REDIS_URL, as our own commands do."""
    bench.start(2)
    bench.ring(5)
    command = [sys.executable, "-m", "celery", "-A", "workers.app", "inspect", "ping", "-d", "sleepy@test"]
    done = subprocess.run(
        command, env=os.environ | {"REDIS_URL": bench.url}, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "pong" in done.stdout


def test_the_log_has_no_line_per_task(bench) -> None:
    """A run has tens of thousands of them."""
    bench.start(5)
    bench.ring(*[1] * 50)
    bench.until(lambda: len(bench.told("slept")) == 50)
    assert len(bench.log.read_text("utf-8").splitlines()) < 20
