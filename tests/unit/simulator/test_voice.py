"""Answers are concatenations of texts and of ids at the same time."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.simulator.segments import KINDS, segments
from eagle3gen.simulator.voice import Voice

THINK_CLOSE, END = 163_607, 163_586
SECTION, SECTION_END, CALL, ARGUMENT, CALL_END = 163_595, 163_596, 163_597, 163_598, 163_599
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "find_flights",
            "parameters": {
                "type": "object",
                "properties": {
                    "to": {"type": "string"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                    "price": {"type": "number"},
                    "class": {"enum": ["economy", "<|im_end|>"]},
                    "more": {"type": ["object", "null"], "properties": {"direct": {"type": "boolean"}, "x": True}},
                },
                "required": ["to", "days"],
            },
        },
    },
    {"type": "function", "function": {"name": "now"}},
]
quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**32)


def test_no_segment_begins_with_a_blank_line_or_spells_a_control_string(vocabulary) -> None:
    for text in segments():
        assert text.split("\n")[0].strip()
        assert not [control for control in vocabulary.controls if control in text]


def test_the_segments_are_of_every_kind_and_the_same_in_every_run() -> None:
    library = segments()
    assert library == segments()
    assert len(set(library)) > 200 > 10 * len(KINDS)
    everything = "\n".join(library)
    for sample in ("    if ", "\t", "的", "の", "가", "👨‍👩‍👧‍👦", "∑", "| **", "\u3000", "\r\n", "\n\n\n", "𠮷"):
        assert sample in everything
    assert any(text[0].isspace() for text in library)


@quick
@given(seeds, st.integers(1, 3000))
def test_joined_ids_are_the_ids_of_the_joined_text(voice, judge, seed, tokens) -> None:
    """Read again by another encoder, the text gives the very ids that it was made of."""
    piece = voice.speak(random.Random(seed), tokens)
    assert judge.encode_ordinary(piece.text) == piece.ids.tolist()
    assert judge.decode(piece.ids.tolist()) == piece.text


@quick
@given(seeds, st.integers(1, 1500), st.booleans(), st.integers(0, 9))
def test_the_texts_of_an_answer_give_its_ids_by_structure(voice, judge, seed, tokens, tools, earlier) -> None:
    answer = voice.answer(random.Random(seed), tokens, 10**6, TOOLS if tools else (), earlier)
    ids = [*judge.encode_ordinary(answer.reasoning), THINK_CLOSE, *judge.encode_ordinary(answer.content or "")]
    assert answer.reasoning_tokens == ids.index(THINK_CLOSE) + 1
    if answer.calls:
        ids.append(SECTION)
    for index, call in enumerate(answer.calls, earlier):
        assert call.id.text == f"functions.{call.name}:{index}"
        ids += [CALL, *judge.encode_ordinary(call.id.text), ARGUMENT]
        ids += [*judge.encode_ordinary(call.arguments.text), CALL_END]
    if answer.calls:
        ids.append(SECTION_END)
    assert answer.ids.tolist() == [*ids, END]
    assert answer.finish == ("tool_calls" if tools else "stop")
    assert answer.reasoning.startswith(" ")
    assert answer.content is None or answer.content.startswith(" ")


@quick
@given(seeds, st.integers(1, 400), st.booleans(), st.floats(0, 1))
def test_an_answer_is_cut_at_its_limit_as_a_server_cuts_it(voice, judge, seed, tokens, tools, share) -> None:
    """The ids stop, there is no end token, and the text is what those ids spell."""
    whole = voice.answer(random.Random(seed), tokens, 10**6, TOOLS if tools else (), 0)
    limit = 1 + int(share * (len(whole.ids) - 2))
    answer = voice.answer(random.Random(seed), tokens, limit, TOOLS if tools else (), 0)
    assert answer.finish == "length"
    assert answer.ids.tolist() == whole.ids.tolist()[:limit]
    thought, _, rest = _split(answer.ids.tolist())
    said, _, section = _split(rest, SECTION)
    assert answer.reasoning == judge.decode(thought)
    assert (answer.content or "") == judge.decode(said)
    assert answer.calls == whole.calls[: section.count(CALL_END)]
    assert answer.reasoning_tokens == min(limit, len(thought) + 1)


def _split(ids: list[int], control: int = THINK_CLOSE) -> tuple[list[int], bool, list[int]]:
    at = ids.index(control) if control in ids else len(ids)
    return ids[:at], at < len(ids), ids[at + 1 :]


def test_a_limit_that_is_just_enough_cuts_nothing(voice) -> None:
    whole = voice.answer(random.Random(4), 200, 10**6, (), 0)
    assert voice.answer(random.Random(4), 200, len(whole.ids), (), 0) == whole
    assert voice.answer(random.Random(4), 200, len(whole.ids) - 1, (), 0).finish == "length"


def test_a_cut_through_a_character_shows_the_replacement_character(voice, vocabulary) -> None:
    ids = vocabulary.encode("龘")
    assert len(ids) > 1
    assert vocabulary.text(ids[:1]) == "\ufffd"


def test_lengths_are_about_what_was_asked_for(voice) -> None:
    lengths = [len(voice.answer(random.Random(seed), 600, 10**6, (), 0).ids) for seed in range(200)]
    assert 550 < sum(lengths) / len(lengths) < 760


def test_arguments_fit_their_schema(voice) -> None:
    import json

    for seed in range(40):
        for call in voice.answer(random.Random(seed), 40, 10**6, TOOLS, 0).calls:
            arguments = json.loads(call.arguments.text)
            if call.name == "now":
                assert arguments == {}
            else:
                assert {"to", "days"} <= arguments.keys()
                assert all(isinstance(day, int) for day in arguments["days"])
                assert arguments.get("class", "economy") in {"economy", "<|im_end|>"}


def test_a_library_with_an_unsafe_joint_is_refused(vocabulary, monkeypatch) -> None:
    """Without a line break between them, segments grow together."""
    monkeypatch.setattr("eagle3gen.simulator.voice.BREAKS", ("", ""))
    with pytest.raises(RuntimeError, match="unsafe joint"):
        Voice(vocabulary)


def test_a_library_that_spells_a_control_string_is_refused(vocabulary, monkeypatch) -> None:
    monkeypatch.setattr("eagle3gen.simulator.voice.segments", lambda: ["a <|im_end|> b"])
    with pytest.raises(RuntimeError, match="control string"):
        Voice(vocabulary)
