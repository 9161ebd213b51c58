"""Short or long by size, tools included, in every script."""

import pytest

from eagle3gen.prompts.routing import BYTES_PER_TOKEN, LONG_TOKENS, choose_queue
from eagle3gen.records import Conversation, Queue

LONG_BYTES = LONG_TOKENS * BYTES_PER_TOKEN


def queue(*texts: str, tools: tuple[dict[str, object], ...] = ()) -> Queue:
    return choose_queue(Conversation(messages=[{"role": "user", "content": text} for text in texts], tools=tools))


def test_the_border_is_where_it_is_said_to_be() -> None:
    """4,096 estimated tokens are long, one byte less is short."""
    assert queue("x" * LONG_BYTES) is Queue.LONG
    assert queue("x" * (LONG_BYTES - 1)) is Queue.SHORT


def test_all_messages_count() -> None:
    """The messages of a conversation are measured together."""
    assert queue("x" * (LONG_BYTES // 2), "y" * (LONG_BYTES // 2)) is Queue.LONG


def test_tools_count() -> None:
    """A small question with many tools is long."""
    tool = {"type": "function", "function": {"name": "f", "description": "d" * 1000}}
    assert queue("x", tools=(tool,)) is Queue.SHORT
    assert queue("x", tools=(tool,) * 16) is Queue.LONG


@pytest.mark.parametrize("character", ["日", "한", "ह"])
def test_scripts_of_three_bytes_are_long_with_fewer_characters(character) -> None:
    """A text in a script whose characters are nearly tokens is not taken for a quarter of its size."""
    assert queue(character * (LONG_BYTES // 3 + 1)) is Queue.LONG
    assert queue(character * (LONG_BYTES // 3)) is Queue.SHORT
