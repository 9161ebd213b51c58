"""Prices, accounts and records of calls: what the side endpoints say, read exactly or not at all."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.endpoint.account import Account, account_from
from eagle3gen.endpoint.generation import generation_from
from eagle3gen.endpoint.prices import dearest
from eagle3gen.endpoint.routing import Routing
from eagle3gen.errors import ConfigurationError
from eagle3gen.records import Prices, Usage

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)


def dearest_of(value):
    return dearest(value, Routing())


def listing(*pricings) -> dict:
    return {"data": {"endpoints": [{"name": "h", "pricing": pricing} for pricing in pricings]}}


def test_the_dearest_price_of_each_kind_counts_wherever_it_is_listed() -> None:
    cheap = {"prompt": "0.0000004", "completion": "0.000003", "request": "0"}
    other = {"prompt": "0.0000006", "completion": "0.000002", "request": "0.001"}
    assert dearest_of(listing(cheap, other)) == Prices(
        prompt_usd=Decimal("0.0000006"), completion_usd=Decimal("0.000003"), request_usd=Decimal("0.001")
    )


def test_reasoning_that_is_priced_apart_counts_as_completion() -> None:
    found = dearest_of(listing({"prompt": "0", "completion": "0.000002", "internal_reasoning": "0.000009"}))
    assert found.completion_usd == Decimal("0.000009")


def test_prices_for_long_prompts_count_as_well() -> None:
    found = dearest_of(listing({"prompt": "1e-7", "completion": "1e-6", "overrides": [{"prompt": "2e-7"}]}))
    assert found.prompt_usd == Decimal("2e-7")


@pytest.mark.parametrize("pricing", [{}, {"prompt": "1e-7"}, {"prompt": "-1", "completion": "-1"}, None, "free"])
def test_one_host_without_a_price_leaves_all_unknown(pricing) -> None:
    """It may cost anything."""
    assert dearest_of(listing({"prompt": "1e-7", "completion": "1e-6"}, pricing)) is None


HOSTS = {
    "data": {
        "endpoints": [
            {"tag": "moonshotai/int4", "quantization": "int4", "pricing": {"prompt": "6e-7", "completion": "3e-6"}},
            {"tag": "chutes/int4", "quantization": "int4", "pricing": {"prompt": "4e-7", "completion": "2e-6"}},
            {"tag": "deepinfra/fp4", "quantization": "fp4", "pricing": {"prompt": "5e-7", "completion": "9e-6"}},
            {"tag": "silent/int4", "quantization": "int4", "pricing": {}},
        ]
    }
}


@pytest.mark.parametrize(
    ("routing", "completion"),
    [
        ({"only": ["chutes", "moonshotai/int4"]}, "3e-6"),
        ({"only": ["chutes"]}, "2e-6"),
        ({"ignore": ["moonshotai", "silent"]}, "9e-6"),
        ({"quantizations": ["fp4"]}, "9e-6"),
        ({"order": ["chutes"], "allow_fallbacks": False}, "2e-6"),
        ({"ignore": ["silent"], "max_price": {"completion": "3"}}, "3e-6"),
        ({"order": ["chutes"], "ignore": ["silent"]}, "9e-6"),
    ],
)
def test_only_hosts_that_the_routing_allows_set_the_price(routing, completion) -> None:
    assert dearest(HOSTS, Routing.read(routing)).completion_usd == Decimal(completion)


def test_a_host_without_a_price_counts_only_where_it_may_be_chosen() -> None:
    assert dearest(HOSTS, Routing()) is None


def test_a_routing_that_matches_no_host_is_told_with_the_hosts_there_are() -> None:
    with pytest.raises(ConfigurationError, match=r"served by moonshotai/int4 \(int4\), chutes/int4"):
        dearest(HOSTS, Routing(only=["chute"]))


@given(anything)
def test_a_listing_of_any_shape_is_read_or_is_none(value) -> None:
    for shape in (value, {"data": value}, {"data": {"endpoints": value}}, listing(value)):
        found = dearest_of(shape)
        assert found is None or found.completion_usd >= 0


def test_what_is_left_is_the_smaller_of_limit_and_credits() -> None:
    key = {"usage": Decimal("1.25"), "limit_remaining": Decimal("8.75")}
    assert account_from(key, {"total_credits": 20, "total_usage": Decimal("15.5")}) == Account(
        Decimal("1.25"), Decimal("4.5")
    )
    assert account_from(key, {}).left == Decimal("8.75")
    assert account_from({"usage": 0, "limit_remaining": None}, {}).left is None


def test_a_balance_may_be_below_nothing() -> None:
    assert account_from({"usage": 1}, {"total_credits": 5, "total_usage": Decimal("5.25")}).left == Decimal("-0.25")
    assert account_from({"usage": 1, "limit_remaining": Decimal("-0.5")}, {}).left == Decimal("-0.5")


def test_under_byok_the_upstreams_bills_are_part_of_what_was_used() -> None:
    assert account_from({"usage": Decimal("0.1"), "byok_usage": Decimal("2.5")}, {}).usage == Decimal("2.6")


@pytest.mark.parametrize(("included", "left"), [(False, None), (True, Decimal(3))])
def test_under_byok_credits_end_nothing_unless_the_limit_includes_it(included, left) -> None:
    key = {"usage": 1, "byok_usage": Decimal("2.5"), "limit_remaining": 3, "include_byok_in_limit": included}
    assert account_from(key, {"total_credits": 5, "total_usage": 1}).left == left


@given(anything, anything)
def test_an_account_of_any_shape_is_read_or_is_none(key, balance) -> None:
    mapping = key if isinstance(key, dict) else {"usage": key, "limit_remaining": key}
    other = balance if isinstance(balance, dict) else {"total_credits": balance, "total_usage": balance}
    found = account_from(mapping, other)
    assert found is None or found.usage >= 0


RECORD = {
    "model": "moonshotai/kimi-k2.5", "provider_name": "Chutes", "finish_reason": "stop", "native_tokens_prompt": 11,
    "native_tokens_completion": 42, "native_tokens_reasoning": 30, "native_tokens_cached": 4, "tokens_completion": 39,
    "total_cost": Decimal("0.00012345678"),
}  # fmt: skip


def test_a_record_is_read_by_its_native_counts() -> None:
    found = generation_from(RECORD)
    assert found.usage == Usage(
        prompt_tokens=11, completion_tokens=42, reasoning_tokens=30, cached_tokens=4, cost_usd=Decimal("0.00012345678")
    )
    assert (found.host, found.finish_reason) == ("Chutes", "stop")


def test_a_records_cost_under_byok_includes_the_upstreams() -> None:
    own_key = RECORD | {"is_byok": True, "total_cost": 0, "upstream_inference_cost": Decimal("0.002")}
    assert generation_from(own_key).usage.cost_usd == Decimal("0.002")
    assert generation_from(own_key | {"is_byok": False}).usage.cost_usd == 0


@pytest.mark.parametrize("missing", ["native_tokens_completion", "total_cost"])
def test_a_record_without_a_whole_bill_is_none(missing) -> None:
    assert generation_from({name: value for name, value in RECORD.items() if name != missing}) is None


@given(st.dictionaries(st.sampled_from(sorted(RECORD)), anything))
def test_a_record_of_any_shape_is_read_or_is_none(data) -> None:
    found = generation_from(data)
    assert found is None or found.usage.completion_tokens >= 0
