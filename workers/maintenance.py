"""The small loop of every worker: say that it lives, and lead a dispatch pass when it is its turn."""

import asyncio
import time

from eagle3gen.config import Settings
from eagle3gen.errors import ServiceUnreachable
from eagle3gen.flow.dispatch import Bell, Pass, dispatch
from eagle3gen.flow.purse import Purse
from eagle3gen.ledger import sweeping
from eagle3gen.ledger.connect import Ledger
from eagle3gen.ledger.sweeping import WorkerRow
from eagle3gen.ledger.writer import LedgerWriter
from eagle3gen.telemetry import logger
from workers.watchdog import Watchdog

log = logger(__name__)

HUNGRY_SECONDS = 0.1
"""Pause before the next pass while more could be queued at once."""
FORECAST_SECONDS = 1.0
"""Between two forecasts of what is open."""
PURSE_SECONDS = 5.0
"""Between two looks at what the key has left."""
BLOCKED_SECONDS = 0.25
"""The same while prompts wait for room under a cap."""


class Maintenance:
    """Heartbeats and dispatch passes, every `maintenance_seconds` and sooner while the queues are hungry."""

    def __init__(
        self,
        ledger: Ledger,
        writer: LedgerWriter,
        bell: Bell,
        worker: WorkerRow,
        settings: Settings,
        watchdog: Watchdog,
        purse: Purse,
    ) -> None:
        self._ledger, self._writer, self._bell = ledger, writer, bell
        self._worker, self._settings, self._watchdog = worker, settings, watchdog
        self._purse = purse
        self._look: asyncio.Task[None] | None = None
        self._looked_at = -PURSE_SECONDS
        self._task: asyncio.Task[None] | None = None
        self._steady_since: float | None = None

    async def start(self) -> None:
        """Register the worker; its slots count from now on."""
        await self._beat()
        self._task = asyncio.create_task(self._run(), name="maintenance")

    async def close(self) -> None:
        """Leave: nobody waits for this worker's heartbeat any more."""
        running = [task for task in (self._task, self._look) if task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        try:
            async with self._ledger.begin() as conn:
                await sweeping.leave(conn, self._worker.id)
        except ServiceUnreachable as error:
            # Its silence will say the same.
            log.warning("worker.left_without_word", reason=str(error))

    async def _run(self) -> None:
        while True:
            wait = self._settings.maintenance_seconds
            try:
                await self._beat()
                done = await self._pass()
                if done.led:
                    self._look_at_purse()
                if self._watchdog.suspicious:
                    self._watchdog.look(await self._bell.depth(self._worker.queue))
                wait = min(wait, FORECAST_SECONDS) if done.forecasting else wait
                wait = HUNGRY_SECONDS if done.hungry else BLOCKED_SECONDS if done.blocked else wait
            except Exception as error:  # noqa: BLE001  the loop must outlive every outage
                self._steady_since = None
                log.warning("maintenance.failed", reason=str(error).splitlines()[0], kind=type(error).__name__)
            await asyncio.sleep(min(wait, self._settings.maintenance_seconds))

    def _look_at_purse(self) -> None:
        """Beside the passes: the endpoint may take its time, and heartbeats may not."""
        idle = self._look is None or self._look.done()
        if idle and time.monotonic() - self._looked_at >= PURSE_SECONDS:
            self._looked_at = time.monotonic()
            self._look = asyncio.create_task(self._purse_look(), name="purse")

    async def _purse_look(self) -> None:
        try:
            await self._purse.look()
        except Exception as error:  # noqa: BLE001  the next look may succeed
            log.warning("purse.failed", reason=str(error).splitlines()[0], kind=type(error).__name__)

    async def _beat(self) -> None:
        async with self._ledger.begin() as conn:
            await sweeping.heartbeat(conn, self._worker)
        await self._writer.refresh()
        if self._steady_since is None:
            self._steady_since = time.monotonic()

    async def _pass(self) -> Pass:
        timeout = self._settings.worker_timeout_seconds
        # After an outage every heartbeat is old. Only who has seen the database answer for a whole timeout
        # may call another worker dead, or calls that are still open would be paid twice.
        steady = self._steady_since is not None and time.monotonic() - self._steady_since > timeout
        return await dispatch(
            self._ledger,
            self._bell,
            worker_timeout_seconds=timeout if steady else None,
            ring_again_seconds=self._settings.ring_again_seconds,
        )
