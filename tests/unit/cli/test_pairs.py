"""Routing and sampling as they are typed."""

import pytest

from eagle3gen.cli import pairs
from eagle3gen.endpoint.routing import Routing
from eagle3gen.errors import InputError


def test_routing_reads_lists_words_and_prices() -> None:
    typed = [
        "only=moonshotai/int4, chutes", "only=inceptron", "quantizations=int4", "allow_fallbacks=false",
        "max_price.completion=3.00", "max_price.prompt=0.6", "data_collection=deny",
    ]  # fmt: skip
    assert Routing.read(pairs.routing(typed)).provider() == {
        "only": ["moonshotai/int4", "chutes", "inceptron"],
        "quantizations": ["int4"],
        "allow_fallbacks": False,
        "max_price": {"completion": "3.00", "prompt": "0.6"},
        "data_collection": "deny",
    }


def test_nothing_typed_is_nothing_asked() -> None:
    assert Routing.read(pairs.routing([])).provider() == {}
    assert pairs.sampling([]) == {}


def test_sampling_values_are_json_where_they_are_json() -> None:
    typed = ["temperature=0.6", "seed=7", 'reasoning={"effort": "high"}', "service_tier=flex"]
    assert pairs.sampling(typed) == {
        "temperature": 0.6, "seed": 7, "reasoning": {"effort": "high"}, "service_tier": "flex",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("read", "typed", "said"),
    [
        (pairs.routing, "only", "--routing 'only' is no KEY=VALUE"),
        (pairs.sampling, "=1", "--sampling '=1' is no KEY=VALUE"),
        (pairs.sampling, "temperature=9", "temperature must be between 0 and 2"),
        (pairs.sampling, "max_tokens=5", "sampling cannot set max_tokens"),
        (pairs.sampling, "temprature=1", "did you mean temperature"),
        (lambda typed: Routing.read(pairs.routing(typed)), "quantization=int4", "did you mean quantizations"),
    ],
)
def test_what_cannot_be_asked_is_told_before_anything_is_spent(read, typed, said) -> None:
    with pytest.raises(InputError, match=said):
        read([typed])
