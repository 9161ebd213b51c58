"""Remote-control commands beside Celery's own."""

from collections.abc import Sequence
from typing import Any

from celery.worker.control import control_command

from eagle3gen.telemetry import logger
from workers import runtime

log = logger(__name__)


@control_command(args=[("dataset_ids", list)], signature="DATASET_ID...")  # type: ignore[untyped-decorator]  # no types
def halt(state: Any, dataset_ids: list[int]) -> dict[str, str]:
    """Cancel the open calls of these datasets. The ledger says the same; this is only quicker."""
    # On the loop of the calls, so that the hub thread never waits; the log tells how many there were.
    state.consumer.pool.run_soon(_halt(dataset_ids))
    return {"ok": f"cancelling {len(dataset_ids)} datasets"}


async def _halt(dataset_ids: Sequence[int]) -> None:
    log.warning("worker.halted", dataset_ids=list(dataset_ids), calls=await runtime.cancel_calls(dataset_ids))
