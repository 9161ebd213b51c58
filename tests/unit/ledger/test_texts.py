"""Text from outside never spoils a transaction."""

from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.ledger.texts import TEXT_CHARS_MAX, storable, storable_or_none

anything = st.text(st.characters(exclude_categories=()), max_size=2 * TEXT_CHARS_MAX)


@given(anything)
def test_whatever_the_text_postgres_can_hold_the_rest(sentence) -> None:
    kept = storable(sentence)
    assert "\0" not in kept
    assert len(kept.encode("utf-8")) <= 4 * TEXT_CHARS_MAX


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=TEXT_CHARS_MAX))
def test_ordinary_text_is_kept_to_the_letter(sentence) -> None:
    assert storable(sentence) == sentence


def test_nothing_stays_nothing() -> None:
    assert storable_or_none(None) is None
    assert storable_or_none("a\0") == "a"
