"""Routing: what is asked of the hosts, checked before it is sent."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.endpoint.routing import QUANTIZATIONS, Routing
from eagle3gen.errors import InputError


def test_nothing_asked_is_nothing_sent():
    """So that the account's own settings hold."""
    assert Routing().provider() == {}


def test_everything_asked_is_sent_under_its_name():
    """Prices as strings, lists as lists."""
    options = {
        "order": ["moonshotai/int4", "parasail"],
        "only": ["moonshotai/int4", "parasail", "chutes"],
        "ignore": ["deepinfra/turbo"],
        "allow_fallbacks": False,
        "require_parameters": True,
        "quantizations": ["int4"],
        "max_price": {"prompt": "0.60", "completion": 3.1},
        "data_collection": "deny",
        "zdr": True,
        "enforce_distillable_text": True,
        "sort": {"by": "price", "partition": "none"},
    }
    assert Routing.read(options).provider() == {**options, "max_price": {"prompt": "0.60", "completion": "3.1"}}


def test_a_plain_false_is_sent():
    """It differs from not asking: `allow_fallbacks` is on by default."""
    assert Routing(allow_fallbacks=False).provider() == {"allow_fallbacks": False}


@given(st.decimals(min_value=0, max_value=1000, places=6))
def test_no_digit_of_a_price_is_lost(price):
    """Prices pass as they were written."""
    assert Decimal(Routing(max_price={"completion": price}).provider()["max_price"]["completion"]) == price


WRONG = [
    ({"onyl": ["chutes"]}, r"routing option onyl is not known; did you mean only\?"),
    ({"frobnicate": 1}, "routing option frobnicate is not known$"),
    ({"quantizations": ["int-4"]}, r"quantizations cannot be 'int-4'; did you mean int4\?"),
    ({"quantizations": ["FP8"]}, r"did you mean fp8\?"),
    ({"quantizations": ["xyz"]}, "use one of int4, int8"),
    ({"quantizations": "int4"}, "quantizations must be a list of strings"),
    ({"order": "chutes"}, "order must be a list of strings"),
    ({"only": ["Moonshot AI"]}, "hosts go by their slug"),
    ({"only": [5]}, "must be a list of strings"),
    ({"only": ["chutes", "chutes"]}, "names a host twice"),
    ({"only": ["chutes"], "ignore": ["chutes"]}, "both asks for and ignores chutes"),
    ({"allow_fallbacks": "yes"}, "allow_fallbacks must be true or false"),
    ({"zdr": 1}, "zdr must be true or false"),
    ({"max_price": {"completions": "3"}}, r"did you mean completion\?"),
    ({"max_price": {"prompt": "cheap"}}, "USD per million tokens"),
    ({"max_price": {"prompt": "-1"}}, "USD per million tokens"),
    ({"max_price": {"prompt": True}}, "USD per million tokens"),
    ({"max_price": {"prompt": "NaN"}}, "USD per million tokens"),
    ({"max_price": 3}, "max_price must be an object"),
    ({"data_collection": "denied"}, r"did you mean deny\?"),
    ({"sort": "cheapest"}, "sort cannot be 'cheapest'"),
    ({"sort": "prices"}, r"did you mean price\?"),
    ({"sort": {"by": "speed"}}, r"sort.by cannot be 'speed'"),
    ({"sort": {"by": "price", "partition": "hosts"}}, "sort.partition cannot be"),
    ({"sort": {"from": "price"}}, "sort cannot be 'from'"),
]


@pytest.mark.parametrize(("options", "sentence"), WRONG)
def test_what_cannot_be_asked_is_one_sentence(options, sentence):
    """With the nearest word where there is one."""
    with pytest.raises(InputError, match=sentence) as caught:
        Routing.read(options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_quantization_of_the_api_is_known(quantization):
    """As its documentation lists them."""
    assert Routing(quantizations=[quantization]).provider() == {"quantizations": [quantization]}
