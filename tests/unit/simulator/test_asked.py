"""What counts as a call, and what a client is told that asks for something else."""

import contextlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.asked import LIMIT_DEFAULT, BadRequest, read_asked

MESSAGE = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "f"}}


def body(**fields) -> bytes:
    return orjson.dumps({"model": "m", "messages": [MESSAGE], **fields})


def test_a_plain_call_is_read() -> None:
    asked = read_asked(body(max_tokens=7))
    assert (asked.model, asked.messages, asked.tools, asked.limit) == ("m", [MESSAGE], [], 7)
    assert not asked.may_call_tools


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, LIMIT_DEFAULT),
        ({"max_tokens": None}, LIMIT_DEFAULT),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": 5, "max_completion_tokens": None}, 5),
    ],
)
def test_the_newer_name_of_the_limit_counts_first(fields, limit) -> None:
    assert read_asked(body(**fields)).limit == limit


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "\\ud800"}]}', "not JSON"),
        (b"[]", "not an object"),
        (body(messages=[]), "messages"),
        (body(messages="Hi"), "messages"),
        (body(messages=["Hi"]), "messages"),
        (body(messages=[{"content": "no role"}]), "messages"),
        (body(messages=[{"role": "assistant", "tool_calls": 3}]), "tool_calls"),
        (body(messages=[{"role": "assistant", "tool_calls": ["f"]}]), "tool_calls"),
        (body(tools={"a": 1}), "tools"),
        (body(tools=[{"type": "function"}]), "tools"),
        (body(tools=[{"type": "function", "function": {}}]), "tools"),
        (body(model=None), "model is missing"),
        (body(model=""), "model is missing"),
        (body(max_tokens=0), "max_tokens"),
        (body(max_tokens=-4), "max_tokens"),
        (body(max_tokens="many"), "max_tokens"),
        (body(max_tokens=1.5), "max_tokens"),
        (body(max_tokens=True), "max_tokens"),
        (body(stream_options=[1]), "stream_options"),
        (body(model=None, models=[3]), "model is missing"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_what_is_wrong(raw, says) -> None:
    with pytest.raises(BadRequest, match=says):
        read_asked(raw)


def test_only_the_models_that_are_named_are_answered() -> None:
    assert read_asked(body(), ("other", "m")).model == "m"
    with pytest.raises(BadRequest, match="m is not a valid model ID"):
        read_asked(body(), ("other",))


@pytest.mark.parametrize(("choice", "may"), [(None, True), ("auto", True), ("required", True), ("none", False)])
def test_a_client_that_chooses_no_tool_gets_no_tool_call(choice, may) -> None:
    assert read_asked(body(tools=[TOOL], tool_choice=choice)).may_call_tools is may


def test_the_calls_of_the_whole_conversation_count() -> None:
    calls = [{"id": "a"}, {"id": "b"}]
    history = [MESSAGE, {"role": "assistant", "tool_calls": calls}, {"role": "assistant", "tool_calls": None}]
    history.append({"role": "assistant", "tool_calls": calls[:1]})
    assert read_asked(body(messages=history)).earlier_calls == 3


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"stream": True}, "stream"),
        ({"return_token_ids": True}, "wants_ids"),
        ({"logprobs": True}, "wants_logprobs"),
        ({"stream_options": {"include_usage": True}}, "wants_usage"),
        ({"max_tokens": 5}, "limit_told"),
    ],
)
def test_what_is_asked_for_is_read(fields, name) -> None:
    assert getattr(read_asked(body(**fields)), name) is True
    assert getattr(read_asked(body()), name) is False


def test_the_fields_that_a_host_must_understand_are_named() -> None:
    assert read_asked(body(top_k=3, seed=1, user="x")).parameters == {"top_k", "seed"}


def test_the_first_fallback_that_is_served_is_the_model() -> None:
    assert read_asked(body(models=["n", "o"]), ("o", "n")).model == "n"
    assert read_asked(body(model=None, models=["n"])).model == "n"


texts = st.text("ab/é1", max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(
    ["model", "models", "messages", "tools", "tool_choice", "max_tokens", "stream", "stream_options", "provider"]
)
wishes = st.sampled_from(["order", "only", "ignore", "quantizations", "sort", "max_price", "allow_fallbacks"])


@given(st.dictionaries(names, values) | st.builds(lambda wish: {"provider": wish}, st.dictionaries(wishes, values)))
def test_whatever_is_sent_is_read_or_refused(fields) -> None:
    with contextlib.suppress(BadRequest):
        assert read_asked(body(**fields)).limit >= 1
