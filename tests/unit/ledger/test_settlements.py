"""What a settlement may say, and what it means in money."""

from decimal import Decimal

import pytest

from eagle3gen.errors import InvariantBroken
from eagle3gen.ledger.money import EXACT
from eagle3gen.ledger.settlements import Settlement, StoredSample
from eagle3gen.ledger.states import ANSWERED, MOVES, Outcome, PromptState
from eagle3gen.records import Sample, Usage, Verdict
from tests.making import claim

CLAIM = claim()
STORED = StoredSample.of(Sample(prompt_ids=[1], output_ids=[2], verdict=Verdict.EXACT_IDS), b"{}")
USAGE = Usage(completion_tokens=7, cost_usd=Decimal("0.01"))


def ending(outcome: Outcome = Outcome.HELD, state: PromptState = PromptState.FAILED, **fields) -> Settlement:
    return Settlement(claim=CLAIM, outcome=outcome, prompt_state=state, **fields)


@pytest.mark.parametrize("state", sorted(set(PromptState) - MOVES[PromptState.IN_FLIGHT]))
def test_an_attempt_cannot_end_in_a_state_that_is_no_move_from_in_flight(state) -> None:
    with pytest.raises(InvariantBroken, match=state):
        ending(state=state)


@pytest.mark.parametrize("state", sorted(MOVES[PromptState.IN_FLIGHT]))
def test_a_sample_comes_with_an_answered_prompt_and_only_with_one(state) -> None:
    right, wrong = (STORED, None) if state in ANSWERED else (None, STORED)
    assert ending(state=state, stored=right).stored is right
    with pytest.raises(InvariantBroken):
        ending(state=state, stored=wrong)


@pytest.mark.parametrize(
    ("outcome", "tokens", "usd"),
    [(Outcome.SETTLED, 7, Decimal("0.01")), (Outcome.RELEASED, 0, Decimal(0)), (Outcome.HELD, None, None)],
)
def test_only_a_settled_attempt_is_billed_by_what_the_endpoint_said(outcome, tokens, usd) -> None:
    settlement = ending(outcome, usage=USAGE)
    assert (settlement.billed_tokens, settlement.billed_usd) == (tokens, usd)


def test_a_settled_attempt_without_a_bill_is_unknown() -> None:
    settlement = ending(Outcome.SETTLED)
    assert (settlement.billed_tokens, settlement.billed_usd) == (None, None)


def test_sums_of_money_keep_every_digit() -> None:
    large, small = Decimal("123456.7"), Decimal("1e-30")
    assert EXACT.subtract(EXACT.add(large, small), large) == small
