"""Which host answers a call, and what is said when none may."""

import random
from collections import Counter
from dataclasses import replace
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.asked import read_asked
from eagle3gen.simulator.host import HOSTS, PARAMETERS
from eagle3gen.simulator.refusals import BadRequest, Refused
from eagle3gen.simulator.routing import candidates, in_turn

MOONSHOT, INCEPTRON, CHUTES = HOSTS
FP8 = replace(CHUTES, name="DeepInfra", tag="deepinfra/fp8", quantization="fp8")
TURBO = replace(CHUTES, name="DeepInfra", tag="deepinfra/turbo", completion_usd_per_million=Decimal(1))
TOOL = {"type": "function", "function": {"name": "f"}}


def asked(provider=None, **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "provider": provider, **fields}
    return read_asked(orjson.dumps(body))


def left(provider=None, hosts=HOSTS, **fields) -> list[str]:
    return [host.tag for host in candidates(hosts, asked(provider, **fields))]


def refused(provider=None, hosts=HOSTS, **fields) -> Refused:
    with pytest.raises(Refused) as caught:
        candidates(hosts, asked(provider, **fields))
    assert caught.value.code == 404
    return caught.value


@pytest.mark.parametrize(
    ("provider", "tags"),
    [
        (None, ["moonshotai/int4", "inceptron/int4", "chutes/int4"]),
        ({}, ["moonshotai/int4", "inceptron/int4", "chutes/int4"]),
        ({"only": ["chutes"]}, ["chutes/int4"]),
        ({"only": ["chutes/int4", "nobody"]}, ["chutes/int4"]),
        ({"only": ["Moonshot AI"]}, ["moonshotai/int4"]),
        ({"ignore": ["chutes", "inceptron/int4"]}, ["moonshotai/int4"]),
        ({"only": ["chutes", "inceptron"], "ignore": ["chutes"]}, ["inceptron/int4"]),
        ({"order": ["chutes"]}, ["moonshotai/int4", "inceptron/int4", "chutes/int4"]),
        ({"order": ["chutes"], "allow_fallbacks": False}, ["chutes/int4"]),
        ({"order": ["chutes"], "only": ["chutes", "inceptron"], "allow_fallbacks": False}, ["chutes/int4"]),
        ({"quantizations": ["int4", "fp8"]}, ["moonshotai/int4", "inceptron/int4", "chutes/int4"]),
        ({"max_price": {"completion": 2.2}}, ["inceptron/int4", "chutes/int4"]),
        ({"max_price": {"prompt": "0.5", "completion": "2"}}, ["chutes/int4"]),
        ({"max_price": {}}, ["moonshotai/int4", "inceptron/int4", "chutes/int4"]),
        ({"data_collection": "deny", "zdr": True}, ["moonshotai/int4", "inceptron/int4", "chutes/int4"]),
    ],
)
def test_wishes_leave_the_hosts_that_meet_them(provider, tags) -> None:
    assert left(provider) == tags


def test_a_base_slug_means_every_variant_and_a_full_one_means_one() -> None:
    hosts = (FP8, TURBO, CHUTES)
    assert left({"only": ["deepinfra"]}, hosts) == ["deepinfra/fp8", "deepinfra/turbo"]
    assert left({"only": ["deepinfra/turbo"]}, hosts) == ["deepinfra/turbo"]
    assert left({"ignore": ["deepinfra"]}, hosts) == ["chutes/int4"]


def test_other_quantizations_are_left_out() -> None:
    assert left({"quantizations": ["fp8"]}, (FP8, *HOSTS)) == ["deepinfra/fp8"]


def test_names_that_serve_nothing_are_answered_with_both_sets() -> None:
    error = refused({"only": ["fireworks", "together"]})
    assert str(error) == "No allowed providers are available for the selected model."
    assert error.metadata == {
        "available_providers": ["moonshotai", "inceptron", "chutes"],
        "requested_providers": ["fireworks", "together"],
    }


@pytest.mark.parametrize(
    ("provider", "says"),
    [
        ({"order": ["fireworks"], "allow_fallbacks": False}, "No allowed providers are available"),
        ({"ignore": ["moonshotai", "inceptron", "chutes"]}, "All providers have been ignored"),
        ({"quantizations": ["fp8"]}, "No endpoints found matching the requested quantizations"),
        ({"max_price": {"completion": 1}}, "No endpoints found matching your max price"),
        ({"max_price": {"prompt": 0.1}}, "No endpoints found matching your max price"),
    ],
)
def test_what_leaves_no_host_is_said(provider, says) -> None:
    error = refused(provider)
    assert str(error).startswith(says)
    assert error.metadata["available_providers"] == ["moonshotai", "inceptron", "chutes"]


def test_the_hosts_that_a_wish_excluded_last_are_told() -> None:
    assert refused({"only": ["chutes"], "max_price": {"prompt": 0}}).metadata["requested_providers"] == ["chutes"]


def test_tools_need_a_host_that_knows_them() -> None:
    plain = replace(CHUTES, parameters=("max_tokens",))
    assert left(None, (plain, MOONSHOT), tools=[TOOL]) == ["moonshotai/int4"]
    assert str(refused(None, (plain,), tools=[TOOL])).startswith("No endpoints found that support tool use")


def test_only_a_client_that_requires_its_parameters_loses_a_host_by_them() -> None:
    plain = replace(CHUTES, parameters=tuple(name for name in PARAMETERS if name != "top_k"))
    assert left(None, (plain,), top_k=3) == ["chutes/int4"]
    error = refused({"require_parameters": True}, (plain,), top_k=3)
    assert str(error).startswith("No endpoints found that can handle the requested parameters")


def test_a_limit_that_is_told_leaves_out_hosts_with_a_lower_one() -> None:
    assert left(None, max_tokens=65_536) == ["moonshotai/int4", "inceptron/int4"]
    assert left(None) == ["moonshotai/int4", "inceptron/int4", "chutes/int4"]
    assert "requested parameters" in str(refused(None, max_tokens=10**6))


def test_a_prompt_that_is_too_long_for_a_host_goes_to_another() -> None:
    small = replace(CHUTES, context_length=1000)
    assert candidates((small, MOONSHOT), asked(max_tokens=600), 500) == [MOONSHOT]
    assert candidates((small, MOONSHOT), asked(max_tokens=500), 500) == [small, MOONSHOT]
    assert candidates((small, MOONSHOT), asked(), 999) == [small, MOONSHOT]


def test_a_prompt_that_is_too_long_for_all_is_told_the_numbers() -> None:
    small = replace(CHUTES, context_length=1000)
    with pytest.raises(Refused) as caught:
        candidates((small,), asked(max_tokens=600), 500)
    assert caught.value.code == 400
    assert str(caught.value).startswith(
        "This endpoint's maximum context length is 1000 tokens. However, you requested about 1100 tokens "
        "(500 of text input, 600 in the output)."
    )


@pytest.mark.parametrize(
    "provider",
    [
        "chutes",
        {"unknown": 1},
        {"only": "chutes"},
        {"order": [3]},
        {"allow_fallbacks": "no"},
        {"quantizations": ["int5"]},
        {"sort": "beauty"},
        {"sort": ["price"]},
        {"sort": {"by": {}}},
        {"max_price": 3},
        {"max_price": {"prompt": "cheap"}},
    ],
)
def test_a_wish_that_cannot_be_understood_is_a_bad_request(provider) -> None:
    with pytest.raises(BadRequest, match="provider"):
        asked(provider)


def order(provider, seed: int = 0, hosts=HOSTS) -> list[str]:
    return [host.slug for host in in_turn(hosts, asked(provider).wishes, random.Random(seed))]


def test_an_order_is_kept_and_the_rest_falls_back_by_price() -> None:
    assert order({"order": ["moonshotai"]}) == ["moonshotai", "chutes", "inceptron"]
    assert order({"order": ["inceptron", "moonshotai"]}) == ["inceptron", "moonshotai", "chutes"]


@pytest.mark.parametrize(
    ("sort", "first"), [("price", "chutes"), ({"by": "price"}, "chutes"), ("latency", "moonshotai")]
)
def test_sorting_switches_the_draw_off(sort, first) -> None:
    assert {order({"sort": sort}, seed)[0] for seed in range(30)} == {first}


def test_unpinned_calls_are_drawn_by_the_inverse_square_of_the_price() -> None:
    firsts = Counter(order(None, seed)[0] for seed in range(4000))
    weights = {host.slug: 1 / float(host.completion_usd_per_million) ** 2 for host in HOSTS}
    for slug, weight in weights.items():
        assert abs(firsts[slug] / 4000 - weight / sum(weights.values())) < 0.03


def test_a_host_that_costs_nothing_can_be_drawn() -> None:
    free = replace(CHUTES, completion_usd_per_million=Decimal(0))
    assert "chutes" in {order(None, seed, (MOONSHOT, free))[0] for seed in range(100)}


@given(st.integers(), st.sampled_from([None, {"order": ["chutes"]}, {"sort": "price"}, {"sort": "throughput"}]))
def test_every_host_is_asked_once(seed, provider) -> None:
    assert sorted(order(provider, seed)) == sorted(host.slug for host in HOSTS)
