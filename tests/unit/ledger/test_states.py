"""The table of moves is complete and says what the diagram says."""

from itertools import product

import pytest

from eagle3gen.errors import InvariantBroken
from eagle3gen.ledger.states import ENDED, MOVES, PromptState, check_move, sources


def test_every_state_is_in_the_table() -> None:
    assert set(MOVES) == set(PromptState)


def test_nothing_leaves_an_ended_state() -> None:
    assert all(not MOVES[state] for state in ENDED)


def test_every_state_but_the_first_can_be_reached() -> None:
    reached = {target for targets in MOVES.values() for target in targets}
    assert set(PromptState) - reached == {PromptState.WAITING}


def test_an_attempt_is_only_opened_from_the_queue() -> None:
    assert sources(PromptState.IN_FLIGHT) == [PromptState.QUEUED]


def test_only_work_in_flight_can_fail() -> None:
    assert sources(PromptState.FAILED) == [PromptState.IN_FLIGHT]


@pytest.mark.parametrize(("source", "target"), list(product(PromptState, PromptState)))
def test_a_move_is_allowed_exactly_if_it_is_in_the_table(source, target) -> None:
    if target in MOVES[source]:
        check_move(source, target)
    else:
        with pytest.raises(InvariantBroken, match=f"from {source} to {target}"):
            check_move(source, target)
