"""The states of prompts, datasets and attempts, and every legal move of a prompt.

waiting ──> pending ──> queued ──> in_flight ──> done
              ▲ │          │           │ ├─────> rejected
              │ │          │           │ └─────> failed
              └─┼──────────┴───────────┘   back: cap, pause, purge · retry, stop, lost worker
                └──────────┴─> done | rejected   a late answer of a worker that was thought dead
"""

from collections.abc import Mapping
from enum import StrEnum

from eagle3gen.errors import InvariantBroken


class PromptState(StrEnum):
    """Where a prompt stands."""

    WAITING = "waiting"
    """A later turn whose earlier turn is not done yet."""
    PENDING = "pending"
    """Due, or due at `not_before`; no message rings for it."""
    QUEUED = "queued"
    """A message in the broker rings for it."""
    IN_FLIGHT = "in_flight"
    """A worker holds an open attempt for it."""
    DONE = "done"
    """Answered; ids stand, or the answer was cut at its limit."""
    REJECTED = "rejected"
    """Answered and paid, but the ids are not proved."""
    FAILED = "failed"
    """Given up."""


class DatasetState(StrEnum):
    """Whether a dataset's prompts may start."""

    OPEN = "open"
    PAUSED = "paused"
    """By a fault, with its reason; what is in flight goes on."""
    STOPPED = "stopped"
    """By the operator; what is in flight is cancelled."""


class Outcome(StrEnum):
    """How an attempt ended. An open attempt has no outcome."""

    SETTLED = "settled"
    """The bill is known: the hold became real spend."""
    RELEASED = "released"
    """Certainly not billed: the hold is free again."""
    HELD = "held"
    """Nobody knows the bill: the hold stays on the books."""


class CorrectionKind(StrEnum):
    """How an unknown bill became known."""

    LATE = "late"
    """The answer arrived after the attempt was given up."""
    RECONCILED = "reconciled"
    """The endpoint's record of the call says it."""
    WRITTEN_OFF = "written_off"
    """The operator declares that nothing is owed."""


class Admission(StrEnum):
    """What an open call reserves of the caps."""

    STRICT = "strict"
    """Its worst case: no cap can be passed."""
    FORECAST = "forecast"
    """What it is expected to cost: more calls at a time, for a cap that is passed by a known, small chance."""


ENDED = frozenset({PromptState.DONE, PromptState.REJECTED, PromptState.FAILED})
ANSWERED = frozenset({PromptState.DONE, PromptState.REJECTED})
"""The states with a sample."""

MOVES: Mapping[PromptState, frozenset[PromptState]] = {
    PromptState.WAITING: frozenset({PromptState.PENDING}),
    PromptState.PENDING: frozenset({PromptState.QUEUED, PromptState.DONE, PromptState.REJECTED}),
    PromptState.QUEUED: frozenset({PromptState.IN_FLIGHT, PromptState.PENDING, PromptState.DONE, PromptState.REJECTED}),
    PromptState.IN_FLIGHT: ENDED | {PromptState.PENDING},
    PromptState.DONE: frozenset(),
    PromptState.REJECTED: frozenset(),
    PromptState.FAILED: frozenset(),
}


def sources(target: PromptState) -> list[PromptState]:
    """The states from which a prompt may move to `target`."""
    return [state for state, targets in MOVES.items() if target in targets]


def check_move(source: PromptState, target: PromptState) -> None:
    """Raises InvariantBroken for a move that is not in the table."""
    if target not in MOVES[source]:
        raise InvariantBroken(f"a prompt cannot go from {source} to {target}")
