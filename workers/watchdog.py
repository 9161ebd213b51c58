"""A worker that gets nothing although its queue is full has gone deaf: make it connect again.

Kombu's Redis consumer can stay silent after broker restarts (celery issues 8030, 8091, 10205). The ledger would
ring other workers; this one would sit idle.
"""

import time
from collections.abc import Callable
from typing import Protocol

from eagle3gen.telemetry import logger

log = logger(__name__)

DEAF_SECONDS = 15.0


class Loaded(Protocol):
    """What the watchdog sees of the pool."""

    concurrency: int
    in_flight: int
    started: int


class Watchdog:
    """Remembers when the worker last got something, or could not have taken it."""

    def __init__(
        self,
        load: Loaded,
        reconnect: Callable[[], None],
        *,
        deaf_seconds: float = DEAF_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load, self._reconnect, self._deaf_seconds, self._clock = load, reconnect, deaf_seconds, clock
        self._started = load.started
        self._heard_at = clock()

    @property
    def suspicious(self) -> bool:
        """Whether the queue is worth a look: slots are free and nothing has come for a while."""
        now = self._clock()
        if self._load.started != self._started or self._load.in_flight >= self._load.concurrency:
            self._started, self._heard_at = self._load.started, now
        return now - self._heard_at > self._deaf_seconds

    def look(self, depth: int) -> bool:
        """Judge by the queue's depth; True when the worker was told to connect again."""
        if depth == 0:
            self._heard_at = self._clock()
            return False
        log.warning("worker.deaf", messages=depth, seconds=round(self._clock() - self._heard_at, 1))
        self._heard_at = self._clock()
        self._reconnect()
        return True
