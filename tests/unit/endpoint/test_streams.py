"""Streams: put together into the plain form, judged alike, and never believed when text may be missing."""

import itertools
from decimal import Decimal

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.endpoint import assembly as assembling
from eagle3gen.endpoint.assembly import Assembly, assemble
from eagle3gen.endpoint.refusal import Billed, Decision
from eagle3gen.endpoint.reply import read_reply
from eagle3gen.records import ToolCall

HEAD = {"id": "gen-1", "object": "chat.completion.chunk", "created": 7, "model": "m-0127", "provider": "Chutes"}
USAGE = {"prompt_tokens": 5, "completion_tokens": 9, "cost": 0.00012}
COMMENT = b": OPENROUTER PROCESSING\n\n"
DONE = b"data: [DONE]\n\n"


def event(value) -> bytes:
    return b"data: " + (value if isinstance(value, bytes) else orjson.dumps(value)) + b"\n\n"


def chunk(finish=None, *, index=0, more=None, inside=None, **delta) -> bytes:
    choice = {"index": index, "delta": {"role": "assistant", **delta}, "finish_reason": finish, **(inside or {})}
    return event({**HEAD, "choices": [choice], **(more or {})})


def thought(text) -> bytes:
    details = [{"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}]
    return chunk(content="", reasoning=text, reasoning_details=details)


def call(index=0, **function) -> bytes:
    piece = {"index": index, "function": function}
    if "name" in function:
        piece |= {"id": f"functions.{function['name']}:{index}", "type": "function"}
    return chunk(content=None, tool_calls=[piece])


BILL = chunk("stop", content="", more={"usage": USAGE})
WHOLE = (COMMENT, thought(" Be"), thought("cause"), chunk(content=" y"), chunk(content="es"), chunk("stop"), BILL, DONE)


def completed(*events):
    reply = read_reply(200, {"Content-Type": "text/event-stream"}, b"".join(events))
    assert reply.refusal is None
    assert reply.completion is not None
    return reply.completion


def refused(*events):
    reply = read_reply(200, {"X-Generation-Id": "gen-7"}, b"".join(events))
    assert reply.completion is None
    assert reply.refusal is not None
    return reply.refusal


def test_a_stream_is_one_answer():
    """Reasoning, content, origin and bill, with the finish on two chunks."""
    answer = completed(*WHOLE)
    assert (answer.reasoning, answer.content, answer.finish_reason) == (" Because", " yes", "stop")
    assert (answer.generation_id, answer.model, answer.host) == ("gen-1", "m-0127", "Chutes")
    assert (answer.usage.completion_tokens, answer.usage.cost_usd) == (9, Decimal("0.00012"))
    assert not answer.hidden_reasoning


def test_what_is_stored_is_the_plain_form():
    """Small, marked as streamed, and read again as the same answer."""
    reply = read_reply(200, {}, b"".join(WHOLE))
    stored = orjson.loads(reply.body)
    assert stored["object"] == "chat.completion"
    assert stored["streamed"] == {"events": 6, "done": True}
    message = stored["choices"][0]["message"]
    assert (message["reasoning"], message["content"]) == (" Because", " yes")
    assert len(message["reasoning_details"]) == 1
    assert read_reply(200, {}, reply.body).completion == reply.completion


def test_usage_may_come_without_choices():
    """On a chunk whose choices are empty."""
    answer = completed(chunk(content="hi"), chunk("stop"), event({**HEAD, "choices": [], "usage": USAGE}), DONE)
    assert answer.usage.completion_tokens == 9


@pytest.mark.parametrize("cost", [b"0.1234567890123456789", b"1e-05", b"0.10", b"0.0005738"])
def test_no_digit_of_a_streamed_cost_is_lost(cost):
    """The bill is copied as it was written, whatever else spells its name."""
    bill = event(orjson.dumps({**HEAD, "choices": []})[:-1] + b',"usage":{"completion_tokens":9,"cost":' + cost + b"}}")
    answer = completed(chunk(content='"usage": {"cost": 5}'), chunk("stop"), bill, DONE)
    assert answer.usage.cost_usd == Decimal(cost.decode())


def test_tool_calls_are_joined_by_index():
    """Names and arguments of two calls, in pieces and mixed."""
    pieces = [
        call(0, name="f", arguments=""),
        call(1, name="g", arguments=""),
        *[call(0, arguments=a) for a in ("{", '"a": ', "2}")],
        call(1, arguments="{}"),
        chunk("tool_calls"),
        DONE,
    ]
    assert completed(*pieces).tool_calls == (
        ToolCall(id="functions.f:0", name="f", arguments='{"a": 2}'),
        ToolCall(id="functions.g:1", name="g", arguments="{}"),
    )


def test_calls_with_other_ids_under_one_index_are_two_calls():
    """Some servers count wrongly."""
    pieces = [chunk(tool_calls=[{"index": 0, "id": i, "function": {"name": i, "arguments": "{}"}}]) for i in "ab"]
    assert [c.name for c in completed(*pieces, chunk("tool_calls"), DONE).tool_calls] == ["a", "b"]


def test_a_call_without_an_index_goes_on_with_the_last():
    """Or opens one when there is none."""
    first = chunk(tool_calls=[{"id": "x", "function": {"name": "f", "arguments": "{"}}])
    last = chunk(tool_calls=[{"function": {"arguments": "}"}}])
    assert completed(first, last, chunk("tool_calls"), DONE).tool_calls[0].arguments == "{}"


def test_halves_of_a_character_are_made_whole():
    """Escaped halves in two events are one character."""
    first, second = (chunk(content="X").replace(b"X", half) for half in (rb"\ud83d", rb"\ude00"))
    assert completed(first, second, chunk("stop"), DONE).content == "😀"


def test_half_a_character_that_stays_alone_stays():
    """The judge of ids will call it lossy."""
    assert completed(chunk(content="X").replace(b"X", rb"a\ud83d"), chunk("stop"), DONE).content == "a\ud83d"


def test_encrypted_reasoning_is_hidden():
    """As in the plain form."""
    details = [{"type": "reasoning.encrypted", "data": "gAAA"}]
    assert completed(chunk(reasoning_details=details), chunk(content="hi"), chunk("stop"), DONE).hidden_reasoning


def test_token_ids_and_logprobs_are_joined():
    """vLLM tells the prompt's ids once, and those of the answer with each chunk."""
    logprob = {"token": "token_id:7", "bytes": [104], "logprob": -0.1}
    answer = completed(
        chunk(content="", more={"prompt_token_ids": [1, 2]}),
        chunk(content="h", inside={"token_ids": [7], "logprobs": {"content": [logprob]}}),
        chunk("stop", content="i", inside={"token_ids": [8, 9], "logprobs": {"content": [logprob]}}),
        DONE,
    )
    assert (answer.prompt_token_ids, answer.output_token_ids) == ((1, 2), (7, 8, 9))
    assert answer.output_token_bytes == (b"h", b"h")


ODD_FORMS = {
    "CRLF": lambda raw: raw.replace(b"\n", b"\r\n"),
    "CR": lambda raw: raw.replace(b"\n", b"\r"),
    "no space after the colon": lambda raw: raw.replace(b"data: ", b"data:"),
    "byte order mark": lambda raw: b"\xef\xbb\xbf" + raw,
    "single line ends": lambda raw: raw.replace(b"\n\n", b"\n"),
    "names and ids": lambda raw: raw.replace(b"data: {", b"event: message\nid: 5\ndata: {"),
    "an event over two lines": lambda raw: raw.replace(b'data: {"id"', b'data: {\ndata: "id"'),
    "empty events": lambda raw: raw.replace(b"\n\n", b"\n\ndata:\n\ndata\n\n"),
    "bare comments": lambda raw: raw.replace(b"\n\n", b"\n\n: \n\n:\n\n"),
    "no last line end": lambda raw: raw.rstrip(),
    "no DONE": lambda raw: raw.removesuffix(DONE),
    "DONE cut": lambda raw: raw.removesuffix(b"ONE]\n\n"),
}


@pytest.mark.parametrize("form", ODD_FORMS.values(), ids=ODD_FORMS)
def test_every_form_of_the_standard_is_read(form):
    """Line ends, comments and fields of all kinds change nothing."""
    answer = completed(form(b"".join(WHOLE)))
    assert (answer.reasoning, answer.content, answer.usage.completion_tokens) == (" Because", " yes", 9)


DAMAGED = {
    "a broken event": (chunk(content="a"), b'data: {"id":"gen-1","choices":[{"del\n\n', chunk("stop"), DONE),
    "an event that is a list": (chunk(content="a"), event([1]), chunk("stop"), DONE),
    "a line of no kind": (chunk(content="a"), chunk(content="b")[3:], chunk("stop"), DONE),
    "no choices": (chunk(content="a"), event({**HEAD, "choicez": []}), chunk("stop"), DONE),
    "a choice of no shape": (chunk(content="a"), event({**HEAD, "choices": [5]}), chunk("stop"), DONE),
    "a delta of no shape": (chunk(content="a"), chunk(inside={"delta": "text"}), chunk("stop"), DONE),
    "content of no shape": (chunk(content="a"), chunk(content={"a": 1}), chunk("stop"), DONE),
    "arguments of no shape": (call(name="f", arguments={"a": 1}), chunk("tool_calls"), DONE),
    "details of no shape": (chunk(content="a", reasoning_details=["x"]), chunk("stop"), DONE),
    "bytes that are no text": (chunk(content="a"), chunk(content="X").replace(b"X", b"\xff"), chunk("stop"), DONE),
    "cut in an event": (chunk(content="a"), chunk("stop"), chunk(content="b")[:-20]),
    "broken off": (COMMENT, chunk(content="a"), chunk(content="b")),
    "comments only": (COMMENT, COMMENT),
}


@pytest.mark.parametrize("events", DAMAGED.values(), ids=DAMAGED)
def test_a_stream_with_text_missing_is_cut_off(events):
    """It is tried again and may have been billed; its id is known."""
    refusal = refused(*events)
    assert (refusal.kind, refusal.decision, refusal.billed) == ("cut_off", Decision.RETRY, Billed.MAYBE)
    assert refusal.generation_id in {"gen-1", "gen-7"}


def test_a_stream_that_ended_without_a_finish_reason_is_a_defect():
    """It says that it is done, and not how."""
    assert refused(chunk(content="a"), DONE).kind == "no_finish_reason"


def test_two_streamed_answers_are_a_defect():
    """One was asked for."""
    assert refused(chunk("stop", content="a"), chunk("stop", index=1, content="b"), DONE).kind == "malformed"


def test_contradicting_finish_reasons_are_not_whole():
    """A limit is believed over an end."""
    assert completed(chunk("length", content="a"), chunk("stop"), DONE).finish_reason == "length"


def mid_stream(code, **more):
    return chunk("error", content="", more={"error": {"code": code, "message": "it failed"}, **more})


@pytest.mark.parametrize(
    ("events", "kind", "billed"),
    [
        ((thought("a"), mid_stream(502), DONE), "host_failed", Billed.MAYBE),
        ((thought("a"), mid_stream(429), DONE), "rate_limited", Billed.MAYBE),
        ((COMMENT, mid_stream(429), DONE), "rate_limited", Billed.NO),
        ((COMMENT, mid_stream(503), DONE), "unavailable", Billed.NO),
        ((thought("a"), mid_stream("provider_overloaded"), DONE), "overloaded", Billed.MAYBE),
        ((thought("a"), mid_stream(400, usage={**USAGE, "cost": 0}), DONE), "host_refused", Billed.NO),
        ((thought("a"), mid_stream(402), DONE), "host_refused", Billed.MAYBE),
        ((thought("a"), mid_stream("max_tokens_exceeded"), DONE), "invalid_request", Billed.MAYBE),
        ((COMMENT, mid_stream(400), DONE), "invalid_request", Billed.NO),
        ((thought("a"), mid_stream(502, usage=USAGE), DONE), "host_failed", Billed.YES),
        ((thought("a"), event({"error": {"code": 502, "message": "m"}})), "host_failed", Billed.MAYBE),
        ((thought("a"), event({"object": "error", "message": "m", "code": 500}), DONE), "server_error", Billed.MAYBE),
        ((thought("a"), b'{"error":{"code":502,"message":"m"}}\n\n'), "host_failed", Billed.MAYBE),
        ((thought("a"), chunk(inside={"error": {"code": 502, "message": "m"}}), DONE), "host_failed", Billed.MAYBE),
        ((thought("a"), chunk("error"), DONE), "host_failed", Billed.MAYBE),
    ],
)
def test_an_error_in_the_middle_wins_over_the_text(events, kind, billed):
    """Whatever was written before it may have been billed, unless the bill says otherwise."""
    refusal = refused(*events)
    assert (refusal.kind, refusal.billed) == (kind, billed)


def test_a_limit_that_was_met_fails_the_prompt():
    """A finish reason of length and then an error: the same limit would be met again."""
    broken = chunk(more={"error": {"code": 400, "message": "no more room"}})
    refusal = refused(thought("a"), chunk("length"), broken, DONE)
    assert (refusal.kind, refusal.outcome) == ("too_long", "permanent_prompt")


def test_an_error_before_a_stream_is_read_like_any_other():
    """Its status counts."""
    reply = read_reply(429, {"Retry-After": "7"}, event({"error": {"code": 429, "message": "slow down"}}))
    assert reply.refusal is not None
    assert (reply.refusal.kind, reply.refusal.retry_after_seconds) == ("rate_limited", 7.0)


PIECES = st.lists(
    st.one_of(
        st.builds(thought, st.text(max_size=4)),
        st.builds(lambda t: chunk(content=t), st.text(max_size=4)),
        st.builds(lambda t: call(0, arguments=t), st.text(max_size=4)),
        st.just(COMMENT),
    ),
    max_size=12,
)


@settings(max_examples=100)
@given(PIECES, st.lists(st.integers(0, 5000)), st.integers(1, 400))
def test_it_matters_not_where_a_stream_is_cut_into_chunks(pieces, cuts, fold):
    """Nor how often its text is taken out: the plain body is the same."""
    raw = b"".join([*pieces, chunk("stop"), BILL, DONE])
    edges = sorted({0, len(raw), *(c for c in cuts if c < len(raw))})
    whole = assemble(raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembling, "FOLD_BYTES", fold)
        assembly = Assembly()
        for start, end in itertools.pairwise(edges):
            assembly.feed(raw[start:end])
        assert assembly.body() == whole


@settings(max_examples=100)
@given(st.lists(st.text(max_size=6)), st.lists(st.text(max_size=6)))
def test_every_text_comes_through_a_stream(thoughts, texts):
    """Reasoning and content are joined without a loss."""
    answer = completed(*map(thought, thoughts), *[chunk(content=t) for t in texts], chunk("stop", content="."), DONE)
    assert answer.reasoning == ("".join(thoughts) or None)
    assert answer.content == "".join(texts) + "."


@pytest.mark.parametrize(
    ("chunks", "progress"),
    [
        ([b"\n\n"], [False]),
        ([COMMENT], [False]),
        ([COMMENT + b"\r\n" + COMMENT], [False]),
        ([b": OPEN", b"ROUTER", b" PROCESSING\n\n"], [False, False, False]),
        ([b": PROC", b"ESSING\n\ndata: {"], [False, True]),
        ([b"data: {", b'"id"', b"}\n\n"], [True, True, True]),
        ([b"\n", b":", b" x", b"\n", b"d"], [False, False, False, False, True]),
        ([b""], [False]),
    ],
)
def test_only_events_are_progress(chunks, progress):
    """Comments and blanks keep a connection open and say nothing, wherever they are cut."""
    assembly = Assembly()
    assert [assembly.feed(c) for c in chunks] == progress


def test_a_long_stream_is_not_kept_raw():
    """Hundreds of bytes for each token would be too many for hundreds of streams."""
    assembly = Assembly()
    for _ in range(20_000):
        assembly.feed(thought(" word"))
    assert sum(map(len, assembly._waiting)) < 2 * assembling.FOLD_BYTES
    assert len(assembly.body()) < assembly.raw_bytes / 10
