"""A whole run on one machine: services, schema, prompts, two workers, and an end by itself."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from pydantic import SecretStr

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.errors import ConfigurationError, ExitCode, InputError, ServiceUnreachable
from eagle3gen.flow import halt, status
from eagle3gen.flow.dispatch import dispatch
from eagle3gen.flow.enqueue import Enqueued, Intake, enqueue, priced
from eagle3gen.flow.export import Exported, check_writable, export_tokens
from eagle3gen.flow.notice import cap_notices
from eagle3gen.flow.purse import first_reading
from eagle3gen.ledger import sweeping
from eagle3gen.ledger.connect import Ledger, open_ledger
from eagle3gen.ledger.datasets import datasets
from eagle3gen.ledger.migrate import upgrade
from eagle3gen.ledger.reading import DatasetTotals, PlanTotals
from eagle3gen.ledger.states import DatasetState
from eagle3gen.local.services import Services, start_services
from eagle3gen.local.workers import Workers, start_workers
from eagle3gen.prompts.reading import Problem
from eagle3gen.records import Queue
from eagle3gen.tokens.loading import decode
from workers.app import connect
from workers.bell import BrokerBell

POLL_SECONDS = 0.5
LOOK_SHARE = 20
"""The pause between two looks at the ledger is this many times as long as a look."""


class Phase(Enum):
    """Where a run is, for whoever watches it."""

    RUNNING = "running"
    DRAINING = "draining"
    ABORTING = "aborting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What `eagle3gen run` was asked to do."""

    intake: Intake
    state_dir: Path
    out: Path
    api_key: SecretStr | None
    concurrency: Mapping[Queue, int]


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told what happens; the command line draws it."""

    problem: Callable[[Problem], None]
    enqueued: Callable[[Sequence[Enqueued]], None]
    notice: Callable[[str], None]
    progress: Callable[[Phase, Sequence[DatasetTotals]], None]


@dataclass(slots=True, kw_only=True)
class Finish:
    """How a run ended."""

    datasets: Sequence[DatasetTotals]
    plan: PlanTotals
    seconds: float
    exported: Exported | None = None
    export_problem: str = ""
    interrupted: bool = False

    @property
    def exit_code(self) -> ExitCode:
        left = [d for d in self.datasets if d.waiting]
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if any(d.state is DatasetState.STOPPED for d in left):
            return ExitCode.STOPPED
        if any(d.state is DatasetState.PAUSED for d in left):
            return ExitCode.UNREACHABLE
        if any(status.at_cap(d) for d in left):
            return ExitCode.CAP_REACHED
        answered = any(d.done or d.rejected for d in self.datasets)
        return ExitCode.DONE if answered else ExitCode.FAILURE


@dataclass(slots=True)
class Signals:
    """The first Ctrl-C (or SIGTERM) drains, the second aborts."""

    count: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def install(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._received)

    def _received(self) -> None:
        self.count += 1
        self.wake.set()

    async def sleep(self, seconds: float) -> None:
        """Sleep, but wake at once when a signal comes."""
        try:
            await asyncio.wait_for(self.wake.wait(), seconds)
        except TimeoutError:
            return
        self.wake.clear()

    @property
    def phase(self) -> Phase:
        return (Phase.RUNNING, Phase.DRAINING, Phase.ABORTING)[min(self.count, 2)]


async def run(job: Job, watcher: Watcher) -> Finish:
    """Answer every prompt of the files, or as many as the caps allow, and export the samples.

    Resumes whatever the state directory already holds. Raises InputError, ConfigurationError or
    ServiceUnreachable before anything is spent.
    """
    started = time.monotonic()
    signals = Signals()
    signals.install()
    check_writable(job.out)
    job = replace(job, intake=await _asked(job))
    watcher.notice(f"Starting Postgres, Valkey and workers; their logs are in {job.state_dir}/.")
    async with start_services(job.state_dir) as services:
        await asyncio.to_thread(upgrade, services.database_url)
        ledger = open_ledger(services.database_url)
        try:
            await _prepare(ledger, job, services, signals, watcher)
            async with start_workers(services, job.concurrency, _environment(job, services)) as workers:
                await _until_finished(ledger, services, workers, signals, watcher)
                await _leave(ledger, services, workers, signals, watcher)
            async with ledger.begin() as conn:
                # Every worker has ended: what one left open is settled by nobody any more, so it is held.
                await sweeping.forget_workers(conn)
            finish = Finish(
                datasets=await status.totals(ledger),
                plan=await status.plan(ledger),
                seconds=time.monotonic() - started,
                interrupted=signals.count > 0,
            )
            await _export(ledger, job, finish)
        finally:
            await ledger.close()
    return finish


async def _asked(job: Job) -> Intake:
    """The intake with the prices of an endpoint that answers."""
    async with _endpoint(job) as endpoint:
        await endpoint.ping()
        return await priced(job.intake, endpoint)


@contextlib.asynccontextmanager
async def _endpoint(job: Job) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint(job.intake.endpoint_url, job.api_key, connections=1)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def _prepare(ledger: Ledger, job: Job, services: Services, signals: Signals, watcher: Watcher) -> None:
    async with ledger.begin() as conn:
        # The state directory's lock says that no worker of an earlier run lives: no need to wait for silence.
        await sweeping.forget_workers(conn)
        await sweeping.unqueue(conn, None)
    brought = await enqueue(ledger, job.intake, watcher.problem, stopped=lambda: signals.count > 0)
    watcher.enqueued(brought)
    for sentence in await cap_notices(ledger, job.intake, brought, job.concurrency):
        watcher.notice(sentence)
    async with ledger.begin() as conn:
        before = {d.name: d for d in await datasets(conn)}
    for name in await halt.resume(ledger, [e.name for e in brought]):
        watcher.notice(f"Resumed {name}, which was {before[name].state.value}: {before[name].state_reason}.")
    async with _endpoint(job) as endpoint:
        await first_reading(ledger, endpoint)
    bell = BrokerBell(connect(services.redis_url))
    await bell.purge()
    await dispatch(ledger, bell, worker_timeout_seconds=None, ring_again_seconds=60.0)


def _environment(job: Job, services: Services) -> dict[str, str]:
    environment = {"DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url or ""}
    if job.api_key is not None:
        environment["OPENROUTER_API_KEY"] = job.api_key.get_secret_value()
    return environment


async def _until_finished(
    ledger: Ledger, services: Services, workers: Workers, signals: Signals, watcher: Watcher
) -> None:
    while signals.count == 0:
        services.check()
        workers.check()
        looked = time.monotonic()
        datasets = await _look(ledger)
        if datasets is not None:
            watcher.progress(signals.phase, datasets)
            if all(status.finished(d) for d in datasets):
                return
        # Looking must stay cheap beside the work, however large the ledger is.
        await signals.sleep(max(POLL_SECONDS, LOOK_SHARE * (time.monotonic() - looked)))


async def _leave(ledger: Ledger, services: Services, workers: Workers, signals: Signals, watcher: Watcher) -> None:
    """Let the workers finish their open calls; a second signal cuts them."""
    draining = asyncio.ensure_future(workers.drain())
    aborted = False
    while not draining.done():
        services.check()
        if signals.phase is Phase.ABORTING and not aborted:
            aborted = True
            await workers.abort()
        if signals.count and (datasets := await _look(ledger)) is not None:
            watcher.progress(signals.phase, datasets)
        await asyncio.wait([draining], timeout=POLL_SECONDS)
    await draining


async def _look(ledger: Ledger) -> list[DatasetTotals] | None:
    """How the datasets stand; None while Postgres is being started again, which gives up by itself if it cannot."""
    try:
        return await status.totals(ledger)
    except ServiceUnreachable:
        return None


async def _export(ledger: Ledger, job: Job, finish: Finish) -> None:
    try:
        finish.exported = await export_tokens(ledger, finish.datasets, job.out, decode=decode)
    except (InputError, ConfigurationError) as error:
        finish.export_problem = str(error)
