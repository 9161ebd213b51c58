"""An answer as the deltas of a stream."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.simulator.defects import shown
from eagle3gen.simulator.events import Delta, deltas
from eagle3gen.simulator.faults import TOKENS

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
seeds, sizes = st.integers(0, 2**32), st.integers(1, 9)


def text(found: list[Delta], kind: str, index: int = 0) -> str:
    return "".join(delta.text for delta in found if (delta.kind, delta.index) == (kind, index))


def made(voice, seed, tokens=60, limit=10**6, tools=(), faults=frozenset()):
    rng = random.Random(seed)
    return shown(voice.answer(rng, tokens, limit, tools, 0, faults), faults, rng, voice)


@quick
@given(seeds, sizes, st.booleans(), st.sampled_from([10**6, 30, 5]))
def test_deltas_join_to_the_texts_of_the_answer(voice, seed, size, calls, limit) -> None:
    answer = made(voice, seed, limit=limit, tools=TOOLS if calls else ())
    found = deltas(answer, voice, size)
    assert text(found, "reasoning") == answer.reasoning
    assert text(found, "content") == (answer.content or "")
    assert sum(delta.kind == "call" for delta in found) == len(answer.calls)
    for index, call in enumerate(answer.calls):
        assert text(found, "call", index) == call.id.text
        assert text(found, "arguments", index) == call.arguments.text


@quick
@given(seeds, sizes, st.sampled_from(sorted(TOKENS)))
def test_deltas_of_a_bad_answer_join_to_what_is_shown(voice, seed, size, fault) -> None:
    answer = made(voice, seed, tools=TOOLS, faults=frozenset({fault}))
    found = deltas(answer, voice, size)
    assert text(found, "reasoning") == ("" if answer.hidden else answer.reasoning)
    assert text(found, "content") == (answer.content or "")
    assert all(0 <= delta.upto <= len(answer.ids) for delta in found)
    assert [delta.upto for delta in found] == sorted(delta.upto for delta in found)


@quick
@given(seeds, sizes)
def test_the_ids_up_to_a_delta_spell_the_text_up_to_it(voice, seed, size) -> None:
    """So that what was sent when a client goes can be billed to the token."""
    answer = made(voice, seed)
    reasoning, thought = "", len(voice.runs(answer.ids)["reasoning"][0][1])
    for delta in deltas(answer, voice, size):
        if delta.kind == "reasoning":
            reasoning += delta.text
            assert voice.text(answer.ids[: delta.upto]).rstrip("\ufffd") == reasoning
            assert delta.upto <= thought
        else:
            assert delta.upto > thought


@quick
@given(seeds)
def test_no_delta_has_half_a_character(voice, seed) -> None:
    answer = made(voice, seed, tokens=400)
    assert all("\ufffd" not in delta.text for delta in deltas(answer, voice, 1))


def test_runs_are_named_by_the_control_id_before_them(voice) -> None:
    answer = made(voice, 3, tools=TOOLS)
    runs = voice.runs(answer.ids)
    assert len(runs["call"]) == len(runs["arguments"]) == len(answer.calls) > 0
    (start, ids) = runs["call"][0]
    assert answer.ids[start : start + len(ids)] == ids == answer.calls[0].id.ids
    assert voice.text(runs["reasoning"][0][1]) == answer.reasoning


def test_a_text_that_is_not_that_of_its_ids_takes_as_long(voice) -> None:
    answer = made(voice, 5, tokens=300, faults=frozenset({"stripped_blank"}))
    found = deltas(answer, voice, 3)
    assert abs(len(found) - len(answer.ids) / 3) < 0.3 * len(answer.ids) / 3
