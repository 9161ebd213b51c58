"""A Celery pool that runs coroutines: thousands of open calls in one process.

The bodies run on one uvloop loop in a background thread. Every Celery callback (accepted, succeeded, failed, timed
out, and with them acks and events) runs on Celery's own hub thread: finished jobs go into a deque, and the hub is
woken once for all that are there. Celery has no such pool of its own (5.7); it is loaded by `--pool=custom`.
"""

import asyncio
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import uvloop
from celery.concurrency.base import BasePool
from celery.utils.saferepr import saferepr
from celery.worker import state as worker_state
from kombu.utils.imports import symbol_by_name

from eagle3gen.errors import Eagle3genError
from eagle3gen.telemetry import logger
from workers.jobs import Job, Load, error_info, terminated, timed_out

log = logger(__name__)

COLD_SECONDS = 10.0
"""A cold shutdown waits so long for cancelled bodies to settle."""
LEAVE_SECONDS = 60.0
"""The lifespan may take so long to close: longer than the ledger's own patience."""
POLL_SECONDS = 0.05
SWEEP_SECONDS = 0.5
LIFESPAN = "workers.runtime:lifespan"

current_task_id: contextvars.ContextVar[str | None] = contextvars.ContextVar("current_task_id", default=None)
"""The Celery task id of the running body; `task.request` is thread-local and would be wrong on a shared loop."""


class AsyncPool(BasePool):  # type: ignore[misc]  # Celery ships no types
    """Runs `async def` tasks, at most `limit` at a time."""

    signal_safe = False
    task_join_will_block = False

    limit: int

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.load = Load(concurrency=int(self.limit))
        self._active: set[Job] = set()
        self._waiting: deque[Job] = deque()
        self._finished: deque[Job] = deque()
        self._hub: Any = None
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name="calls", daemon=True)
        self._lifespan: AbstractAsyncContextManager[None] | None = None
        self._ended = False

    # Life, on the hub thread.

    def on_start(self) -> None:
        self._thread.start()
        lifespan = symbol_by_name(getattr(self.app, "lifespan", LIFESPAN))(self.app, self)
        entering = self.run_soon(lifespan.__aenter__())
        try:
            # In slices: who is told to end must not wait for a slow start.
            while not wait_for([entering], POLL_SECONDS).done:
                worker_state.maybe_shutdown()
            entering.result()
        except Eagle3genError as error:
            log.error("worker.refused", reason=str(error))  # noqa: TRY400  a sentence for the operator, no traceback
            self._stop_loop()
            raise SystemExit(int(error.exit_code)) from None
        self._lifespan = lifespan

    def register_with_event_loop(self, loop: Any) -> None:
        """Called for every new connection to the broker."""
        self._hub = loop
        # A wake-up can be lost when another callback of the hub raises in the same turn.
        loop.call_repeatedly(SWEEP_SECONDS, self._report_finished)

    def on_stop(self) -> None:
        """Warm: wait for the open bodies. Cold (the second signal may come while this waits): cancel them."""
        self._stop_starting()
        while self._active and worker_state.should_terminate in {None, False}:
            self._drain_while_stopping()
        self._cancel_all()
        self._leave()

    def on_terminate(self) -> None:
        self._stop_starting()
        self._cancel_all()
        self._leave()

    def _stop_starting(self) -> None:
        self._waiting.clear()
        # This may run in a signal handler that has interrupted the hub with its lock held: never wait for the hub.
        self._hub = None

    def _cancel_all(self) -> None:
        for job in tuple(self._active):
            self.cancel(job)
        until = time.monotonic() + COLD_SECONDS
        while self._active and time.monotonic() < until:
            self._drain_while_stopping()
        if self._active:
            log.error("pool.abandoned", bodies=len(self._active))

    def _drain_while_stopping(self) -> None:
        # The hub does not turn any more: callbacks, and the acks they queue on it, are run from here.
        time.sleep(POLL_SECONDS)
        self._report_finished()

    def _leave(self) -> None:
        if self._ended:
            return
        self._ended = True
        if self._lifespan is not None:
            try:
                self.run_soon(self._lifespan.__aexit__(None, None, None)).result(LEAVE_SECONDS)
            except Exception as error:  # noqa: BLE001  the process ends either way; say why it was not clean
                log.warning("worker.left_uncleanly", reason=str(error), kind=type(error).__name__)
        self._stop_loop()

    def _stop_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(COLD_SECONDS)

    # Jobs in, on the hub thread.

    def on_apply(
        self,
        _target: Any,
        args: tuple[Any, ...],
        _kwargs: Any = None,
        *,
        accept_callback: Callable[[int, float], None],
        callback: Callable[[tuple[int, Any, float]], None],
        error_callback: Callable[[Any], None],
        timeout_callback: Callable[[bool, float], None],
        soft_timeout: float | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> Job:
        """Start the body, or keep it until a slot is free; it is acknowledged when it starts.

        `_target` would trace an ordinary function and is not used: `args` names the task and holds its message.
        """
        name, task_id, request = args[:3]
        job = Job(
            cancel=self.cancel,
            name=name,
            id=task_id,
            args=request["args"],
            kwargs=request["kwargs"],
            on_accepted=accept_callback,
            on_done=callback,
            on_error=error_callback,
            on_timeout=timeout_callback,
            soft_limit=soft_timeout or self.options.get("soft_timeout"),
            hard_limit=timeout or self.options.get("timeout"),
        )
        if len(self._active) < self.load.concurrency:
            self._begin(job)
        else:
            self._waiting.append(job)
        return job

    def _begin(self, job: Job) -> None:
        self._active.add(job)
        self.load.in_flight = len(self._active)
        self.load.started += 1
        job.on_accepted(os.getpid(), time.monotonic())
        self._loop.call_soon_threadsafe(self._start_body, job)

    # Bodies, on the loop thread.

    def _run_loop(self) -> None:
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # Asyncio lets these out of the loop, and with it would end every other open call.
                log.exception("pool.exit_refused")
            else:
                return

    def _start_body(self, job: Job) -> None:
        job.task = self._loop.create_task(self._body(job))
        job.task.add_done_callback(partial(self._body_ended, job))

    async def _body(self, job: Job) -> Callable[[], None]:
        """Run the body; how to tell Celery what became of it."""
        current_task_id.set(job.id)
        started = time.monotonic()
        limit = min((seconds for seconds in (job.soft_limit, job.hard_limit) if seconds), default=None)
        try:
            async with asyncio.timeout(limit) as deadline:
                value = await self.app.tasks[job.name].run(*job.args, **job.kwargs)
            return partial(job.on_done, (0, saferepr(value), time.monotonic() - started))
        except TimeoutError as error:
            if deadline.expired():
                return partial(timed_out, job, limit or 0.0)
            return self._failed(job, error, started)
        except Exception as error:  # noqa: BLE001  whatever a body raises is a failed task, never a dead pool
            return self._failed(job, error, started)
        except (SystemExit, KeyboardInterrupt) as error:
            return self._failed(job, RuntimeError(f"the task raised {type(error).__name__}"), started)

    def _failed(self, job: Job, error: Exception, started: float) -> Callable[[], None]:
        log.error("task.failed", task=job.name, id=job.id, reason=str(error), kind=type(error).__name__)
        return partial(job.on_done, (1, error_info(error), time.monotonic() - started))

    def _body_ended(self, job: Job, task: "asyncio.Task[Callable[[], None]]") -> None:
        # Not in the body: one that is cancelled before its first step never runs, and its slot would stay taken.
        if task.cancelled():
            self._finish(job, partial(terminated, job))
        elif error := task.exception():
            # Such as an exception that cannot be printed: the slot counts more than the story.
            log.error("pool.unreported", id=job.id, kind=type(error).__name__)
            self._finish(job, partial(terminated, job))
        else:
            self._finish(job, task.result())

    def _finish(self, job: Job, report: Callable[[], None]) -> None:
        job.report = report
        self._finished.append(job)
        hub = self._hub
        if len(self._finished) == 1 and hub is not None:
            hub.call_soon(self._report_finished)

    # Results out, on the hub thread.

    def _report_finished(self) -> None:
        while self._finished:
            job = self._finished.popleft()
            self._active.discard(job)
            try:
                job.report()
            except Exception:
                log.exception("pool.report_failed", id=job.id)
        self.load.in_flight = len(self._active)
        while self._waiting and len(self._active) < self.load.concurrency and self._state == self.RUN:
            self._begin(self._waiting.popleft())

    # For others.

    def cancel(self, job: Job) -> None:
        """Cancel a body, or give up a job that has not begun; on the hub thread."""
        if job in self._waiting:
            self._waiting.remove(job)
            # Celery counts it against the slots until it hears of its end.
            self._finish(job, partial(terminated, job))
        else:
            self._loop.call_soon_threadsafe(lambda: job.task and job.task.cancel())

    def run_soon(self, coroutine: Coroutine[Any, Any, Any]) -> "Future[Any]":
        """Run a coroutine on the loop of the bodies; any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def reconnect(self) -> None:
        """Make Celery drop its connection to the broker and build a new one; any thread."""
        hub = self._hub
        if hub is not None:
            hub.call_soon(_lose_connection)

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """Nothing: a job has no process. Celery also calls `Job.terminate`, which does it."""

    def grow(self, n: int = 1) -> None:
        self.limit = self.load.concurrency = self.load.concurrency + n

    def shrink(self, n: int = 1) -> None:
        self.limit = self.load.concurrency = max(1, self.load.concurrency - n)

    def _get_info(self) -> dict[str, Any]:
        info: dict[str, Any] = super()._get_info()
        info |= {
            "max-concurrency": self.load.concurrency,
            "in-flight": len(self._active),
            "waiting": len(self._waiting),
            "started": self.load.started,
            "processes": [os.getpid()],
        }
        return info


def _lose_connection() -> None:
    """On the hub, an error of the connection's kind is what makes the consumer start anew."""
    raise ConnectionResetError("nothing was delivered although the queue is not empty")
