"""Which queue a prompt goes to when nobody says so."""

import orjson

from eagle3gen.records import Conversation, Queue

LONG_TOKENS = 4_096
CHARS_PER_TOKEN = 4
"""A rough measure, enough to tell a chat from an agent's history."""


def choose_queue(conversation: Conversation) -> Queue:
    """Long from about 4,096 prompt tokens on, tools included; else short."""
    chars = sum(len(str(message["content"])) for message in conversation.messages)
    if conversation.tools:
        chars += len(orjson.dumps(list(conversation.tools)))
    return Queue.LONG if chars >= LONG_TOKENS * CHARS_PER_TOKEN else Queue.SHORT
