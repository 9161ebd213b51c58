"""The JSON that the simulator answers with, and the numbers in it."""

import json
import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator import replies
from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.numbers import dumps, plain
from eagle3gen.simulator.refusals import BadRequest, Refused, error

counts = st.integers(0, 10**6)
shares = st.floats(0, 1)


def read(call) -> dict:
    return json.loads(dumps(replies.completion(call)), parse_float=Decimal)


@given(counts, st.integers(0, 300), st.sampled_from(HOSTS), shares)
def test_the_cost_in_a_reply_is_exact_and_the_sum_of_its_parts(called, prompt, completion, host, share) -> None:
    """Price times tokens, to the last digit, however small; tokens in the cache at their own price."""
    cached = int(prompt * share)
    usage = read(called(host=host, prompt=prompt, completion=completion, cached=cached))["usage"]
    details, cheaper = usage["cost_details"], host.cached_usd_per_million or host.prompt_usd_per_million
    parts = [Decimal(details[f"upstream_inference_{name}_cost"]) for name in ("prompt", "completions")]
    assert Decimal(usage["cost"]) == sum(parts) == Decimal(details["upstream_inference_cost"])
    assert parts[0] * 1_000_000 == host.prompt_usd_per_million * (prompt - cached) + cheaper * cached
    assert parts[1] * 1_000_000 == host.completion_usd_per_million * completion
    assert usage["total_tokens"] == prompt + completion
    assert usage["prompt_tokens_details"]["cached_tokens"] == cached


@given(counts, st.integers(1, 300), st.sampled_from([0.0, 0.05, 1.0]))
def test_under_the_clients_own_key_only_the_fee_is_charged(called, prompt, completion, fee) -> None:
    usage = read(called(prompt=prompt, completion=completion, fee=fee))["usage"]
    upstream = Decimal(usage["cost_details"]["upstream_inference_cost"])
    assert usage["is_byok"] is True
    assert upstream == HOSTS[0].price(prompt, completion).total
    assert Decimal(usage["cost"]) == upstream * Decimal(str(fee))


def test_a_usage_without_cost_tells_the_counts_only(called) -> None:
    usage = read(called(faults={"no_cost"}))["usage"]
    assert usage["completion_tokens"] == 3
    assert not {"cost", "is_byok", "cost_details"} & usage.keys()


def test_a_reply_may_have_no_usage(called) -> None:
    assert "usage" not in read(called(faults={"no_usage"}))


@pytest.mark.parametrize(("asked", "told"), [("a/b", "a/b-0127"), ("a/b-0127", "a/b-0127")])
def test_the_dated_name_of_the_model_is_told(called, asked, told) -> None:
    assert read(called(model=asked))["model"] == told


@pytest.mark.parametrize(
    ("finish", "calls", "content"),
    [("length", False, ""), ("stop", False, ""), ("tool_calls", True, None), (None, True, None), ("length", True, "")],
)
def test_an_answer_without_content_says_nothing_or_null(called, voice, finish, calls, content) -> None:
    tools = [{"function": {"name": "f"}}]
    made = voice.answer(random.Random(1), 20, 1000, tools).calls if calls else []
    message = read(called(finish=finish, content=None, calls=made))["choices"][0]["message"]
    assert message["content"] == content
    assert len(message.get("tool_calls", ())) == len(made)


def test_an_error_has_its_code_its_sentence_and_what_else_is_known() -> None:
    told = json.loads(error(429, "slow down", provider_name="Chutes"))["error"]
    assert told == {"code": 429, "message": "slow down", "metadata": {"provider_name": "Chutes"}}
    assert "metadata" not in json.loads(error(401, "no"))["error"]


def test_a_refusal_is_the_error_that_it_becomes() -> None:
    refused = Refused(404, "nobody", {"available_providers": ["chutes"]})
    assert json.loads(refused.body)["error"] == {
        "code": 404,
        "message": "nobody",
        "metadata": {"available_providers": ["chutes"]},
    }
    assert BadRequest("what").code == 400


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=12))
def test_a_decimal_is_written_with_every_digit_and_without_exponent(amount) -> None:
    text = dumps({"amount": amount}).decode()
    assert "e" not in text.lower().replace("amount", "")
    assert json.loads(text, parse_float=Decimal, parse_int=Decimal)["amount"] == amount
    assert Decimal(plain(amount)) == amount


def test_what_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        dumps({"x": object()})
