"""`eagle3gen status`."""

import asyncio
import time
from pathlib import Path

import click

from eagle3gen.cli import options, rendering
from eagle3gen.cli.reaching import reach


@click.command()
@options.state_dir
@options.json_output
def status(state_dir: Path | None, as_json: bool) -> None:
    """Show every dataset: prompts, tokens against the cap, cost, verdicts."""
    asyncio.run(_status(state_dir, as_json))


async def _status(state_dir: Path | None, as_json: bool) -> None:
    from eagle3gen.flow.status import plan, totals

    started = time.monotonic()
    async with reach(state_dir) as reached:
        datasets, sums = await totals(reached.ledger), await plan(reached.ledger)
    if as_json:
        rendering.print_json(rendering.run_object(datasets, sums, time.monotonic() - started))
    elif not datasets:
        rendering.say("The ledger holds no dataset yet; add one with `eagle3gen enqueue` or `eagle3gen run`.")
    else:
        rendering.print_datasets(datasets, sums)
