"""Amounts and caps: laws of sums, and how many holds fit."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.ledger.money import UNCAPPED, ZERO, Amount, Cap

usd = st.decimals(min_value=0, max_value=10**6, allow_nan=False, allow_infinity=False, places=18)
amounts = st.builds(Amount, st.integers(0, 10**12), usd)
caps = st.builds(Cap, st.none() | st.integers(0, 10**12), st.none() | usd)


@given(amounts, amounts)
def test_what_is_added_can_be_taken_away_to_the_last_digit(one, other) -> None:
    assert one + other - other == one


@given(amounts, st.integers(0, 1000))
def test_many_of_an_amount_are_its_sum(amount, count) -> None:
    assert amount * count == sum([amount] * count, start=ZERO)


@given(caps, amounts, st.integers(0, 50))
def test_as_many_holds_fit_as_are_said_and_not_one_more(cap, hold, most) -> None:
    count = cap.times(hold, most)
    assert 0 <= count <= most
    assert count == 0 or cap.admits(hold * count)
    assert count == most or not cap.admits(hold * (count + 1))


@given(caps, caps, amounts)
def test_the_narrower_of_two_caps_admits_what_both_admit(one, other, hold) -> None:
    assert one.narrower(other).admits(hold) == (one.admits(hold) and other.admits(hold))


@given(amounts)
def test_without_a_cap_everything_is_admitted(amount) -> None:
    assert UNCAPPED.admits(amount)
    assert not UNCAPPED.exists
    assert UNCAPPED.left(amount) == UNCAPPED


def test_a_bill_that_was_dearer_than_its_hold_leaves_less_than_nothing() -> None:
    left = Cap(10, Decimal("0.5")).left(Amount(12, Decimal("0.6")))
    assert left == Cap(-2, Decimal("-0.1"))
    assert not left.admits(ZERO)


@pytest.mark.parametrize("hold", [ZERO, Amount(0, Decimal("0.1")), Amount(5)])
def test_a_hold_of_nothing_in_one_unit_is_limited_by_the_other(hold) -> None:
    assert Cap(10, Decimal("0.2")).times(hold, 7) == {0: 7, 5: 2}.get(hold.tokens if not hold.usd else -1, 2)
