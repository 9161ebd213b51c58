"""The worker processes of a run."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from eagle3gen.errors import ExitCode, ServiceUnreachable
from eagle3gen.local.child import Child
from eagle3gen.local.services import Services
from eagle3gen.records import Queue

ABORT_SECONDS = 15.0
"""A worker told to cut its calls has so long to write down what it can."""


@dataclass(slots=True)
class Workers:
    """One worker process per queue."""

    children: Mapping[Queue, Child]

    def check(self) -> None:
        """Start again a worker that died. Raises ServiceUnreachable when it keeps dying or refuses to start."""
        for child in self.children.values():
            if child.returncode is None:
                continue
            if child.returncode == ExitCode.UNREACHABLE:
                raise ServiceUnreachable(f"{child.name} refused to start: {child.last_line()} (log: {child.log})")
            child.restart()

    async def drain(self) -> None:
        """Let every worker finish its open calls, and wait for that."""
        for child in self.children.values():
            child.signal(signal.SIGTERM)
        await asyncio.gather(*(child.ended() for child in self.children.values()))

    async def abort(self) -> None:
        """Cut the open calls, and end what does not end by itself."""
        for child in self.children.values():
            child.signal(signal.SIGQUIT)
        ended = await asyncio.gather(*(child.ended(ABORT_SECONDS) for child in self.children.values()))
        for child, done in zip(self.children.values(), ended, strict=True):
            if not done:
                await child.end()


@contextlib.asynccontextmanager
async def start_workers(
    services: Services, concurrency: Mapping[Queue, int], environment: Mapping[str, str]
) -> AsyncIterator[Workers]:
    """Run a worker for each queue until the block ends; then they are ended, by force if need be."""
    children = {
        queue: Child(
            name=f"the {queue.value} worker",
            argv=[
                sys.executable, "-m", "eagle3gen", "worker", "--queue", queue.value, "--concurrency", str(slots),
            ],
            log=services.state_dir.path / f"worker-{queue.value}.log",
            lock_fd=services.state_dir.lock_fd,
            environment=environment,
            # When the run is gone, so is the ledger: nothing can be settled any more.
            polite=signal.SIGKILL,
        )
        for queue, slots in concurrency.items()
    }  # fmt: skip
    try:
        for child in children.values():
            child.start()
        yield Workers(children)
    finally:
        await asyncio.gather(*(child.end() for child in children.values()))
