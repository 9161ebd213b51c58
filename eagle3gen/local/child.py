"""A child process under a keeper, and how often it may be started again."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from eagle3gen.errors import ServiceUnreachable

RESTARTS_MAX = 5
RESTARTS_SECONDS = 60.0
LOG_BYTES_MAX = 10 * 2**20
POLL_SECONDS = 0.02


@dataclass(slots=True, kw_only=True)
class Child:
    """One program that a run keeps. `start` may be called again after it has ended."""

    name: str
    argv: Sequence[str]
    log: Path
    lock_fd: int
    """Inherited by the keeper, so that the state directory stays locked until the child has ended."""
    environment: Mapping[str, str] = field(default_factory=dict)
    polite: signal.Signals = signal.SIGTERM
    """What ends the child when the run is gone."""
    grace: float = 10.0
    unroot: bool = False
    _process: "subprocess.Popen[bytes] | None" = None
    _lifeline: int = -1
    _starts: deque[float] = field(default_factory=deque)

    def start(self) -> None:
        """Start the program, its output appended to the log."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_suffix(".log.old"))
        read_end, self._lifeline = os.pipe()
        order = {
            "lifeline": read_end,
            "argv": list(self.argv),
            "polite": int(self.polite),
            "grace": self.grace,
            "unroot": self.unroot,
        }
        try:
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603  our own keeper
                    [sys.executable, "-m", "eagle3gen.local.keeper", json.dumps(order)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                    pass_fds=(read_end, self.lock_fd),
                    start_new_session=True,
                )
        finally:
            os.close(read_end)

    @property
    def pid(self) -> int | None:
        """The keeper's process id; signals sent to it reach the child."""
        return None if self._process is None else self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it lives."""
        return None if self._process is None else self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal through the keeper."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    async def ended(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, at most so many seconds (None: as long as it takes)."""
        until = None if seconds is None else time.monotonic() + seconds
        while self._process is not None and self._process.poll() is None:
            if until is not None and time.monotonic() > until:
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def end(self) -> None:
        """Let go of the lifeline, and wait while the keeper ends the child: politely, then by force."""
        self._let_go()
        await self.ended(self.grace + 5.0)

    def _let_go(self) -> None:
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def restart(self) -> None:
        """Start it again after it has ended by itself. Raises ServiceUnreachable when that happens too often."""
        self._let_go()
        now = time.monotonic()
        while self._starts and now - self._starts[0] > RESTARTS_SECONDS:
            self._starts.popleft()
        if len(self._starts) >= RESTARTS_MAX:
            raise ServiceUnreachable(f"{self.name} keeps failing ({self.last_line()}); its log is {self.log}")
        self._starts.append(now)
        self.start()

    def last_line(self) -> str:
        """The last words of the log, for a message."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 2000))
                lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        except OSError:
            return "no log"
        telling = [line for line in lines if any(word in line for word in ("FATAL", "rror", "cannot", "# "))]
        return (telling or lines or ["no message"])[-1][:300]
