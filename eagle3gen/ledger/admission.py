"""Who may start under a cap: a pure function, called under the locks of the datasets it decides on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Claimant = TypeVar("Claimant")


@dataclass(frozen=True, slots=True)
class Room:
    """What a dataset still admits at this moment."""

    open: bool
    """False for a paused or stopped dataset."""
    headroom_tokens: int | None
    """None without a cap."""


def admit(
    rooms: Mapping[int, Room], wanted: Iterable[tuple[Claimant, int, int]]
) -> tuple[list[Claimant], list[Claimant]]:
    """Divide claimants into admitted and refused, first come first served.

    `wanted` holds (claimant, dataset id, hold in tokens). The sum of the admitted holds of a dataset never
    exceeds its headroom. A smaller hold may pass where a larger one before it did not fit, so that no room is
    left unused.
    """
    left = {dataset_id: room.headroom_tokens for dataset_id, room in rooms.items()}
    admitted: list[Claimant] = []
    refused: list[Claimant] = []
    for claimant, dataset_id, hold in wanted:
        headroom = left[dataset_id]
        if not rooms[dataset_id].open or (headroom is not None and hold > headroom):
            refused.append(claimant)
            continue
        admitted.append(claimant)
        if headroom is not None:
            left[dataset_id] = headroom - hold
    return admitted, refused
