"""`eagle3gen reconcile`."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from eagle3gen.cli import options, rendering
from eagle3gen.cli.reaching import reach
from eagle3gen.errors import ExitCode, InputError
from eagle3gen.records import usd

if TYPE_CHECKING:
    from eagle3gen.flow.reconcile import Reconciled

SHOWN_MAX = 10


@click.command()
@click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    help="Seconds to wait for records that the endpoint does not show yet.",
)
@click.option("--write-off", is_flag=True, help="Declare that nothing is owed for what stays unknown.")
@click.option("--yes", is_flag=True, help="Write off without asking.")
@options.state_dir
@options.api_key_file
@options.json_output
@click.pass_context
def reconcile(
    ctx: click.Context,
    /,
    *,
    wait: float,
    write_off: bool,
    yes: bool,
    state_dir: Path | None,
    api_key_file: Path | None,
    as_json: bool,
) -> None:
    """Settle lost calls from the endpoint's own records, and compare the books with the key's usage.

    Exits 1 while a bill is missing or the key was charged for more or less than the books say.
    """
    if write_off and not yes:
        if not sys.stdin.isatty():
            raise InputError("--write-off declares that lost calls cost nothing. Confirm with --yes")
        click.confirm("Declare that lost calls without a record cost nothing?", abort=True, err=True)
    result = asyncio.run(_reconcile(wait, write_off, state_dir, api_key_file))
    if as_json:
        rendering.print_json(_object(result))
    else:
        _print(result)
    ctx.exit(ExitCode.DONE if result.clean else ExitCode.FAILURE)


async def _reconcile(wait: float, write_off: bool, state_dir: Path | None, key_file: Path | None) -> "Reconciled":
    from eagle3gen.endpoint.client import Endpoint
    from eagle3gen.flow.reconcile import reconcile as flow

    key = options.read_api_key(key_file)
    clients: dict[str, Endpoint] = {}

    def endpoint(url: str) -> Endpoint:
        if url not in clients:
            clients[url] = Endpoint(url, key, connections=16)
        return clients[url]

    def progress(settled: int, asked: int) -> None:
        if asked:
            rendering.say(f"{settled:,} settled; {asked:,} have no record yet.")

    async with reach(state_dir) as reached:
        try:
            return await flow(reached.ledger, endpoint, patience_seconds=wait, write_off=write_off, progress=progress)
        finally:
            for client in clients.values():
                await client.close()


def _print(result: "Reconciled") -> None:
    amount, dollars = result.settled_amount, rendering.dollars
    click.echo(
        f"{result.settled:,} settled from the endpoint's records: {amount.tokens:,} tokens, {dollars(amount.usd)}"
    )
    if result.written_off:
        click.echo(f"{result.written_off:,} written off")
    if result.left:
        worst = result.left_amount
        click.echo(
            f"{len(result.left):,} without a bill: up to {worst.tokens:,} tokens, {dollars(worst.usd)} stay held"
        )
        for u in result.left[:SHOWN_MAX]:
            click.echo(
                f"  prompt {u.prompt_id}, {u.generation_id or 'no generation id'}: {u.reason or 'no whole bill'}"
            )
    for check in result.keys:
        click.echo(
            f"{check.endpoint_url}: the key was charged {dollars(check.used_usd)}, the books say "
            f"{dollars(check.booked_usd)}; unexplained {dollars(check.unexplained_usd)}"
        )


def _object(result: "Reconciled") -> dict[str, object]:
    return {
        "settled": result.settled,
        "settled_tokens": result.settled_amount.tokens,
        "settled_usd": usd(result.settled_amount.usd),
        "written_off": result.written_off,
        "left": [
            {"prompt_id": u.prompt_id, "attempt_id": str(u.attempt_id), "generation_id": u.generation_id}
            for u in result.left
        ],
        "left_tokens": result.left_amount.tokens,
        "left_usd": usd(result.left_amount.usd),
        "keys": [
            {
                "endpoint_url": k.endpoint_url,
                "used_usd": usd(k.used_usd),
                "booked_usd": usd(k.booked_usd),
                "unexplained_usd": usd(k.unexplained_usd),
                "left_usd": None if k.left_usd is None else usd(k.left_usd),
            }
            for k in result.keys
        ],
    }
