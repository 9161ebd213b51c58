"""The Celery application: its settings, and what a worker refuses to start without."""

import resource
import subprocess
import sys

import pytest

from eagle3gen.errors import ConfigurationError
from eagle3gen.records import Queue
from workers import app as module
from workers.app import connect, run_worker


def test_importing_the_application_reads_no_environment() -> None:
    """A value that nothing can parse must hurt only who needs it."""
    code = "import workers.app; print(workers.app.app.main)"
    environment = {"REDIS_URL": "redis://host:port/0", "EAGLE3GEN_MAINTENANCE_SECONDS": "often"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "eagle3gen\n", done.stderr


def test_the_application_of_a_worker_takes_its_broker_from_the_environment() -> None:
    """Lazily, so that Flower and Celery's own commands find it too."""
    code = "import workers.app as w; c = w.app.conf; print(c.broker_url, c.broker_transport_options['ack_emulation'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"REDIS_URL": "redis://h:1/2"}, capture_output=True, text=True, check=False
    )
    assert done.stdout == "redis://h:1/2 False\n", done.stderr


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("task_acks_late", False),
        ("worker_disable_prefetch", True),
        ("task_ignore_result", True),
        ("result_backend", None),
        ("worker_send_task_events", False),
        ("worker_cancel_long_running_tasks_on_connection_loss", False),
        ("broker_connection_max_retries", None),
        ("accept_content", ["json"]),
    ],
)
def test_what_the_design_rests_on_is_set(setting, value) -> None:
    assert connect("redis://host").conf[setting] == value


def test_there_are_two_queues_and_no_others() -> None:
    assert {q.name for q in connect("redis://host").conf.task_queues} == {"short", "long"}


@pytest.mark.parametrize("missing", ["REDIS_URL", "DATABASE_URL"])
def test_a_worker_says_which_service_it_was_not_told_of(monkeypatch, missing) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:9/0")
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:9/x")
    monkeypatch.delenv(missing)
    with pytest.raises(ConfigurationError, match=missing):
        run_worker(Queue.SHORT, 1)


class Limits:
    """The process's limits of open files, not really changed."""

    def __init__(self, monkeypatch, soft: int, hard: int) -> None:
        self.set: list[tuple[int, int]] = []
        monkeypatch.setattr(module.resource, "getrlimit", lambda _: (soft, hard))
        monkeypatch.setattr(module.resource, "setrlimit", lambda _, limits: self.set.append(limits))


def test_the_soft_limit_of_open_files_is_raised_as_far_as_needed(monkeypatch) -> None:
    limits = Limits(monkeypatch, 1024, 20_000)
    module._allow_files(2256)
    assert limits.set == [(2256, 20_000)]


def test_a_limit_that_is_high_enough_is_left_alone(monkeypatch) -> None:
    limits = Limits(monkeypatch, 4096, 4096)
    module._allow_files(2256)
    limits_without_end = Limits(monkeypatch, resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    module._allow_files(2256)
    assert limits.set == limits_without_end.set == []


def test_a_hard_limit_that_is_too_low_is_refused_before_the_start(monkeypatch) -> None:
    Limits(monkeypatch, 1024, 2048)
    with pytest.raises(ConfigurationError, match=r"may open 2,048 files but needs 2,256; raise the limit"):
        module._allow_files(2256)
