"""What a user is told at the start about caps that keep calls waiting."""

from decimal import Decimal

import pytest

from eagle3gen.flow.notice import _notice
from eagle3gen.ledger.money import UNCAPPED, Cap
from eagle3gen.ledger.states import Admission
from eagle3gen.records import Prices, Queue
from tests.making import dataset

PRICES = Prices(prompt_usd=Decimal("0.0000006"), completion_usd=Decimal("0.000003"))


def notice(rest: Cap = UNCAPPED, wanted: int = 2000, **changes) -> str:
    return _notice(dataset(prices=PRICES, **changes), rest, Queue.SHORT, 10_240, wanted)


def test_a_cap_in_tokens_says_how_many_calls_it_admits() -> None:
    assert notice(cap_tokens=10_000_000) == (
        "set: cap 10,000,000 at max_tokens 10,240 admits 976 in flight of 2,000 in the short queue;"
        " --admission forecast lifts that"
    )


def test_a_cap_in_usd_says_what_a_call_may_cost() -> None:
    assert notice(cap_usd=Decimal(31)) == (
        "set: cap $31.00 at up to $0.0308 a call admits 1,007 in flight of 2,000 in the short queue;"
        " --admission forecast lifts that"
    )


def test_what_is_spent_already_is_told_beside_the_cap() -> None:
    assert "cap 10,000,000 (5,000,000 left) at" in notice(cap_tokens=10_000_000, spent_tokens=5_000_000)


def test_the_plans_cap_is_told_as_such() -> None:
    assert notice(Cap(102_400), plan_cap=Cap(102_400)).startswith("set: the plan's cap 102,400 at max_tokens 10,240")


@pytest.mark.parametrize(
    "changes", [{}, {"cap_tokens": 20_480_000}, {"cap_tokens": 1, "admission": Admission.FORECAST}]
)
def test_nothing_is_said_where_nothing_waits(changes) -> None:
    assert notice(**changes) == ""


def test_a_small_dataset_does_not_want_every_slot() -> None:
    assert notice(cap_tokens=10_000_000, wanted=900) == ""
