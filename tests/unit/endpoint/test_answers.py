"""Answers: what is a success, and what is one with text missing."""

from decimal import Decimal

import orjson
import pytest

from eagle3gen.endpoint.refusal import Billed, Decision
from eagle3gen.endpoint.reply import read_reply
from eagle3gen.records import ToolCall, Usage

USAGE = {"prompt_tokens": 5, "completion_tokens": 9, "cost": 0.00012}
CALL = {"id": "functions.f:0", "type": "function", "index": 0, "function": {"name": "f", "arguments": '{"a": 2}'}}
TEXT = {"type": "reasoning.text", "text": " because", "format": "unknown", "index": 0}


def body(finish="stop", *, usage=USAGE, choice=None, **message):
    fields = {"role": "assistant", "content": " yes", "reasoning": " because", "refusal": None, **message}
    inside = {"index": 0, "finish_reason": finish, "native_finish_reason": finish, "message": fields, **(choice or {})}
    return orjson.dumps(
        {"id": "gen-1", "model": "m-0127", "provider": "Chutes", "choices": [inside], "usage": usage},
    )


def completed(raw):
    reply = read_reply(200, {}, raw)
    assert reply.refusal is None
    assert reply.completion is not None
    return reply.completion


def defect(raw):
    reply = read_reply(200, {}, raw)
    assert reply.completion is None
    assert reply.refusal is not None
    return reply.refusal


def test_an_answer_is_read_whole():
    """Text, origin and bill of an ordinary answer, leading blanks included."""
    answer = completed(b"\n         \n" * 9 + body())
    assert (answer.reasoning, answer.content, answer.tool_calls) == (" because", " yes", ())
    assert (answer.generation_id, answer.model, answer.host) == ("gen-1", "m-0127", "Chutes")
    assert answer.usage == Usage(prompt_tokens=5, completion_tokens=9, cost_usd=Decimal("0.00012"))
    assert not answer.hidden_reasoning


@pytest.mark.parametrize("content", [None, ""])
def test_tool_calls_need_no_content(content):
    """Arguments are kept byte for byte."""
    answer = completed(body("tool_calls", content=content, tool_calls=[CALL]))
    assert answer.tool_calls == (ToolCall(id="functions.f:0", name="f", arguments='{"a": 2}'),)


@pytest.mark.parametrize(("finish", "word"), [("stop", "success"), ("length", "truncated")])
def test_the_outcome_of_an_answer_is_a_word(finish, word):
    """An answer cut at its limit is called truncated."""
    assert read_reply(200, {}, body(finish)).outcome == word


@pytest.mark.parametrize(
    ("message", "reasoning", "content"),
    [
        ({"reasoning": None, "reasoning_content": "r"}, "r", " yes"),
        ({"reasoning": "", "reasoning_content": "r"}, "r", " yes"),
        ({"reasoning": None, "reasoning_details": [TEXT]}, " because", " yes"),
        ({"reasoning_details": [TEXT]}, " because", " yes"),
        ({"reasoning_details": []}, " because", " yes"),
        (
            {"reasoning_details": [{"type": "reasoning.text", "text": " bec"}, TEXT | {"text": "ause"}]},
            " because",
            " yes",
        ),
        ({"reasoning_details": [TEXT | {"text": None, "signature": "s"}]}, " because", " yes"),
        ({"content": [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]}, " because", "a b"),
        ({"content": "\n"}, " because", "\n"),
        ({"reasoning": None}, None, " yes"),
    ],
)
def test_text_is_found_in_all_its_places(message, reasoning, content):
    """Reasoning and content in the dialects of the hosts, none of them hidden."""
    answer = completed(body(**message))
    assert (answer.reasoning, answer.content, answer.hidden_reasoning) == (reasoning, content, False)


@pytest.mark.parametrize(
    "message",
    [
        {"reasoning": None, "reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA"}]},
        {"reasoning": "sum", "reasoning_details": [{"type": "reasoning.summary", "summary": "sum"}]},
        {"reasoning_details": [TEXT, {"type": "reasoning.encrypted", "data": "gAAA"}]},
        {"reasoning_details": [TEXT, {"type": "reasoning.brand_new"}]},
        {"reasoning_details": [{}]},
        {"reasoning_details": [TEXT | {"text": " because of more"}]},
        {"reasoning_content": " because of more"},
    ],
)
def test_hidden_reasoning_is_an_answer_that_cannot_be_rebuilt(message):
    """It was paid for and will not be different next time, so it is no refusal but a flagged answer."""
    assert completed(body(**message)).hidden_reasoning


DEFECTS = [
    ("all_in_reasoning", body(content="")),
    ("all_in_reasoning", body(content=None)),
    ("empty", body(content="", reasoning=None)),
    ("empty", body("length", content=None, reasoning="")),
    ("content_filter", body("content_filter")),
    ("no_finish_reason", body(None)),
    ("unknown_finish", body("weird")),
    ("unknown_finish", body(5)),
    ("no_tool_calls", body("tool_calls")),
    ("no_tool_calls", body("tool_calls", tool_calls=[])),
    ("model_refused", body(refusal="I will not")),
    ("model_refused", body(content=None, refusal="I will not")),
    ("malformed", body(refusal=5)),
    ("malformed", body(reasoning=5)),
    ("malformed", body(reasoning=["r"])),
    ("malformed", body(content=5)),
    ("malformed", body(content={"text": "x"})),
    ("malformed", body(reasoning_details="r")),
    ("malformed", body(reasoning_details=["r"])),
    ("malformed", body(reasoning_details=[TEXT | {"text": 5}])),
    ("malformed", body("tool_calls", tool_calls={"a": 1})),
    ("malformed", body("tool_calls", tool_calls=[None])),
    ("malformed", body("tool_calls", tool_calls=[{"id": "x"}])),
    ("malformed", body("tool_calls", tool_calls=[CALL | {"id": 5}])),
    ("malformed", body("tool_calls", tool_calls=[CALL | {"function": {"name": "f", "arguments": {"a": 1}}}])),
    ("malformed", body("tool_calls", tool_calls=[CALL | {"function": {"name": "", "arguments": "{}"}}])),
    ("unknown_part", body(content=[{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}])),
    ("unknown_part", body(content=[{"type": "image_url"}])),
    ("unknown_part", body(content=["a"])),
    ("unknown_part", body(content=[{"type": "text", "text": None}])),
    ("unknown_part", body(images=[{"type": "image_url"}])),
    ("unknown_part", body(audio={"data": "x"})),
    ("unknown_part", body(function_call={"name": "f"})),
    ("no_message", body(choice={"message": None})),
]


@pytest.mark.parametrize(("kind", "raw"), DEFECTS)
def test_an_answer_with_text_missing_is_a_defect(kind, raw):
    """It is tried again, was paid for, and keeps its bill, its id and its host."""
    refusal = defect(raw)
    assert (refusal.kind, refusal.decision, refusal.outcome) == (kind, Decision.RETRY, "defective")
    assert refusal.billed is Billed.YES
    assert refusal.usage.completion_tokens == 9
    assert (refusal.generation_id, refusal.host) == ("gen-1", "Chutes")


def test_two_answers_where_one_was_asked_for_are_a_defect():
    """The second one would be missing."""
    data = orjson.loads(body())
    assert defect(orjson.dumps(data | {"choices": data["choices"] * 2})).kind == "malformed"


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        (None, Billed.MAYBE),
        ({}, Billed.MAYBE),
        ({"completion_tokens": "9"}, Billed.MAYBE),
        ({"completion_tokens": 9}, Billed.YES),
        ({"completion_tokens": 9, "cost": 0}, Billed.YES),
        ({"completion_tokens": 0, "cost": 0.001}, Billed.YES),
        ({"completion_tokens": 0, "cost": 0}, Billed.NO),
        ({"completion_tokens": 0}, Billed.MAYBE),
    ],
)
def test_a_defect_is_billed_as_its_usage_says(usage, billed):
    """No word on the cost may mean that the prompt was paid for; the insurance is for answers that broke off."""
    assert defect(body(content="", usage=usage)).billed is billed


def test_an_empty_answer_that_broke_off_is_insured():
    """No tokens and no finish reason: OpenRouter charges nothing."""
    assert defect(body(None, content="", reasoning=None, usage={"completion_tokens": 0})).billed is Billed.NO


def test_an_answer_that_the_host_broke_off_is_a_failure_of_the_host():
    """A finish reason of error, without an error object, is tried again, and billed as its bill says."""
    refusal = defect(body("error"))
    assert (refusal.kind, refusal.outcome, refusal.billed) == ("host_failed", "transient", Billed.YES)
    assert defect(body("error", usage=None)).billed is Billed.MAYBE
    assert defect(body("error", usage={"completion_tokens": 9, "cost": 0})).billed is Billed.NO


def test_half_a_character_reaches_the_judge():
    """An answer that ends in a lone surrogate was paid for: the text is kept, and its verdict is lossy."""
    raw = body(content="MARK").replace(b"MARK", rb"hi \ud83d")
    assert completed(raw).content == "hi \ud83d"


def test_labels_fit_into_rows():
    """NUL and halves of characters in ids and names would be refused by the database."""
    raw = body().replace(b"gen-1", rb"gen\u0000\ud800")
    assert completed(raw).generation_id == "gen  "


def test_hidden_reasoning_is_judged_underived():
    """However well the counts agree, tokens that were not shown are not rebuilt."""
    from eagle3gen.records import Verdict
    from eagle3gen.tokens.judge import make_sample
    from eagle3gen.tokens.loading import load_tokenizer

    raw = body(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAA"}])
    tokenizer = load_tokenizer("builtin:kimi-mini")
    sample = make_sample(tokenizer, [{"role": "user", "content": "hi"}], (), completed(raw))
    assert sample.verdict is Verdict.UNDERIVED
    assert list(sample.output_ids) == []


def test_billed_reasoning_that_is_not_shown_is_hidden():
    """Tokens of reasoning on the bill and none in the answer: they were kept back."""
    usage = USAGE | {"completion_tokens_details": {"reasoning_tokens": 4}}
    assert completed(body(reasoning=None, usage=usage)).hidden_reasoning
    assert not completed(body(usage=usage)).hidden_reasoning
