"""Remote-control commands beside Celery's own."""

from typing import Any

from celery.worker.control import control_command

from workers import runtime


@control_command(args=[("dataset_ids", list)], signature="DATASET_ID...")  # type: ignore[untyped-decorator]  # no types
def halt(state: Any, dataset_ids: list[int]) -> dict[str, str]:
    """Cancel the open calls of these datasets. The ledger says the same; this is only quicker."""
    # On the loop of the calls, so that the hub thread never waits.
    state.consumer.pool.run_soon(runtime.halt(dataset_ids))
    return {"ok": f"cancelling {len(dataset_ids)} datasets"}
