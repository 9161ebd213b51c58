"""Ids survive their storage."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.ledger.ids import compress, decode_ids, decompress, encode_ids


@given(st.lists(st.integers(0, 2**32 - 1), max_size=3000))
def test_ids_come_back_as_they_went(ids) -> None:
    assert decode_ids(encode_ids(ids)) == ids


@given(st.binary(max_size=5000))
def test_a_body_comes_back_as_it_went(body) -> None:
    assert decompress(compress(body)) == body


@pytest.mark.parametrize("bad", [-1, 2**32])
def test_an_id_that_is_none_is_refused(bad) -> None:
    with pytest.raises(OverflowError):
        encode_ids([bad])


def test_an_answer_of_ordinary_length_shrinks() -> None:
    ids = [i % 3000 for i in range(3000)]
    assert len(encode_ids(ids)) < 4 * len(ids) * 0.6
