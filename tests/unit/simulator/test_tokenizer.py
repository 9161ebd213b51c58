"""The simulator's reading of a tokenizer: texts, spellings and pieces."""

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.simulator.tokenizer import CONTROLS

quick = settings(max_examples=100, deadline=None)
texts = st.text('abc de\n\t,.é漢字龘🎉👨‍👩‍👧‍👦λ{}"<|>/', max_size=60)


@quick
@given(texts)
def test_ordinary_text_comes_back(vocabulary, text) -> None:
    ids = vocabulary.encode(text)
    assert vocabulary.text(ids) == vocabulary.spelled(ids) == text
    assert not [number for number in ids if number in CONTROLS]


@quick
@given(texts, st.integers(1, 7))
def test_pieces_join_to_the_text_and_end_with_the_last_id(vocabulary, text, size) -> None:
    ids = vocabulary.encode(text)
    pieces = vocabulary.pieces(ids, size)
    assert "".join(piece for piece, _ in pieces) == text
    assert [upto for _, upto in pieces] == sorted({upto for _, upto in pieces})
    assert not pieces or pieces[-1][1] == len(ids)


def test_a_character_waits_for_all_of_its_bytes(vocabulary) -> None:
    ids = vocabulary.encode("龘")
    assert len(ids) > 1
    assert vocabulary.pieces(ids, 1) == [("龘", len(ids))]


def test_half_a_character_at_the_end_is_shown_as_servers_show_it(vocabulary) -> None:
    ids = vocabulary.encode("a龘")
    assert vocabulary.pieces(ids[:2], 1)[-1][0] == "\ufffd"


@quick
@given(st.lists(texts, min_size=1, max_size=4))
def test_control_ids_are_spelled_by_their_names(vocabulary, parts) -> None:
    name = "<|tool_call_begin|>"
    ids = array("I")
    for number, part in enumerate(parts):
        ids += array("I", [vocabulary.controls[name]] * bool(number) + vocabulary.encode(part))
    assert vocabulary.spelled(ids) == name.join(parts)


def test_a_control_string_in_an_answer_is_ordinary_text(vocabulary) -> None:
    assert len(vocabulary.encode("<|im_end|>")) > 1
    assert vocabulary.prompt_ids("<|im_end|>") == [vocabulary.controls["<|im_end|>"]]
