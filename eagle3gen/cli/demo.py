"""`eagle3gen demo`: the main job in a minute, without a key and without money."""

import asyncio
import shutil
from pathlib import Path

import click

from eagle3gen.cli import intake, options, rendering
from eagle3gen.cli.progress import Progress
from eagle3gen.cli.run import show_finish
from eagle3gen.errors import ExitCode, InputError
from eagle3gen.records import Queue, usd

MARK = ".eagle3gen-demo"
"""Written into the demo's folder: only a folder that has it is ever emptied."""


@click.command()
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("demo-out"),
    show_default=True,
)
@click.option("--seed", type=int, default=1, show_default=True, help="Same seed, same answers.")
@options.json_output
@click.pass_context
def demo(ctx: click.Context, out: Path, seed: int, as_json: bool) -> None:
    """Answer the bundled prompts against the simulator and compare every id with what it really emitted."""
    _empty(out)
    ctx.exit(asyncio.run(_demo(out, seed, as_json)))


def _empty(out: Path) -> None:
    if out.exists() and any(out.iterdir()) and not (out / MARK).exists():
        raise InputError(f"{out} holds something that is not a demo's; choose another --out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / MARK).touch()


async def _demo(out: Path, seed: int, as_json: bool) -> int:
    from eagle3gen.local import demo as local
    from eagle3gen.local.run import Job, Watcher, run
    from eagle3gen.prompts.demo import demo_prompts

    truth = out / "truth.jsonl"
    async with local.simulator(truth, seed=seed, latency_seconds=2.0, mean_tokens=600) as url:
        rendering.say(f"Simulator at {url}; everything of this demo goes to {out}/.")
        choices = intake.Choices(
            files=(demo_prompts(),), model="moonshotai/kimi-k2.5", endpoint_url=url, tokenizer="builtin:kimi-mini",
            queue="auto", short_max_tokens=10_240, long_max_tokens=16_384, strict=True, yes=True,
        )  # fmt: skip
        job = Job(
            intake=intake.make_intake(choices), state_dir=out / "state", out=out, api_key=None,
            concurrency={Queue.SHORT: 100, Queue.LONG: 20},
        )  # fmt: skip
        with Progress() as progress:
            finish = await run(job, Watcher(intake.ProblemPrinter(), intake.say_enqueued, rendering.say, progress.show))
        charged = local.bill(url)
    show_finish(finish, as_json=as_json)
    if finish.exported is None or finish.exit_code is not ExitCode.DONE:
        return finish.exit_code
    result = local.compare(finish.exported.path, truth, charged, finish.datasets)
    rendering.say(
        f"Truth: {result.identical:,} of {result.rows:,} rows hold exactly the emitted ids; "
        f"ledger {result.ledger_tokens:,} tokens and ${usd(result.ledger_cost_usd)}, "
        f"simulator {result.billed_tokens:,} tokens and ${usd(result.billed_cost_usd)}."
    )
    return ExitCode.DONE if result.agrees else ExitCode.FAILURE
