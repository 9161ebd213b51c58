"""`eagle3gen doctor`."""

import asyncio
import resource
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagle3gen.cli import options, rendering
from eagle3gen.config import OPENROUTER_URL, QUEUE_DEFAULTS, Settings
from eagle3gen.errors import ExitCode
from eagle3gen.records import Queue

if TYPE_CHECKING:
    from eagle3gen.flow.doctor import Finding

MARKS = {True: "ok", False: "BAD", None: "-"}


@click.command()
@click.option("--model", default="moonshotai/kimi-k2.5", show_default=True, help="The target model.")
@click.option("--endpoint-url", default=OPENROUTER_URL, show_default=True, help="Base URL, up to /v1.")
@click.option("--tokenizer", required=True, metavar="DIR|NAME", help="Folder of the target's tokenizer.")
@click.option("--routing", "routings", metavar="KEY=VALUE", multiple=True, help="As of `run`.")
@click.option("--sampling", "samplings", metavar="KEY=VALUE", multiple=True, help="As of `run`.")
@options.api_key_file
@options.json_output
@click.pass_context
def doctor(
    ctx: click.Context,
    /,
    *,
    model: str,
    endpoint_url: str,
    tokenizer: str,
    routings: tuple[str, ...],
    samplings: tuple[str, ...],
    api_key_file: Path | None,
    as_json: bool,
) -> None:
    """Look at everything that a run needs, before it spends anything; exits 1 if something is bad.

    Looks at the database and the broker that DATABASE_URL and REDIS_URL name, if they do.
    """
    findings = asyncio.run(_examine(model, endpoint_url, tokenizer, routings, samplings, api_key_file))
    if as_json:
        rendering.print_json({"findings": [{"check": f.check, "ok": f.ok, "says": f.says} for f in findings]})
    else:
        for f in findings:
            click.echo(f"{MARKS[f.ok]:4}{f.check:12}{f.says}")
    ctx.exit(ExitCode.FAILURE if any(f.ok is False for f in findings) else ExitCode.DONE)


async def _examine(
    model: str,
    endpoint_url: str,
    tokenizer: str,
    routings: tuple[str, ...],
    samplings: tuple[str, ...],
    key_file: Path | None,
) -> "list[Finding]":
    from eagle3gen.cli import pairs
    from eagle3gen.endpoint.client import Endpoint
    from eagle3gen.endpoint.routing import Routing
    from eagle3gen.flow.doctor import Patient, examine
    from eagle3gen.tokens.loading import load_tokenizer
    from workers.app import FILES_BESIDE_CALLS

    def load() -> str:
        loaded = load_tokenizer(tokenizer)
        return f"{loaded.family.name}, every control id proved (sha256 {loaded.sha256[:12]})"

    settings = Settings()
    endpoint = Endpoint(endpoint_url, options.read_api_key(key_file), connections=2)
    patient = Patient(
        endpoint=endpoint,
        model=model,
        routing=Routing.read(pairs.routing(routings)),
        sampling=pairs.sampling(samplings),
        tokenizer=load,
        ledger=_ledger if settings.database_url else None,
        broker=_broker if settings.redis_url else None,
        files_needed=QUEUE_DEFAULTS[Queue.SHORT].concurrency + FILES_BESIDE_CALLS,
        files_allowed=lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    )
    try:
        return await examine(patient)
    finally:
        await endpoint.close()


async def _ledger() -> str:
    from eagle3gen.ledger.connect import open_ledger

    ledger = open_ledger(Settings().database_url or "")
    try:
        await ledger.ping()
    finally:
        await ledger.close()
    return "a ledger of this version"


async def _broker() -> str:
    from workers.app import connect
    from workers.bell import BrokerBell

    depths = [await BrokerBell(connect(Settings().redis_url)).depth(queue) for queue in Queue]
    return f"{sum(depths):,} messages waiting"
