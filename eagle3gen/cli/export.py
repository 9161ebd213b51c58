"""`eagle3gen export`."""

import asyncio
from pathlib import Path

import click

from eagle3gen.cli import options, rendering
from eagle3gen.cli.reaching import reach
from eagle3gen.records import Verdict


@click.command()
@options.dataset_names
@click.option(
    "-o", "--out", type=click.Path(path_type=Path, file_okay=False), default=Path("export"), show_default=True
)
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice([v.value for v in Verdict]),
    help="Take samples with this verdict (repeatable).  [default: exact/* and repaired]",
)
@options.state_dir
@options.json_output
def export(names: tuple[str, ...], out: Path, verdicts: tuple[str, ...], state_dir: Path | None, as_json: bool) -> None:
    """Write the samples as tokens.jsonl, which SpecForge and speculators read unchanged."""
    asyncio.run(_export(list(names) or None, out, verdicts, state_dir, as_json))


async def _export(
    names: list[str] | None, out: Path, verdicts: tuple[str, ...], state_dir: Path | None, as_json: bool
) -> None:
    from eagle3gen.flow.export import TRAINABLE, export_tokens
    from eagle3gen.flow.status import chosen
    from eagle3gen.tokens.loading import decode

    async with reach(state_dir) as reached:
        exported = await export_tokens(
            reached.ledger,
            await chosen(reached.ledger, names),
            out,
            decode=decode,
            verdicts=frozenset(map(Verdict, verdicts)) or TRAINABLE,
        )
    if as_json:
        rendering.print_json(rendering.export_object(exported))
    else:
        rendering.say(rendering.export_sentence(exported))
