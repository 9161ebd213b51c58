"""Bodies that no endpoint should send: never an exception, and never a success with text missing."""

import copy
import random

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.fuzz_replies import MUTATORS
from benchmarks.fuzz_replies import check as check_claims
from eagle3gen.endpoint import reply as reading
from eagle3gen.endpoint.assembly import assemble
from eagle3gen.endpoint.reply import Reply, read_reply

WHOLE = {
    "id": "gen-1",
    "model": "m",
    "provider": "H",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "content": "CONTENT",
                "reasoning": "REASONING",
                "reasoning_details": [{"type": "reasoning.text", "text": "REASONING"}],
                "tool_calls": [{"id": "functions.f:0", "function": {"name": "NAME", "arguments": "ARGUMENTS"}}],
            },
        }
    ],
    "usage": {
        "prompt_tokens": 3,
        "completion_tokens": 9,
        "cost": 0.001,
        "is_byok": True,
        "cost_details": {"upstream_inference_cost": 0.1},
        "completion_tokens_details": {"reasoning_tokens": 2},
    },
}
FAILED = {
    "error": {
        "code": 429,
        "message": "m",
        "metadata": {"headers": {"Retry-After": "3"}, "retry_after_seconds": 3, "error_type": "x"},
        "availability": {"code": "no_endpoints", "retryable": True, "retry_after": 3},
    },
    "usage": {"completion_tokens": 1},
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
STATUS = st.sampled_from([200, 200, 200, 204, 302, 400, 401, 403, 404, 429, 500, 502, 524, 599])
HEADERS = st.dictionaries(st.sampled_from(["Retry-After", "X-Generation-Id", "location"]), st.text(max_size=9))


def paths(value, at=()):
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from paths(inner, (*at, name))


def changed(whole, path, new):
    if not path:
        return new
    data = copy.deepcopy(whole)
    holder = data
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = new
    return data


def check(reply: Reply) -> None:
    assert (reply.completion is None) != (reply.refusal is None)
    assert isinstance(reply.outcome, str)
    if reply.refusal is not None:
        assert reply.refusal.message.isprintable()
        assert reply.refusal.retry_after_seconds is None or 0 <= reply.refusal.retry_after_seconds <= 86_400
    if reply.completion is not None:
        assert reply.completion.finish_reason in {"stop", "length", "tool_calls"}


@given(STATUS, HEADERS, st.binary(max_size=200))
def test_any_bytes_are_a_reply(status, headers, body):
    """Bytes are a completion or a refusal, and nothing raises."""
    check(read_reply(status, headers, body))


@given(STATUS, HEADERS, JSON)
def test_any_json_is_a_reply(status, headers, value):
    """So is any JSON."""
    check(read_reply(status, headers, orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)))


@settings(max_examples=400)
@given(st.sampled_from([WHOLE, FAILED]), st.data(), JSON, STATUS)
def test_one_changed_value_never_raises(whole, data, new, status):
    """Any one value of a sound body may be anything."""
    path = data.draw(st.sampled_from(list(paths(whole))))
    check(read_reply(status, {}, orjson.dumps(changed(whole, path, new))))


@settings(max_examples=400)
@given(st.data(), JSON.filter(lambda v: not isinstance(v, str)))
def test_a_success_misses_no_text(data, new):
    """Whatever became of one value, a success holds every text that is still in the body, or says some is hidden."""
    path = data.draw(st.sampled_from([p for p in paths(WHOLE["choices"], ("choices",)) if "index" not in p]))
    body = orjson.dumps(changed(WHOLE, path, new))
    reply = read_reply(200, {}, body)
    check(reply)
    if reply.completion is None or reply.completion.hidden_reasoning:
        return
    answer = reply.completion
    held = [answer.content, answer.reasoning, *(t for c in answer.tool_calls for t in (c.name, c.arguments))]
    for text in ("CONTENT", "REASONING", "NAME", "ARGUMENTS"):
        assert text in held or text.encode() not in body


@settings(max_examples=200)
@given(st.integers(0, len(orjson.dumps(WHOLE))))
def test_a_body_cut_anywhere_is_no_success(length):
    """Only the whole body is an answer."""
    body = orjson.dumps(WHOLE)
    assert (read_reply(200, {}, body[:length]).completion is not None) == (length == len(body))


def test_a_deep_body_is_a_reply():
    """Nesting that no parser follows is a refusal."""
    for deep in (b"[" * 100_000, b'{"a":' * 1000 + b"1" + b"}" * 1000, rb'"\ud800"' + b"[" * 100_000):
        assert read_reply(200, {}, deep).completion is None
        assert read_reply(200, {}, b'{"error":{"message":' + deep + b"}}").completion is None


@pytest.mark.parametrize("mutate", dict.fromkeys(MUTATORS), ids=lambda mutate: mutate.__name__)
@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_a_mutated_reply_keeps_every_claim(mutate, seed):
    """Bodies and streams with bytes, values, events or their end changed; `benchmarks.fuzz_replies` runs 100,000."""
    rng = random.Random(seed)
    check_claims(mutate(rng), rng)


def test_the_claims_can_fail(monkeypatch):
    """A reader that believes damaged streams is found out within a few hundred mutations."""
    monkeypatch.setattr(reading, "_broken_stream", lambda data: "")
    mutate_event = next(m for m in MUTATORS if m.__name__ == "mutate_event")

    def hunt():
        for seed in range(2000):
            rng = random.Random(seed)
            check_claims(mutate_event(rng), rng)

    with pytest.raises(AssertionError):
        hunt()


@settings(max_examples=300)
@given(st.lists(st.sampled_from([b"data:", b"data: ", b"{", b"}", b'"choices"', b":", b"[", b"]", b"\n", b"\r", b"x"])))
def test_any_stream_is_put_together(pieces):
    """Whatever stands on its lines."""
    check(read_reply(200, {}, b"data: " + b"".join(pieces)))
    assert isinstance(orjson.loads(assemble(b"".join(pieces))), dict)


def test_a_deep_event_is_a_reply():
    """Nesting that no parser follows is a damaged stream."""
    deep, sound = b"[" * 100_000, b"[" * 900 + b"]" * 900
    choice = b'{"choices":[{"delta":{"content":"a","reasoning_details":[{"type":"x","data":' + sound + b"}]}}]}"
    for event in (b'{"error":{"a":' + sound + b"}}", b'{"choices":[],"usage":{"a":' + sound + b"}}", choice):
        assert read_reply(200, {}, b"data: " + event + b"\n\ndata: [DONE]\n\n").completion is None
    for event in (deep, b'{"choices":' + deep, b'{"usage":' + deep, rb'{"a":"\ud800","b":' + deep):
        assert read_reply(200, {}, b"data: " + event + b"\n\ndata: [DONE]\n\n").completion is None
