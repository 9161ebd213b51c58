"""The broker as the flows see it: the calls of `workers.queues`, off the event loop."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eagle3gen.records import Queue
from workers import queues


@dataclass(frozen=True, slots=True)
class BrokerBell:
    """Rings, counts and purges through one Celery app."""

    app: Any

    async def ring(self, queue: Queue, prompt_ids: Sequence[int]) -> None:
        await asyncio.to_thread(queues.ring, self.app, queue, prompt_ids)

    async def depth(self, queue: Queue) -> int:
        return await asyncio.to_thread(queues.depth, self.app, queue)

    async def purge(self) -> int:
        return await asyncio.to_thread(queues.purge, self.app, list(Queue))

    async def broadcast_halt(self, dataset_ids: Sequence[int]) -> None:
        await asyncio.to_thread(queues.broadcast_halt, self.app, list(dataset_ids))
