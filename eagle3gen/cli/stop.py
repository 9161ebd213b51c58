"""`eagle3gen stop` and `eagle3gen resume`."""

import asyncio
from dataclasses import asdict
from pathlib import Path

import click

from eagle3gen.cli import options, rendering
from eagle3gen.cli.reaching import reach
from eagle3gen.errors import ExitCode, InputError


@click.command()
@options.dataset_names
@click.option("--all", "everything", is_flag=True, help="Stop every dataset.")
@options.state_dir
@options.json_output
@click.pass_context
def stop(ctx: click.Context, names: tuple[str, ...], everything: bool, state_dir: Path | None, as_json: bool) -> None:
    """Stop datasets now: nothing new starts, open calls are cancelled, nothing is lost.

    A cancelled call may still be billed: its hold stays on the books until it is settled.
    """
    if bool(names) is everything:
        raise InputError("say which datasets to stop, or --all")
    stopped = asyncio.run(_stop(list(names) or None, state_dir, as_json))
    ctx.exit(ExitCode.FAILURE if stopped else ExitCode.DONE)


async def _stop(names: list[str] | None, state_dir: Path | None, as_json: bool) -> int:
    from eagle3gen.flow import halt
    from workers.app import connect
    from workers.bell import BrokerBell

    async with reach(state_dir) as reached:
        bell = BrokerBell(connect(reached.redis_url))
        stopped = await halt.stop(reached.ledger, bell, names)
    if as_json:
        rendering.print_json(asdict(stopped))
    else:
        rendering.say(
            f"Stopped {', '.join(stopped.datasets)} in {stopped.seconds:.1f} s: "
            f"{stopped.unqueued:,} prompts taken from the queues, {stopped.cancelled:,} calls cancelled, "
            f"{stopped.still_in_flight:,} still in flight; {stopped.held_tokens:,} tokens may still be billed (held)."
        )
    return stopped.still_in_flight


@click.command()
@options.dataset_names
@click.option("--all", "everything", is_flag=True, help="Every dataset; the same as naming none.")
@click.option("--recanary", is_flag=True, help="Send a new canary first, and open fully when it is judged.")
@options.state_dir
def resume(names: tuple[str, ...], everything: bool, recanary: bool, state_dir: Path | None) -> None:
    """Open paused or stopped datasets again; they go on exactly where they stopped.

    In a fleet the workers go on by themselves. On one machine, `eagle3gen run` does this and starts the workers.
    """
    if names and everything:
        raise InputError("name datasets, or say --all")
    asyncio.run(_resume(list(names) or None, recanary, state_dir))


async def _resume(names: list[str] | None, recanary: bool, state_dir: Path | None) -> None:
    from eagle3gen.flow import halt

    async with reach(state_dir) as reached:
        opened = await halt.resume(reached.ledger, names, recanary=recanary)
    rendering.say(f"Resumed {', '.join(opened)}." if opened else "Nothing to resume: every dataset is open.")
