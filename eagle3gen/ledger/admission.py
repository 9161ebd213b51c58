"""Who may start under the caps: a pure function, called under the locks of the datasets it decides on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from eagle3gen.ledger.money import UNCAPPED, Amount, Cap

Claimant = TypeVar("Claimant")


@dataclass(frozen=True, slots=True)
class Room:
    """What a dataset still admits at this moment."""

    open: bool
    """False for a paused or stopped dataset."""
    left: Cap = UNCAPPED
    """What is left of the dataset's own cap."""
    slots: int | None = None
    """Calls that may still start while its canary is out; None once that is judged."""


def admit(
    rooms: Mapping[int, Room], plan_left: Cap, wanted: Iterable[tuple[Claimant, int, Amount]]
) -> tuple[list[Claimant], list[Claimant]]:
    """Divide claimants into admitted and refused, first come first served.

    `wanted` holds (claimant, dataset id, hold). The sum of the admitted holds of a dataset never exceeds what is
    left of its cap, and the sum of all never what is left of the plan's. A smaller hold may pass where a larger
    one before it did not fit, so that no room is left unused.
    """
    left = {dataset_id: room.left for dataset_id, room in rooms.items()}
    slots = {dataset_id: room.slots for dataset_id, room in rooms.items()}
    admitted: list[Claimant] = []
    refused: list[Claimant] = []
    for claimant, dataset_id, hold in wanted:
        free = slots[dataset_id]
        fits = left[dataset_id].admits(hold) and plan_left.admits(hold)
        if not rooms[dataset_id].open or free == 0 or not fits:
            refused.append(claimant)
            continue
        admitted.append(claimant)
        left[dataset_id] = left[dataset_id].left(hold)
        plan_left = plan_left.left(hold)
        if free is not None:
            slots[dataset_id] = free - 1
    return admitted, refused
