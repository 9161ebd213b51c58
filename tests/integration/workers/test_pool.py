"""The asyncio pool in real worker processes: bounds, failures, cancelling, limits."""

import time

from workers.app import TASK


def test_everything_runs_and_never_more_than_the_slots(bench) -> None:
    """1,500 tasks through 50 slots: each once, each under its own id, at most 50 at a time."""
    bench.start(50)
    bench.ring(*[20] * 1500)
    bench.until(lambda: len(bench.told("slept")) == 1500, 30)
    assert max(map(int, bench.told("in_flight"))) == 50
    assert len(set(bench.told("ids"))) == 1500


def test_a_message_is_taken_when_it_can_start_and_the_others_wait_in_the_broker(bench) -> None:
    """A full worker leaves what it cannot start to other workers."""
    bench.start(10)
    bench.ring(*[60_000] * 100)
    bench.in_flight(10)
    time.sleep(0.5)
    assert 85 <= bench.depth() <= 90


def test_a_body_that_raises_fails_its_task_and_nothing_else(bench) -> None:
    """Each failure is one line of the log without a traceback, and the next task runs."""
    bench.start(2)
    bench.ring(-1, -1, -1, 10, 10)
    bench.until(lambda: len(bench.told("slept")) == 2)
    bench.until(lambda: bench.logged("a negative number") == 3)
    assert not bench.logged("Traceback")


def test_a_body_that_exits_ends_neither_the_loop_nor_the_worker(bench) -> None:
    """sys.exit in a body, or in a task a body has left behind, costs nobody else his call."""
    worker = bench.start(2)
    bench.ring(300, -2, -3, -2, 5)
    bench.until(lambda: sorted(bench.told("slept")) == ["-3", "300", "5"])
    assert worker.poll() is None
    assert bench.logged("the task raised SystemExit") == 2


def test_however_a_body_ends_its_slot_comes_back(bench) -> None:
    """Celery counts a task against the slots until it has heard of its end; one silent end would shrink the worker."""
    bench.start(2)
    bench.ring(-7, -8, -8, -2, -1, -6, -7, 5)
    bench.until(lambda: bench.told("slept") == ["5"])
    bench.until(lambda: bench.inspect.reserved() == {"sleepy@test": []})
    assert not bench.logged("pool.report_failed")


def test_the_timeout_of_a_body_itself_is_a_failure_and_not_a_time_limit(bench) -> None:
    """Only the pool's own limit is reported as one."""
    bench.start(1, "limit")
    bench.ring(-6)
    bench.until(lambda: bench.logged("the body's own"))
    assert not bench.logged("time limit")


def test_a_revoked_task_is_cancelled(bench) -> None:
    """revoke(terminate=True) cancels the body; the slot is free again."""
    bench.start(1)
    result = bench.app.send_task(TASK, args=[60_000], queue="short")
    bench.in_flight(1)
    bench.app.control.revoke(result.id, terminate=True)
    bench.until(lambda: bench.told("cancelled") == ["60000"])
    bench.ring(5)
    bench.until(lambda: bench.told("slept") == ["5"])


def test_slots_of_tasks_revoked_at_any_moment_come_back(bench) -> None:
    """Revoked while waiting, before the first step of the body, or later: all slots serve again."""
    bench.start(5)
    for _ in range(10):
        ids = [bench.app.send_task(TASK, args=[60_000], queue="short").id for _ in range(8)]
        bench.app.control.revoke(ids, terminate=True)
    bench.ring(*[400] * 10)
    bench.until(lambda: len(bench.told("slept")) == 10)
    # A body has told of its end a moment before Celery hears of it.
    bench.until(lambda: bench.inspect.active() == {"sleepy@test": []})
    assert bench.inspect.reserved() == {"sleepy@test": []}


def test_a_time_limit_cancels_the_body_and_frees_the_slot(bench) -> None:
    """The hard limit of the worker."""
    bench.start(1, "limit")
    bench.ring(60_000, 5)
    bench.until(lambda: bench.told("slept") == ["5"])
    assert bench.told("cancelled") == ["60000"]
    assert bench.logged("Hard time limit (1.0s) exceeded")


def test_a_soft_time_limit_fails_the_task(bench) -> None:
    """The soft limit comes first and cancels too: a coroutine cannot be interrupted any other way."""
    bench.start(1, "limit", "soft")
    bench.ring(60_000, 5)
    bench.until(lambda: bench.told("slept") == ["5"])
    assert bench.logged("Soft time limit (0.5s) exceeded")
    assert not bench.logged("Hard time limit")


def test_slots_can_be_added_and_taken_away_while_it_runs(bench) -> None:
    """`control pool_grow` and `pool_shrink` move the bound; open bodies go on."""
    bench.start(2)
    bench.ring(*[500] * 14)
    bench.in_flight(2)
    bench.app.control.pool_grow(4)
    bench.in_flight(6)
    bench.app.control.pool_shrink(5)
    bench.until(lambda: len(bench.told("slept")) == 8)
    time.sleep(0.2)
    assert bench.inspect.stats()["sleepy@test"]["pool"]["in-flight"] == 1
    assert bench.told("cancelled") == []
