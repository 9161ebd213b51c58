"""The table of moves is complete and says what the diagram says."""

from eagle3gen.ledger.states import ENDED, MOVES, PromptState, sources


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
