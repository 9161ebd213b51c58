"""Which queue a prompt goes to when nobody says so."""

import orjson

from eagle3gen.records import Conversation, Queue

LONG_TOKENS = 4_096
BYTES_PER_TOKEN = 4
"""UTF-8 bytes: a rough measure in every script, enough to tell a chat from an agent's history."""


def choose_queue(conversation: Conversation) -> Queue:
    """Long from about 4,096 prompt tokens on, tools included; else short."""
    size = sum(len(message["content"].encode()) for message in conversation.messages)
    if conversation.tools:
        size += len(orjson.dumps(list(conversation.tools)))
    return Queue.LONG if size >= LONG_TOKENS * BYTES_PER_TOKEN else Queue.SHORT
