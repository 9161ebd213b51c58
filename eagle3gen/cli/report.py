"""`eagle3gen report`."""

import asyncio
from pathlib import Path

import click

from eagle3gen.cli import options, rendering
from eagle3gen.cli.reaching import reach


@click.command()
@options.dataset_names
@click.option("--csv", "as_csv", is_flag=True, help="Print one CSV row per dataset, model and host.")
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write one page with tables and plots that needs nothing else.",
)
@options.state_dir
@options.json_output
def report(names: tuple[str, ...], as_csv: bool, page: Path | None, state_dir: Path | None, as_json: bool) -> None:
    """Show what the run cost and brought, by dataset, model and host, and what is still to come."""
    if as_csv and as_json:
        raise click.UsageError("--csv and --json both print to stdout; choose one")
    asyncio.run(_report(names, as_csv, page, state_dir, as_json))


async def _report(
    names: tuple[str, ...], as_csv: bool, page: Path | None, state_dir: Path | None, as_json: bool
) -> None:
    from eagle3gen.flow.report import rows
    from eagle3gen.flow.report.numbers import collect

    async with reach(state_dir) as reached:
        found = await collect(reached.ledger, names)
    if page is not None:
        from eagle3gen.flow.report.page import write_page

        write_page(found, page)
        rendering.say(f"{page}: written")
    if as_json:
        rendering.print_json(rows.as_json(found))
    elif as_csv:
        click.echo(rows.as_csv(found), nl=False)
    elif page is None:
        from eagle3gen.cli.report_tables import print_report

        print_report(found)
