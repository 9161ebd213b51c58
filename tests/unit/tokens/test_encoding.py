"""Text to ids: ordinary text never holds a control id, a rendered prompt does, and both agree with another library."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.tokens.encoding import BLANKS_MAX, CUT_CHARS, CUT_RUN_CHARS, TooManyBlanks, _pieces
from eagle3gen.tokens.family import KIMI_K25

UNLISTED = [
    "<|reserved_token_163589|>",
    "<|reserved_token_163837|>",
    "<|reserved_token_163586|>",
    "<|reserved_token_|>",
    "<|im_",
    "end|>",
]
"""Two that are control strings, and four that are not."""
texts = st.text(st.characters(codec="utf-8"), max_size=200)
mixed = st.lists(st.one_of(texts, st.sampled_from(sorted(KIMI_K25.control_ids))), max_size=6).map("".join)


@settings(max_examples=300)
@given(text=mixed)
def test_ordinary_text_comes_back_and_holds_no_control_id(tokenizer, text) -> None:
    ids = tokenizer.encoding.encode_text(text)
    assert tokenizer.decode(ids) == text
    assert all(i < KIMI_K25.base_vocabulary for i in ids)


@settings(max_examples=300)
@given(text=mixed)
def test_ordinary_text_is_read_as_another_library_reads_it(tokenizer, oracle, text) -> None:
    assert tokenizer.encoding.encode_text(text) == oracle(text)


@settings(max_examples=200)
@given(parts=st.lists(st.one_of(texts, st.sampled_from(sorted(KIMI_K25.control_ids))), max_size=6))
def test_in_a_prompt_control_strings_are_control_ids(tokenizer, parts) -> None:
    text = "".join(parts)
    ids = tokenizer.encoding.encode_rendered(text)
    found = [i for i in ids if i >= KIMI_K25.base_vocabulary]
    spelled = [tokenizer.encoding.control_ids[s] for s in tokenizer.encoding.control_strings_in(text)]
    assert found == spelled
    assert tokenizer.decode(ids) == text


@given(parts=st.lists(st.one_of(texts, st.sampled_from([*KIMI_K25.control_ids, *UNLISTED])), max_size=8))
def test_a_prompt_is_read_as_tiktoken_reads_it_with_all_control_strings(tokenizer, parts) -> None:
    text = "".join(parts)
    assert tokenizer.encoding.encode_rendered(text) == tokenizer.encoding._encoding.encode(text, allowed_special="all")


@pytest.mark.parametrize(("control", "expected"), sorted(KIMI_K25.control_ids.items()))
def test_every_control_string_has_its_true_id(tokenizer, control, expected) -> None:
    assert tokenizer.encoding.encode_rendered(f"a {control}\n")[1:2] != []
    assert expected in tokenizer.encoding.encode_rendered(f"a {control}\n")
    assert tokenizer.decode([expected]) == control


def test_unlisted_slots_are_reserved_tokens(tokenizer) -> None:
    assert tokenizer.decode([163_589]) == "<|reserved_token_163589|>"
    assert len(tokenizer.encoding.control_ids) == 256


def test_half_a_character_is_refused(tokenizer) -> None:
    with pytest.raises(UnicodeEncodeError):
        tokenizer.encoding.encode_text("a\ud83d")


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_a_run_of_blanks_too_long_for_the_engine_is_an_error_and_no_panic(tokenizer, blank) -> None:
    """tiktoken dies of a million blanks with an exception that no `except Exception` catches."""
    with pytest.raises(TooManyBlanks, match="500,000 blanks"):
        tokenizer.encoding.encode_text("a" + blank * 1_000_000)


def test_blanks_up_to_the_limit_are_encoded(tokenizer) -> None:
    text = "a" + " " * BLANKS_MAX
    assert tokenizer.decode(tokenizer.encoding.encode_text(text)) == text


def test_a_prompt_of_a_million_blanks_is_cut_and_encoded(tokenizer) -> None:
    text = " " * 1_000_000
    assert tokenizer.decode(tokenizer.encoding.encode_rendered(text)) == text


def test_a_han_run_stands_alone(tokenizer, oracle) -> None:
    """The mark of Moonshot's pattern, which a converted tokenizer loses."""
    ids = tokenizer.encoding.encode_text("用Python写")
    pieces = [tokenizer.decode([i]) for i in ids]
    assert not any("用" in p and "P" in p for p in pieces)
    assert ids == oracle("用Python写")


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n\n", "\r\n\t", "123456789", "don't WE'LL", "=" * 5000, "🎉👨‍👩‍👧‍👦", "é", "e\u0301"]
)
def test_awkward_texts_come_back(tokenizer, oracle, text) -> None:
    ids = tokenizer.encoding.encode_text(text)
    assert tokenizer.decode(ids) == text
    assert ids == oracle(text)


def reference_cut(text: str, limit: int) -> list[str]:
    """The published class's rule, character by character."""
    pieces, start, length = [], 0, 0
    space = text[0].isspace() if text else False
    for i, character in enumerate(text):
        if character.isspace() is not space:
            length, space = 1, character.isspace()
        else:
            length += 1
            if length > limit:
                pieces.append(text[start:i])
                start, length = i, 1
    return [*pieces, text[start:]]


@pytest.mark.parametrize(
    "text", ["x" * 60_000, " " * 30_000 + "y" * 26_000, "ab " * 20_000, "x" * 25_000, "x" * 25_001]
)
def test_long_prompts_are_cut_as_the_original_cuts_them(text) -> None:
    expected = [
        p for s in range(0, len(text), CUT_CHARS) for p in reference_cut(text[s : s + CUT_CHARS], CUT_RUN_CHARS)
    ]
    assert list(_pieces(text)) == expected


def test_a_very_long_prompt_keeps_its_text(tokenizer) -> None:
    text = "word and 你好 " * 37_000
    assert tokenizer.decode(tokenizer.encoding.encode_rendered(text)) == text


def test_threads_do_not_disturb_each_other(tokenizer) -> None:
    """Eight threads, both modes mixed: every result is the one a single thread gets."""
    rng = random.Random(1)
    controls = sorted(KIMI_K25.control_ids)
    texts = ["".join(rng.choices(["ab", " ", "你", "1", *controls], k=30)) for _ in range(2000)]
    calls = [(rng.random() < 0.5, text) for text in texts]

    def run(call):
        rendered, text = call
        return (tokenizer.encoding.encode_rendered if rendered else tokenizer.encoding.encode_text)(text)

    expected = [run(call) for call in calls]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, calls)) == expected
