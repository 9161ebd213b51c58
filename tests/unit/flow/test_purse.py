"""When the key cannot carry what is open any more."""

from decimal import Decimal

import pytest

from eagle3gen.endpoint.account import Account
from eagle3gen.flow.purse import open_cost, short_of_money
from eagle3gen.ledger.reading import Load
from tests.making import dataset


def account(left: str | None) -> Account:
    return Account(Decimal(1), None if left is None else Decimal(left))


def test_with_few_answers_an_open_call_counts_with_its_hold() -> None:
    assert open_cost(dataset(open_usd=Decimal(3), cost_usd=Decimal("0.01")), Load(19, 100)) == 3


def test_with_answers_an_open_call_counts_as_twice_the_mean_and_never_more_than_its_hold() -> None:
    known = dataset(open_usd=Decimal(3), cost_usd=Decimal(1))
    assert open_cost(known, Load(100, 50)) == Decimal(1)
    assert open_cost(known, Load(20, 5000)) == 3


@pytest.mark.parametrize(("left", "short"), [(None, False), ("3.01", False), ("3", False), ("2.99", True), ("0", True)])
def test_the_key_must_carry_what_is_open(left, short) -> None:
    own = [dataset(id=1, open_usd=Decimal(2)), dataset(id=2, open_usd=Decimal(1))]
    assert bool(short_of_money(account(left), own, {})) is short


def test_without_anything_left_everything_waits_even_if_nothing_is_open() -> None:
    said = short_of_money(account("-0.25"), [dataset()], {})
    assert said.startswith("key: no money is left (-0.25 USD), and what is open may cost $0.00; top up")
