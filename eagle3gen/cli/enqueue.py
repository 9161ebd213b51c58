"""`eagle3gen enqueue`."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from eagle3gen.cli import intake, options, rendering
from eagle3gen.cli.reaching import broker_url, reach
from eagle3gen.config import QUEUE_DEFAULTS

if TYPE_CHECKING:
    from eagle3gen.flow.enqueue import Intake


@click.command()
@options.dataset_choices
@options.state_dir
@options.api_key_file
@options.json_output
def enqueue(state_dir: Path | None, api_key_file: Path | None, as_json: bool, **choices: Any) -> None:
    """Add files of prompts to the ledger, one dataset each, and ring for the workers.

    Enqueueing a file again adds only what is new in it.
    """
    asyncio.run(_enqueue(intake.Choices(**choices), state_dir, api_key_file, as_json))


async def _priced(wanted: "Intake", api_key_file: Path | None) -> "Intake":
    from eagle3gen.endpoint.client import Endpoint
    from eagle3gen.flow.enqueue import priced

    endpoint = Endpoint(wanted.endpoint_url, options.read_api_key(api_key_file), connections=1)
    try:
        return await priced(wanted, endpoint)
    finally:
        await endpoint.close()


async def _enqueue(choices: intake.Choices, state_dir: Path | None, api_key_file: Path | None, as_json: bool) -> None:
    from eagle3gen.flow import enqueue as flow
    from eagle3gen.flow.dispatch import dispatch
    from eagle3gen.flow.notice import cap_notices
    from workers.app import connect
    from workers.bell import BrokerBell

    slots = {queue: defaults.concurrency for queue, defaults in QUEUE_DEFAULTS.items()}
    intake.confirm_spending(choices)
    wanted = await _priced(intake.make_intake(choices), api_key_file)
    async with reach(state_dir) as reached:
        brought = await flow.enqueue(reached.ledger, wanted, intake.ProblemPrinter())
        if reached.redis_url is not None:
            bell = BrokerBell(connect(broker_url(reached)))
            await dispatch(reached.ledger, bell, worker_timeout_seconds=None, ring_again_seconds=60.0)
        notices = await cap_notices(reached.ledger, wanted, brought, slots)
    intake.say_enqueued(brought)
    for sentence in notices:
        rendering.say(sentence)
    if as_json:
        rendering.print_json(
            {
                "datasets": [
                    {
                        "name": e.name,
                        "added": e.added,
                        "duplicates": e.duplicates,
                        "refused": e.refused,
                        **{q.value: n for q, n in e.queues.items()},
                    }
                    for e in brought
                ]
            }
        )
