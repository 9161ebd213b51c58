"""The Celery application and its settings.

The ledger is the truth and a message is a doorbell, so messages are acknowledged at once and the broker keeps no
record of what is in flight: a lost message is rung again, a doubled one finds its prompt taken.
"""

import contextlib
import os
import resource
import socket
import warnings
from typing import Any

from celery import Celery
from celery.exceptions import CPendingDeprecationWarning, SecurityWarning
from kombu.entity import Exchange
from kombu.entity import Queue as BrokerQueue

from eagle3gen import telemetry
from eagle3gen.config import Settings
from eagle3gen.errors import ConfigurationError
from eagle3gen.records import Queue
from workers.address import broker_settings

POOL = "workers.pool:AsyncPool"
TASK = "eagle3gen.generate"
BAD_ADDRESS = "REDIS_URL is not an address such as redis://host:6379/0"
FILES_BESIDE_CALLS = 256
"""Descriptors a worker needs beside one socket per open call: database, broker, libraries, logs."""

TRANSPORT_OPTIONS = {
    "ack_emulation": False,
    "priority_steps": [0],
    "socket_keepalive": True,
    "socket_timeout": 30,
    "socket_connect_timeout": 10,
    "health_check_interval": 25,
}
"""`ack_emulation` False keeps no record of unacknowledged messages, which doubles the speed."""
PRODUCER_OPTIONS = {**TRANSPORT_OPTIONS, "socket_timeout": 3, "socket_connect_timeout": 3}
"""A command must not hang on a broker that hangs."""

SETTINGS: dict[str, Any] = {
    "task_serializer": "json",
    "accept_content": ["json"],
    "task_queues": [BrokerQueue(q.value, Exchange(q.value), routing_key=q.value) for q in Queue],
    "task_default_queue": Queue.SHORT.value,
    "task_ignore_result": True,
    "result_backend": None,
    "task_acks_late": False,
    "worker_disable_prefetch": True,
    "worker_prefetch_multiplier": 1,
    "worker_disable_rate_limits": True,
    # True would drop calls that are already being paid for.
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "worker_send_task_events": False,
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "imports": ["workers.tasks", "workers.control"],
}


def connect(redis_url: str | None) -> Celery:
    """An application bound to a broker, for producers and tests. Nothing is opened yet. Raises ConfigurationError."""
    made = Celery("eagle3gen", set_as_current=False)
    made.conf.update(SETTINGS | _broker(redis_url, PRODUCER_OPTIONS))
    return made


def _broker(redis_url: str | None, transport: dict[str, Any]) -> dict[str, Any]:
    try:
        return broker_settings(redis_url, transport)
    except ValueError as error:
        raise ConfigurationError(BAD_ADDRESS) from error


app = Celery("eagle3gen")
# Filled when the settings are first needed, so that importing this module reads no environment.
app.add_defaults(lambda: SETTINGS | _broker(Settings().redis_url, TRANSPORT_OPTIONS))


def run_worker(queue: Queue, slots: int, *, name: str | None = None, events: bool = False) -> int:
    """Run a worker in this process until it is told to end; its exit status."""
    settings = Settings()
    if settings.redis_url is None:
        raise ConfigurationError("no broker: set REDIS_URL to the fleet's Redis or Valkey")
    if settings.database_url is None:
        raise ConfigurationError("no database: set DATABASE_URL to the ledger's Postgres")
    telemetry.configure(level=settings.log_level)
    # Celery warns of root for the sake of pickle, and only JSON is accepted here; and of a setting that is set.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    warnings.filterwarnings("ignore", category=CPendingDeprecationWarning)
    _allow_files(slots + FILES_BESIDE_CALLS)
    worker = app.Worker(
        hostname=f"{name or f'{queue.value}-{os.getpid()}'}@{socket.gethostname()}",
        pool_cls=POOL,
        queues=[queue.value],
        concurrency=slots,
        loglevel=settings.log_level,
        task_events=events,
        quiet=True,
        without_mingle=True,
        without_gossip=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _allow_files(needed: int) -> None:
    """Raise the soft limit of open files. Raises ConfigurationError if the hard limit is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ConfigurationError(
                f"this process may open {hard:,} files but needs {needed:,}; raise the limit (ulimit -n) or lower"
                " --concurrency"
            )
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
