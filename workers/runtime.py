"""What a worker process keeps open while it lives: ledger writer, endpoints, tokenizers, maintenance."""

import asyncio
import contextlib
import os
import socket
import uuid
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eagle3gen.config import QUEUE_DEFAULTS, Settings
from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.deadlines import Deadlines, Transport
from eagle3gen.errors import ConfigurationError, Eagle3genError
from eagle3gen.flow import halt
from eagle3gen.flow.generate import Bench, Calls
from eagle3gen.flow.purse import Purse
from eagle3gen.ledger.connect import Ledger, open_ledger
from eagle3gen.ledger.datasets import Dataset, datasets
from eagle3gen.ledger.states import DatasetState
from eagle3gen.ledger.sweeping import WorkerRow
from eagle3gen.ledger.writer import LedgerWriter
from eagle3gen.records import Queue
from eagle3gen.telemetry import logger
from eagle3gen.tokens.loading import Tokenizer, load_tokenizer
from workers.bell import BrokerBell
from workers.maintenance import Maintenance
from workers.pool import AsyncPool
from workers.watchdog import Watchdog

log = logger(__name__)

CLOSE_SECONDS = 30.0
"""How long a leaving worker tries to reach the database with its last settlements."""

_bench: Bench | None = None


def bench() -> Bench:
    """This process's bench. One per process, since Celery tasks are plain functions."""
    if _bench is None:
        raise RuntimeError("tasks run only inside a worker, after its lifespan has begun")
    return _bench


@contextlib.asynccontextmanager
async def lifespan(app: Any, pool: AsyncPool) -> AsyncIterator[None]:
    """Everything between the start of the pool's loop and its end; refuses to start what cannot work.

    Raises ServiceUnreachable without a database, TokenizerRefused when an open dataset's tokenizer fails its probe.
    """
    global _bench  # noqa: PLW0603  Celery gives tasks no place to keep per-process state
    settings = Settings()
    if settings.database_url is None:
        raise ConfigurationError("no database: set DATABASE_URL to the ledger's Postgres")
    queue = Queue(next(iter(app.amqp.queues.consume_from)))
    defaults = QUEUE_DEFAULTS[queue]
    ledger = open_ledger(settings.database_url)
    await ledger.ping()
    worker = WorkerRow(
        id=uuid.uuid4(),
        host=socket.gethostname(),
        pid=os.getpid(),
        queue=queue,
        concurrency=pool.load.concurrency,
    )
    writer = LedgerWriter(ledger, worker.id)
    endpoints = Endpoints(settings, pool.load.concurrency)
    tokenizers = Tokenizers(probe_files=settings.probe_tokenizers)
    async with ledger.begin() as conn:
        await tokenizers.probe(await datasets(conn))
    _bench = Bench(
        books=writer,
        endpoint=endpoints.of,
        tokenizer=tokenizers.of,
        brake=Brake(ledger),
        deadlines=Deadlines(total=defaults.deadline_seconds, no_progress=defaults.no_progress_seconds),
        transport=Transport(settings.transport or defaults.transport),
    )
    writer.on_states = _Canceller(_bench.calls)
    await writer.start()
    watchdog = Watchdog(pool.load, pool.reconnect)
    maintenance = Maintenance(ledger, writer, BrokerBell(app), worker, settings, watchdog, Purse(ledger, endpoints.of))
    await maintenance.start()
    log.info("worker.ready", queue=queue.value, concurrency=pool.load.concurrency, worker_id=str(worker.id))
    try:
        yield
    finally:
        await writer.close(CLOSE_SECONDS)
        await maintenance.close()
        await endpoints.close()
        await ledger.close()
        _bench = None


@dataclass(frozen=True, slots=True)
class _Canceller:
    """Close the calls of datasets that the ledger says are stopped; read with every commit."""

    calls: Calls

    def __call__(self, states: Mapping[int, DatasetState]) -> None:
        for dataset_id, state in states.items():
            if state is DatasetState.STOPPED and (count := self.calls.cancel(dataset_id)):
                log.warning("calls.cancelled", dataset_id=dataset_id, calls=count)


@dataclass(slots=True)
class Endpoints:
    """One client per base URL, with as many connections as the worker has slots."""

    settings: Settings
    concurrency: int
    _open: dict[str, Endpoint] = field(default_factory=dict)

    def of(self, dataset: Dataset) -> Endpoint:
        url = dataset.endpoint_url
        if url not in self._open:
            self._open[url] = Endpoint(url, self.settings.api_key, connections=self.concurrency)
        return self._open[url]

    async def close(self) -> None:
        for endpoint in self._open.values():
            await endpoint.close()


@dataclass(slots=True)
class Tokenizers:
    """Each tokenizer is loaded and probed once, off the loop, and must be the one the dataset was made with."""

    probe_files: bool = True
    _loads: dict[str, asyncio.Task[Tokenizer]] = field(default_factory=dict)

    async def of(self, dataset: Dataset) -> Tokenizer:
        name = dataset.tokenizer
        if name not in self._loads:
            self._loads[name] = asyncio.create_task(asyncio.to_thread(load_tokenizer, name, probe=self.probe_files))
        tokenizer = await asyncio.shield(self._loads[name])
        if tokenizer.sha256 != dataset.tokenizer_sha256:
            raise ConfigurationError(
                f"tokenizer {name} on this machine is not the one dataset {dataset.name} was enqueued with "
                f"(sha256 {tokenizer.sha256[:12]} instead of {dataset.tokenizer_sha256[:12]}); copy that folder here"
            )
        return tokenizer

    async def probe(self, known: Sequence[Dataset]) -> None:
        """Load the tokenizers of all open datasets now: a worker that fails a probe refuses to start."""
        for dataset in known:
            if dataset.state is DatasetState.OPEN:
                await self.of(dataset)


@dataclass(slots=True)
class Brake:
    """Pauses datasets once, however many calls ask for it at the same time."""

    ledger: Ledger
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def pause(self, dataset: Dataset, reason: str) -> None:
        await self._pause(halt.pause(self.ledger, [dataset.name], reason))

    async def pause_key(self, endpoint_url: str, reason: str) -> None:
        await self._pause(halt.pause_key(self.ledger, endpoint_url, reason))

    async def _pause(self, pausing: Awaitable[None]) -> None:
        async with self._lock:
            try:
                await pausing
            except Eagle3genError as error:
                # The next answer of the same kind asks again; without the database nothing is claimed meanwhile.
                log.warning("pause.failed", reason=str(error))


async def cancel_calls(dataset_ids: Sequence[int]) -> int:
    """Close the open calls of these datasets in this process; how many."""
    return sum(bench().calls.cancel(dataset_id) for dataset_id in dataset_ids)
