"""`eagle3gen audit`."""

import asyncio
from pathlib import Path

import click

from eagle3gen.cli import options, rendering
from eagle3gen.cli.reaching import reach
from eagle3gen.errors import ExitCode


@click.command()
@options.dataset_names
@options.state_dir
@options.json_output
@click.pass_context
def audit(ctx: click.Context, names: tuple[str, ...], state_dir: Path | None, as_json: bool) -> None:
    """Check every stored sample and the books; exit code 1 if anything is found."""
    found = asyncio.run(_audit(list(names) or None, state_dir, as_json))
    ctx.exit(ExitCode.FAILURE if found else ExitCode.DONE)


async def _audit(names: list[str] | None, state_dir: Path | None, as_json: bool) -> bool:
    from eagle3gen.flow import audit as flow
    from eagle3gen.flow.status import chosen
    from eagle3gen.tokens.loading import load_tokenizer_once

    async with reach(state_dir) as reached:
        result = await flow.audit(
            reached.ledger, await chosen(reached.ledger, names), lambda d: load_tokenizer_once(d.tokenizer)
        )
    if as_json:
        rendering.print_json(result.as_json())
    else:
        rendering.print_audit(result)
    return bool(result.findings)
