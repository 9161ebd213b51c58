"""A prompt is its content: the same key wherever and however it stands, another for any other content."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.prompts.identity import KEY_BYTES, content_key
from eagle3gen.prompts.shapes import read_row

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
ROW = {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}], "tools": [TOOL]}


def key(row: object, place: str = "a.jsonl line 1") -> bytes:
    return content_key(read_row(row, place))


def shuffled(value: object, rng: random.Random) -> object:
    """The same JSON with the keys of every object in another order."""
    if isinstance(value, list):
        return [shuffled(one, rng) for one in value]
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {name: shuffled(value[name], rng) for name in keys}
    return value


def test_a_key_has_its_length() -> None:
    """A key is as long as the ledger's column."""
    assert len(key(ROW)) == KEY_BYTES == 32


@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(rng) -> None:
    """Objects with their keys in any order are the same prompt."""
    assert key(shuffled(ROW, rng)) == key(ROW)


def test_the_place_does_not_matter() -> None:
    """The same prompt in another file or line is the same prompt."""
    assert key(ROW, "b.json row 900") == key(ROW)


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "id": 7, "score": 0.5},
        {**ROW, "messages": [*ROW["messages"], {"role": "assistant", "content": "old answer"}]},
        {
            "conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "u"}],
            "tools": json.dumps([TOOL]),
        },
        {"system": "s", "prompt": "u", "functions": [TOOL]},
    ],
)
def test_what_is_not_sent_does_not_matter(row) -> None:
    """Old answers, other fields and the spelling of a row leave the key as it is."""
    assert key(row) == key(ROW)


@pytest.mark.parametrize(
    "row",
    [
        {**ROW, "tools": []},
        {**ROW, "tools": [{**TOOL, "description": "e"}]},
        {**ROW, "tools": [TOOL, {**TOOL, "name": "g"}]},
        {**ROW, "messages": ROW["messages"][1:]},
        {**ROW, "messages": [*ROW["messages"][:1], {"role": "user", "content": "u "}]},
        {**ROW, "messages": [*ROW["messages"], {"role": "user", "content": ""}]},
    ],
)
def test_everything_that_is_sent_matters(row) -> None:
    """Another text, turn or tool is another prompt."""
    assert key(row) != key(ROW)


def test_the_key_is_stable() -> None:
    """The key of a prompt is the same in every version, or a ledger would take known prompts for new ones."""
    assert (
        key({"prompt": "Why is the sky blue?"}).hex()
        == "b40246c4c77f7df651cdb7878c15152fb7bd6e50e4415652a790e56a0b55e197"
    )
