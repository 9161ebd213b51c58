"""How bad hosts show an answer, whatever the answer is."""

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.simulator.asked import Asked
from eagle3gen.simulator.defects import NEED_CALLS, possible, shown
from eagle3gen.simulator.faults import TOKENS

END, THINK_CLOSE = 163_586, 163_607
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find",
            "parameters": {"properties": {"to": {"type": "string"}, "n": {"type": "integer"}}, "required": ["to"]},
        },
    }
]
quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32)
some = st.sets(st.sampled_from(sorted(TOKENS)), max_size=4).map(frozenset)


def made(voice, seed, faults=frozenset(), *, tools=TOOLS, limit=10**6, tokens=80):
    """The answer as it was emitted, and as it is shown."""
    rng = random.Random(seed)
    answer = voice.answer(rng, tokens, limit, tools, 2, faults)
    return answer, shown(answer, faults, rng, voice)


@quick
@given(seeds, some, st.sampled_from([10**6, 40, 3]))
def test_no_fault_changes_what_was_emitted(voice, seed, faults, limit) -> None:
    answer, bad = made(voice, seed, faults, limit=limit)
    assert bad.ids == answer.ids
    assert len(answer.ids) <= limit


@quick
@given(seeds, some)
def test_what_was_emitted_can_be_spelled_and_read_again(voice, vocabulary, seed, faults) -> None:
    """Ids in runs of ordinary text between control ids: each run is what its text encodes to."""
    answer, _ = made(voice, seed, faults)
    for runs in voice.runs(answer.ids).values():
        for _, ids in runs:
            assert vocabulary.encode(vocabulary.text(ids)) == ids.tolist()


@quick
@given(seeds, some)
def test_only_a_drift_makes_the_bill_wrong(voice, seed, faults) -> None:
    answer, bad = made(voice, seed, faults)
    assert (bad.billed == len(answer.ids)) is ("count_drift" not in faults)
    assert abs(bad.billed - len(answer.ids)) <= 3


@quick
@given(seeds, some)
def test_the_finish_is_one_that_servers_tell(voice, seed, faults) -> None:
    _, bad = made(voice, seed, faults)
    assert bad.finish in {"stop", "tool_calls", "length", None}
    assert (bad.finish is None) is ("no_finish" in faults)
    assert bad.finish != "tool_calls" or bad.calls


@quick
@given(seeds)
def test_without_faults_an_answer_is_shown_as_it_is(voice, seed) -> None:
    answer, bad = made(voice, seed)
    assert bad == answer


@quick
@given(seeds)
def test_rewritten_arguments_mean_the_same(voice, seed) -> None:
    answer, bad = made(voice, seed, frozenset({"rewritten_arguments"}))
    for call, other in zip(answer.calls, bad.calls, strict=True):
        assert json.loads(other.arguments.text) == json.loads(call.arguments.text)
        assert other.arguments.text != call.arguments.text
        assert other.arguments.ids == call.arguments.ids


@quick
@given(seeds)
def test_ids_are_numbered_from_the_next_number(voice, seed) -> None:
    answer, bad = made(voice, seed, frozenset({"rewritten_ids"}))
    assert [call.id.text for call in answer.calls] == [f"functions.find:{n + 2}" for n in range(len(answer.calls))]
    assert [call.id.text for call in bad.calls] == [f"functions.find:{n + 3}" for n in range(len(answer.calls))]


@quick
@given(seeds, st.sampled_from(["leaked_markers", "leaked_in_reasoning"]), st.booleans())
def test_leaked_text_is_the_spelling_of_the_ids(voice, seed, fault, tools) -> None:
    """Also when no tools were sent: the model makes one up."""
    answer, bad = made(voice, seed, frozenset({fault}), tools=TOOLS if tools else ())
    spelled = voice.spelled(answer.ids)
    assert bad.calls == []
    assert (bad.content if fault == "leaked_markers" else bad.reasoning).endswith("<|tool_calls_section_end|>")
    assert spelled.endswith(bad.content or bad.reasoning)
    assert ("functions.find:2" if tools else "functions.search:2") in spelled


@quick
@given(seeds)
def test_a_quoted_control_string_is_never_a_control_id(voice, vocabulary, seed) -> None:
    answer, bad = made(voice, seed, frozenset({"quoted_controls"}), tools=())
    assert [number for number in answer.ids if number >= 163_584] == [THINK_CLOSE, END]
    text = (bad.reasoning or "") + (bad.content or "")
    assert any(control in text for control in vocabulary.controls)


def test_faults_of_tool_calls_need_tools() -> None:
    every, asked = frozenset(TOKENS), Asked("m", [], [], 10, may_call_tools=True)
    assert possible(every, asked) == every
    assert possible(every, replace(asked, may_call_tools=False)) == every - NEED_CALLS


@pytest.mark.parametrize("fault", ["implicit_close", "leaked_in_reasoning", "all_in_reasoning", "null_content"])
def test_a_model_that_never_closes_its_thinking_has_no_close_among_its_ids(voice, fault) -> None:
    for seed in range(20):
        answer, _ = made(voice, seed, frozenset({fault}))
        assert THINK_CLOSE not in answer.ids
        assert answer.ids[-1] == END


def test_a_cut_between_the_parts_of_a_bad_answer_shows_what_there_is(voice) -> None:
    for seed in range(5):
        whole, _ = made(voice, seed, frozenset({"implicit_close"}))
        for limit in range(1, len(whole.ids)):
            answer, bad = made(voice, seed, frozenset({"implicit_close"}), limit=limit)
            assert bad.finish == "length"
            assert whole.reasoning.startswith(bad.reasoning.rstrip("\ufffd"))
            assert bad.calls == whole.calls[: len(bad.calls)]
            assert answer.reasoning_tokens <= limit
