"""Ids that a server tells: whole, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.endpoint.emitted import Emitted, read_emitted


def logprobs(*tokens):
    return {"logprobs": {"content": list(tokens)}}


def test_ids_of_vllm_are_read():
    """The prompt's beside the choices, the answer's inside."""
    emitted = read_emitted({"prompt_token_ids": [1, 2]}, {"token_ids": [3, 163_586]})
    assert (emitted.prompt_ids, emitted.output_ids) == ((1, 2), (3, 163_586))


def test_ids_of_sglang_may_stand_together():
    """Inside the choice."""
    assert read_emitted({}, {"prompt_token_ids": [1], "token_ids": [3]}).prompt_ids == (1,)


def test_spelled_ids_are_read_from_logprobs():
    """vLLM writes `token_id:N` when asked to; its own list of ids is believed first."""
    choice = logprobs({"token": "token_id:3"}, {"token": "token_id:4"})
    assert read_emitted({}, choice).output_ids == (3, 4)
    assert read_emitted({}, {**choice, "token_ids": [5, 6]}).output_ids == (5, 6)


def test_bytes_are_read_from_logprobs():
    """Each token's own."""
    choice = logprobs({"token": "é", "bytes": [195, 169]}, {"token": "", "bytes": []})
    assert read_emitted({}, choice).output_bytes == (b"\xc3\xa9", b"")


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"token_ids": None},
        {"token_ids": []},
        {"token_ids": [1, None]},
        {"token_ids": [1, True]},
        {"token_ids": [1, -1]},
        {"token_ids": [1, 2**40]},
        {"token_ids": "12"},
        {"logprobs": None},
        {"logprobs": {"content": None}},
        {"logprobs": {"content": ["x"]}},
        logprobs({"token": "token_id:3"}, {"token": "word"}),
        logprobs({"token": "token_id:"}),
        logprobs({"token": "token_id:²"}),
        logprobs({"token": None, "bytes": None}),
        logprobs({"bytes": [1, 256]}),
        logprobs({"bytes": [1, "x"]}),
        logprobs({"bytes": [97]}, {}),
    ],
)
def test_a_gap_is_no_proof(choice):
    """One id missing, and none is told."""
    assert read_emitted({}, choice) == Emitted()


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_anything_is_ids_or_nothing(value):
    """Never an exception."""
    read_emitted({"prompt_token_ids": value}, {"token_ids": value, "logprobs": value})
    read_emitted({}, {"logprobs": {"content": value}})
