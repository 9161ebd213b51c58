"""`eagle3gen run`: the whole job on one machine."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagle3gen.cli import intake, options, rendering
from eagle3gen.cli.progress import Progress
from eagle3gen.config import QUEUE_DEFAULTS
from eagle3gen.records import Queue

if TYPE_CHECKING:
    from eagle3gen.local.run import Finish


def _slots(queue: Queue) -> int:
    return QUEUE_DEFAULTS[queue].concurrency


EXAMPLE = "\b\nExample:\n  eagle3gen run prompts.jsonl --tokenizer ./kimi-k2.5 --token-cap 10000000"


@click.command(epilog=EXAMPLE)
@options.dataset_choices
@click.option("--short-concurrency", type=click.IntRange(1, 20_000), default=_slots(Queue.SHORT), show_default=True)
@click.option("--long-concurrency", type=click.IntRange(1, 20_000), default=_slots(Queue.LONG), show_default=True)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("export"),
    show_default=True,
    help="Folder for tokens.jsonl.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(options.DEFAULT_STATE_DIR),
    show_default=True,
    help="Folder of the ledger and the services.",
)
@options.api_key_file
@options.json_output
@click.pass_context
def run(
    ctx: click.Context,
    /,
    short_concurrency: int,
    long_concurrency: int,
    out: Path,
    state_dir: Path,
    api_key_file: Path | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Answer every prompt of FILE... on this machine and export the samples.

    Starts its own Postgres, Valkey and workers, and resumes what the state directory holds: run the same
    command again after a crash, a Ctrl-C or a raised cap. Ctrl-C once finishes the open calls, twice cuts them.
    """
    from eagle3gen.local.run import Job, Watcher
    from eagle3gen.local.run import run as work

    chosen = intake.Choices(**choices)
    key = options.read_api_key(api_key_file)
    intake.check_key(chosen, key)
    wanted = intake.make_intake(chosen)
    intake.confirm_spending(chosen)
    job = Job(
        intake=wanted,
        state_dir=state_dir,
        out=out,
        api_key=key,
        concurrency={Queue.SHORT: short_concurrency, Queue.LONG: long_concurrency},
    )
    with Progress() as progress:
        watcher = Watcher(intake.ProblemPrinter(), intake.say_enqueued, rendering.say, progress.show)
        finish = asyncio.run(work(job, watcher))
    show_finish(finish, as_json=as_json)
    ctx.exit(finish.exit_code)


def show_finish(finish: "Finish", *, as_json: bool) -> None:
    """The summary: the table for people, the object for programs, and why work is left if it is."""
    rendering.say_ending(finish.datasets, finish.seconds, finish.plan)
    if finish.exported is not None:
        rendering.say(rendering.export_sentence(finish.exported))
    else:
        rendering.say(finish.export_problem)
    if as_json:
        exported = None if finish.exported is None else rendering.export_object(finish.exported)
        rendering.print_json(rendering.run_object(finish.datasets, finish.plan, finish.seconds, export=exported))
    else:
        rendering.print_datasets(finish.datasets, finish.plan)
