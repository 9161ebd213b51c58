"""The verdict: exact only when nothing speaks against it, and a reason whenever it is not."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.records import Completion, ToolCall, Usage, Verdict
from eagle3gen.tokens.judge import EndpointProfile, make_sample

from .conftest import CLOSE, CONTROL, END

ASKED = [{"role": "user", "content": "x"}]
words = st.text(st.characters(codec="utf-8", exclude_characters="\ufffd<[|"), min_size=1, max_size=80)


def emitted(oracle, reasoning: str, content: str | None, calls=()) -> list[int]:
    """What the model wrote, put together by the other library."""
    ids = [*oracle(reasoning), CLOSE, *(oracle(content) if content else [])]
    if calls:
        ids.append(CONTROL["<|tool_calls_section_begin|>"])
        for call_id, arguments in calls:
            ids += [CONTROL["<|tool_call_begin|>"], *oracle(call_id), CONTROL["<|tool_call_argument_begin|>"]]
            ids += [*oracle(arguments), CONTROL["<|tool_call_end|>"]]
        ids.append(CONTROL["<|tool_calls_section_end|>"])
    return [*ids, END]


CONTENTS = [" a </think> b", " 你好" * 500, " x" * 2000, None, " \ud83d", " <|im_end|>", " { }\n" * 300]


def completion(tokenizer, billed: int, **changes) -> Completion:
    fields = {
        "generation_id": "gen-1",
        "model": "m",
        "host": "h",
        "finish_reason": "stop",
        "reasoning": " because",
        "content": " Hello",
        "usage": Usage(
            prompt_tokens=len(tokenizer.prompt_ids(ASKED)), completion_tokens=billed, cost_usd=Decimal("0.1")
        ),
    }
    return Completion(**{**fields, **changes})


def judge(tokenizer, made: Completion, **profile):
    return make_sample(tokenizer, ASKED, (), made, EndpointProfile(**profile))


@given(reasoning=words, content=words)
def test_a_plain_answer_is_exact_and_its_ids_are_true(tokenizer, oracle, reasoning, content) -> None:
    true = emitted(oracle, " " + reasoning, " " + content)
    sample = judge(tokenizer, completion(tokenizer, len(true), reasoning=" " + reasoning, content=" " + content))
    assert sample.verdict is Verdict.EXACT_COUNT, sample.reason
    assert list(sample.output_ids) == true
    assert sample.difference == sample.prompt_difference == 0


@given(reasoning=words, arguments=words, index=st.integers(0, 30))
def test_a_tool_call_is_rebuilt_by_its_structure(tokenizer, oracle, reasoning, arguments, index) -> None:
    call_id = f"functions.look_up:{index}"
    true = emitted(oracle, " " + reasoning, None, [(call_id, arguments)])
    call = ToolCall(id=call_id, name="look_up", arguments=arguments)
    made = completion(
        tokenizer, len(true), reasoning=" " + reasoning, content=None, tool_calls=(call,), finish_reason="tool_calls"
    )
    sample = judge(tokenizer, made)
    assert (sample.verdict, list(sample.output_ids)) == (Verdict.EXACT_COUNT, true)


def test_ids_that_a_host_invented_are_put_back_and_called_repaired(tokenizer, oracle) -> None:
    history = [
        *ASKED,
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "functions.f:0", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "1"},
    ]
    true = emitted(oracle, " r", None, [("functions.f:1", "{}"), ("functions.g:2", "{}")])
    calls = (ToolCall(id="call_ab", name="f", arguments="{}"), ToolCall(id="call_cd", name="g", arguments="{}"))
    made = completion(tokenizer, len(true), reasoning=" r", content=None, tool_calls=calls, finish_reason="tool_calls")
    made = replace(made, usage=replace(made.usage, prompt_tokens=len(tokenizer.prompt_ids(history))))
    sample = make_sample(tokenizer, history, (), made)
    assert (sample.verdict, list(sample.output_ids)) == (Verdict.REPAIRED, true)


def test_parallel_calls_with_content_before_them(tokenizer, oracle) -> None:
    calls = [("functions.f:0", '{"a":1}'), ("functions.f:1", '{"a": 2}')]
    true = emitted(oracle, " r", " Let me look.", calls)
    made = completion(
        tokenizer,
        len(true),
        reasoning=" r",
        content=" Let me look.",
        tool_calls=tuple(ToolCall(id=i, name="f", arguments=a) for i, a in calls),
        finish_reason="tool_calls",
    )
    assert list(judge(tokenizer, made).output_ids) == true


def exact_length(tokenizer) -> int:
    return len(judge(tokenizer, completion(tokenizer, 0)).output_ids)


@pytest.mark.parametrize(
    ("billed", "verdict"),
    [
        (0, Verdict.EXACT_COUNT),
        (1, Verdict.OFF_BY_K),
        (-2, Verdict.OFF_BY_K),
        (3, Verdict.MISMATCH),
        (-40, Verdict.MISMATCH),
    ],
)
def test_the_bill_decides(tokenizer, billed, verdict) -> None:
    sample = judge(tokenizer, completion(tokenizer, exact_length(tokenizer) + billed))
    assert (sample.verdict, sample.difference) == (verdict, billed)
    assert bool(sample.reason) is (verdict is not Verdict.EXACT_COUNT)


def test_a_long_answer_may_drift_by_two_in_a_thousand(tokenizer, oracle) -> None:
    text = " word and number 7" * 1000
    true = emitted(oracle, " r", text)
    made = completion(tokenizer, len(true) + len(true) // 500, reasoning=" r", content=text)
    assert judge(tokenizer, made).verdict is Verdict.OFF_BY_K


def test_an_endpoint_that_does_not_bill_the_end_token_is_judged_by_its_profile(tokenizer) -> None:
    made = completion(tokenizer, exact_length(tokenizer) - 1)
    assert judge(tokenizer, made).verdict is Verdict.OFF_BY_K
    assert judge(tokenizer, made, end_token_counted=False).verdict is Verdict.EXACT_COUNT


@pytest.mark.parametrize("text", [" see </think> there", "<|im_end|>", " <think>", " <|tool_call_begin|>", "[EOS]"])
@pytest.mark.parametrize("field", ["reasoning", "content"])
def test_a_control_string_in_the_text_is_never_exact(tokenizer, text, field) -> None:
    """It may have been the control token itself, or its letters."""
    made = completion(tokenizer, 0, **{field: text})
    billed = len(judge(tokenizer, made).output_ids)
    sample = judge(tokenizer, replace(made, usage=replace(made.usage, completion_tokens=billed)))
    assert sample.verdict is Verdict.AMBIGUOUS
    assert all(i in {CLOSE, END} or i < 163_584 for i in sample.output_ids)


def test_stripped_blanks_are_suspected_when_no_text_begins_with_one(tokenizer) -> None:
    """ " Hello" and "Hello" are one token each: the count agrees although the id is wrong."""
    made = completion(tokenizer, 0, reasoning="because", content="Hello")
    billed = len(judge(tokenizer, made).output_ids)
    made = replace(made, usage=replace(made.usage, completion_tokens=billed))
    assert judge(tokenizer, made).verdict is Verdict.AMBIGUOUS
    assert judge(tokenizer, made, strips_whitespace=False).verdict is Verdict.EXACT_COUNT
    assert judge(tokenizer, completion(tokenizer, exact_length(tokenizer)), strips_whitespace=True).verdict is (
        Verdict.AMBIGUOUS
    )


@pytest.mark.parametrize("content", [" lost \ufffd byte", " half \ud83d"])
def test_text_that_lost_bytes_is_lossy(tokenizer, content) -> None:
    sample = judge(tokenizer, completion(tokenizer, 9, content=content))
    assert sample.verdict is Verdict.LOSSY_TEXT


@pytest.mark.parametrize(
    ("content", "closes"), [(None, 0), ("", 0), (" so far", 1)], ids=["in reasoning", "empty content", "in content"]
)
def test_a_cut_answer_has_no_end_token_and_is_truncated(tokenizer, content, closes) -> None:
    sample = judge(tokenizer, completion(tokenizer, 5, content=content, finish_reason="length"))
    assert sample.verdict is Verdict.TRUNCATED
    assert list(sample.output_ids).count(CLOSE) == closes
    assert END not in sample.output_ids


@pytest.mark.parametrize(
    "changes",
    [
        {"usage": Usage()},
        {"content": None},
        {"content": ""},
        {"finish_reason": "content_filter"},
        {"finish_reason": None},
        {"finish_reason": "error"},
    ],
)
def test_what_cannot_be_known_is_underived_with_a_reason(tokenizer, changes) -> None:
    sample = judge(tokenizer, completion(tokenizer, 9, **changes))
    assert sample.verdict is Verdict.UNDERIVED
    assert sample.reason


@pytest.mark.parametrize("more", [1, -7])
def test_a_prompt_of_another_length_is_a_mismatch(tokenizer, more) -> None:
    """Another template, a date, a hidden system prompt: the prompt's ids are not what the model saw."""
    made = completion(tokenizer, exact_length(tokenizer))
    asked = replace(made, usage=replace(made.usage, prompt_tokens=made.usage.prompt_tokens + more))
    sample = judge(tokenizer, asked)
    assert (sample.verdict, sample.prompt_difference) == (Verdict.MISMATCH, more)


def test_a_prompt_of_another_length_is_a_mismatch_of_a_cut_answer_too(tokenizer) -> None:
    """A truncated sample may be asked for in an export; its prompt would be wrong."""
    made = completion(tokenizer, 5, finish_reason="length")
    made = replace(made, usage=replace(made.usage, prompt_tokens=1))
    sample = judge(tokenizer, made)
    assert (sample.verdict, sample.hypothesis) == (Verdict.MISMATCH, "prompt")


def test_an_unknown_prompt_count_is_no_fault(tokenizer) -> None:
    made = completion(tokenizer, exact_length(tokenizer))
    sample = judge(tokenizer, replace(made, usage=replace(made.usage, prompt_tokens=None)))
    assert (sample.verdict, sample.prompt_difference) == (Verdict.EXACT_COUNT, None)


@pytest.mark.parametrize("reasoning", [None, ""])
def test_content_without_reasoning_may_hold_it(tokenizer, reasoning) -> None:
    """A server that drops `</think>` shows the thinking as content, and the count agrees all the same."""
    made = completion(tokenizer, 0, reasoning=reasoning)
    billed = len(judge(tokenizer, made).output_ids)
    sample = judge(tokenizer, replace(made, usage=replace(made.usage, completion_tokens=billed)))
    assert (sample.verdict, sample.difference) == (Verdict.AMBIGUOUS, 0)


def test_an_end_with_tool_calls_that_are_not_there_is_underived(tokenizer) -> None:
    made = completion(tokenizer, exact_length(tokenizer), finish_reason="tool_calls")
    assert judge(tokenizer, made).verdict is Verdict.UNDERIVED


def test_blanks_without_end_are_underived(tokenizer) -> None:
    sample = judge(tokenizer, completion(tokenizer, 9000, content=" " * 1_000_000))
    assert sample.verdict is Verdict.UNDERIVED
    assert "blanks" in sample.reason


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_answer_is_a_beginning_of_what_was_emitted(tokenizer, oracle, cut) -> None:
    """Wherever the limit falls among texts and calls: no id is there that the model may not have reached."""
    arguments = [("functions.f:0", '{"a":1}'), ("functions.f:1", '{"b":2}')]
    true = emitted(oracle, " r", " c", arguments)
    whole = [i for i in range(len(true)) if true[i] == CONTROL["<|tool_call_end|>"]]
    shown = tuple(
        ToolCall(id=i, name="f", arguments=a) for (i, a), end in zip(arguments, whole, strict=True) if end < cut
    )
    close = true.index(CLOSE)
    said = tokenizer.decode(true[close + 1 : min(cut, true.index(CONTROL["<|tool_calls_section_begin|>"]))])
    made = completion(
        tokenizer,
        min(cut, len(true)),
        reasoning=tokenizer.decode(true[: min(cut, close)]),
        content=said or None,
        tool_calls=shown,
        finish_reason="length",
    )
    sample = judge(tokenizer, made)
    assert sample.verdict is Verdict.TRUNCATED
    assert list(sample.output_ids) == true[: len(sample.output_ids)]
    assert len(sample.output_ids) <= cut


@pytest.mark.parametrize(
    ("call_id", "restored"),
    [
        ("functions.get-it_2:0", False),
        ("functions.get-it_2:12", False),
        ("functions.get-it_2:", True),
        ("functions.get-it_2:1 ", True),
        (" functions.get-it_2:1", True),
        ("functions.get-it_2:١", True),
        ("functions.other:0", True),
        ("get-it_2:0", True),
        ("chatcmpl-tool-1", True),
        ("", True),
    ],
)
def test_only_an_id_in_the_model_s_own_spelling_is_taken_as_it_came(tokenizer, oracle, call_id, restored) -> None:
    call = ToolCall(id=call_id, name="get-it_2", arguments="{}")
    true = emitted(oracle, " r", None, [("functions.get-it_2:0" if restored else call_id, "{}")])
    made = completion(
        tokenizer, len(true), reasoning=" r", content=None, tool_calls=(call,), finish_reason="tool_calls"
    )
    sample = judge(tokenizer, made)
    assert list(sample.output_ids) == true
    assert sample.verdict is (Verdict.REPAIRED if restored else Verdict.EXACT_COUNT)


def test_eight_threads_judge_as_one_does(tokenizer) -> None:
    """Mixed answers, prompts and long texts: no state is shared between calls."""
    rng = random.Random(3)
    answers = [
        completion(tokenizer, rng.randint(1, 60), reasoning=f" r{rng.random()}", content=rng.choice(CONTENTS))
        for _ in range(400)
    ]
    expected = [judge(tokenizer, made) for made in answers]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda made: judge(tokenizer, made), answers)) == expected


def test_a_prompt_that_cannot_be_rendered_is_underived(tokenizer) -> None:
    picture = [{"role": "user", "content": [{"type": "image_url"}]}]
    assert make_sample(tokenizer, picture, (), completion(tokenizer, 5)).verdict is Verdict.UNDERIVED


@given(
    reasoning=st.none() | st.text(max_size=40),
    content=st.none() | st.text(max_size=40),
    finish=st.none() | st.sampled_from(["stop", "length", "tool_calls", "error", "x"]),
    billed=st.none() | st.integers(0, 200),
)
def test_no_answer_makes_it_raise(tokenizer, reasoning, content, finish, billed) -> None:
    made = completion(
        tokenizer, 0, reasoning=reasoning, content=content, finish_reason=finish, usage=Usage(completion_tokens=billed)
    )
    sample = judge(tokenizer, made)
    assert sample.verdict in Verdict
    assert sample.verdict is not Verdict.EXACT_COUNT or sample.difference == 0
