"""What makes a prompt the same prompt: its content, not its place in a file."""

from hashlib import blake2b

import orjson

from eagle3gen.records import Conversation

KEY_BYTES = 32


def content_key(conversation: Conversation) -> bytes:
    """32 bytes over messages and tools, independent of key order, file and position."""
    content = [list(conversation.messages), list(conversation.tools)]
    return blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=KEY_BYTES).digest()
