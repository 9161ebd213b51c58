"""`eagle3gen worker`."""

import os
from pathlib import Path

import click

from eagle3gen.cli import options
from eagle3gen.config import QUEUE_DEFAULTS
from eagle3gen.records import Queue


@click.command()
@click.option("-q", "--queue", type=click.Choice([q.value for q in Queue]), required=True)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1, 20_000),
    help="Open calls at most.  [default: 2000 short, 500 long]",
)
@click.option(
    "--transport",
    type=click.Choice(["plain", "stream", "auto"]),
    help="How answers are sent; auto streams unless the endpoint refuses to.  [default: plain short, auto long]",
)
@click.option("--name", help="Name of the worker in Flower.  [default: QUEUE-PID]")
@click.option("--events", is_flag=True, help="Send task events from the start; Flower can also switch them on.")
@options.api_key_file
@click.pass_context
def worker(
    ctx: click.Context,
    queue: str,
    concurrency: int | None,
    transport: str | None,
    name: str | None,
    events: bool,
    api_key_file: Path | None,
) -> None:
    """Answer prompts from one queue; run as many of these as you like, on as many machines.

    Needs DATABASE_URL and REDIS_URL, and the tokenizer folders of the datasets at the same paths.
    SIGTERM finishes the open calls first, SIGQUIT cuts them.
    """
    from workers.app import run_worker

    key = options.read_api_key(api_key_file)
    if key is not None:
        # The runtime reads its settings inside the pool, where only the environment reaches it.
        os.environ["OPENROUTER_API_KEY"] = key.get_secret_value()
    if transport is not None:
        os.environ["EAGLE3GEN_TRANSPORT"] = transport
    chosen = Queue(queue)
    slots = concurrency or QUEUE_DEFAULTS[chosen].concurrency
    ctx.exit(run_worker(chosen, slots, name=name, events=events))
