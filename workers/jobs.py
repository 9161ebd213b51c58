"""One message on its way through the pool, and the pool's load."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from billiard.einfo import ExceptionInfo
from celery.exceptions import SoftTimeLimitExceeded, Terminated


@dataclass(eq=False)
class Job:
    """One message on its way through the pool. Celery keeps a weak reference to it, to terminate it."""

    cancel: Callable[["Job"], None]
    name: str
    id: str
    args: list[Any]
    kwargs: dict[str, Any]
    on_accepted: Callable[[int, float], None]
    on_done: Callable[[tuple[int, Any, float]], None]
    on_error: Callable[[Any], None]
    on_timeout: Callable[[bool, float], None]
    soft_limit: float | None
    hard_limit: float | None
    task: asyncio.Task[Callable[[], None]] | None = None
    report: Callable[[], None] = field(default=lambda: None)

    def terminate(self, _signal: Any = None) -> None:
        """Cancel the body; it settles what it has begun. Called by revoke(terminate=True)."""
        self.cancel(self)


@dataclass(slots=True)
class Load:
    """What the pool has on its hands; read from any thread."""

    concurrency: int
    in_flight: int = 0
    started: int = 0


def error_info(error: BaseException) -> Any:
    """An exception as Celery's callbacks want it: with a traceback, even if it was never raised."""
    if error.__traceback__ is None:
        try:
            raise error
        except type(error):
            return ExceptionInfo()
    return ExceptionInfo((type(error), error, error.__traceback__))


def terminated(job: Job) -> None:
    """Tell Celery that the body was cancelled, or will never begin; on the hub thread."""
    job.on_error(error_info(Terminated("cancelled")))


def timed_out(job: Job, limit: float) -> None:
    """Tell Celery that a limit has passed; on the hub thread."""
    soft = job.soft_limit is not None and limit == job.soft_limit
    job.on_timeout(soft, limit)
    if soft:
        job.on_error(error_info(SoftTimeLimitExceeded(limit)))
