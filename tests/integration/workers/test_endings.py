"""How a worker starts and ends: told to, killed, refused, with open bodies."""

import os
import signal
import time

import pytest


def test_kill_9_loses_no_message_that_had_not_started(bench) -> None:
    """A killed worker takes what it had in flight along, and nothing else."""
    worker = bench.start(10)
    bench.ring(*[60_000] * 100)
    bench.in_flight(10)
    worker.kill()
    worker.wait()
    assert bench.depth() >= 85


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
def test_a_polite_signal_finishes_what_is_in_flight_and_starts_nothing(bench, told_by) -> None:
    """Ten of thirty were in flight: ten are done, none is cancelled, and the lifespan is closed after them."""
    worker = bench.start(10)
    bench.ring(*[600] * 30)
    bench.in_flight(10)
    worker.send_signal(told_by)
    status = worker.wait(20)
    assert status == 0 or told_by is signal.SIGINT
    assert len(bench.told("slept")) == 10
    assert bench.told("cancelled") == []
    assert bench.told("log") == ["opening", "opened", "closed"]


def test_the_remote_shutdown_is_a_warm_one(bench) -> None:
    """`control shutdown` finishes what is in flight."""
    worker = bench.start(5)
    bench.ring(*[600] * 5)
    bench.in_flight(5)
    bench.app.control.shutdown()
    assert worker.wait(20) == 0
    assert len(bench.told("slept")) == 5


def test_sigquit_cancels_what_is_in_flight_and_lets_it_settle(bench) -> None:
    """Bodies may do their last work after the cancellation; the lifespan is closed after them."""
    worker = bench.start(10)
    bench.ring(*[60_000] * 8, -5, -5)
    bench.in_flight(10)
    began = time.monotonic()
    worker.send_signal(signal.SIGQUIT)
    worker.wait(20)
    assert time.monotonic() - began < 8
    assert len(bench.told("cancelled")) == 10
    assert bench.told("settled") == ["-5", "-5"]
    assert bench.told("log") == ["opening", "opened", "closed"]


def test_sigquit_cuts_a_warm_shutdown_short(bench) -> None:
    """The second, ruder signal counts while the worker waits for its bodies."""
    worker = bench.start(5)
    bench.ring(*[60_000] * 5)
    bench.in_flight(5)
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.4)
    assert worker.poll() is None
    worker.send_signal(signal.SIGQUIT)
    worker.wait(20)
    assert len(bench.told("cancelled")) == 5
    assert bench.told("log")[-1] == "closed"


def test_a_second_ctrl_c_cuts_the_first_one_short(bench) -> None:
    """Ctrl-C once drains, twice aborts."""
    worker = bench.start(5)
    bench.ring(*[60_000] * 5)
    bench.in_flight(5)
    worker.send_signal(signal.SIGINT)
    time.sleep(0.4)
    assert worker.poll() is None
    worker.send_signal(signal.SIGINT)
    worker.wait(20)
    assert len(bench.told("cancelled")) == 5


def test_a_worker_that_may_not_start_says_why_in_one_line(bench) -> None:
    """An error meant for the operator ends the worker with its own exit code and without a traceback."""
    worker = bench.start(5, "refuse", wait=False)
    assert worker.wait(20) == 3
    assert bench.logged("not like this") == 1
    assert not bench.logged("Traceback")


def test_a_bug_in_the_lifespan_ends_the_worker_with_its_traceback(bench) -> None:
    """What is nobody's sentence must not be hidden."""
    worker = bench.start(5, "crash", wait=False)
    assert worker.wait(20) == 1
    assert bench.logged("Traceback")
    assert bench.logged("a bug in the lifespan")


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGQUIT])
def test_a_worker_that_is_still_starting_ends_when_it_is_told(bench, told_by) -> None:
    """A slow start, such as a large tokenizer or a database that is away, is no reason to be killed."""
    worker = bench.start(5, "slow", wait=False)
    bench.until(lambda: bench.told("log") == ["opening"])
    began = time.monotonic()
    os.kill(worker.pid, told_by)
    worker.wait(20)
    assert time.monotonic() - began < 5
    assert not bench.logged("Traceback")
