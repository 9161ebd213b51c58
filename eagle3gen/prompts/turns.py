"""Turns of a conversation up to where the target begins."""

from collections.abc import Iterable, Mapping
from typing import Any

from eagle3gen.prompts.values import NotAPrompt, encodable, kind, quoted, text
from eagle3gen.records import Json

ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "bot": "assistant",
    "chatgpt": "assistant",
    "function_call": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "tool_call": "assistant",
    "developer": "system",
    "system": "system",
    "function": "tool",
    "function_response": "tool",
    "ipython": "tool",
    "observation": "tool",
    "tool": "tool",
    "tool_response": "tool",
}
"""How the sets spell them, in lower case."""


def first_question(turns: Iterable[Any]) -> list[Json]:
    """The messages before the first assistant turn that follows a user's. Raises NotAPrompt.

    An assistant's greeting before any question is left out. Later turns are never sent, so whatever they hold is fine.
    """
    kept: list[Json] = []
    asked = False
    for turn in turns:
        role = _role(turn)
        if role == "assistant":
            if asked:
                break
            continue
        if role == "tool":
            where = "follows the question without a call between them" if asked else "stands before any question"
            raise NotAPrompt(f"a tool result {where}")
        content = turn.get("content")
        if content is None:
            content = turn.get("value")
        if content is None and role == "system":
            continue
        asked = asked or role == "user"
        kept.append({"role": role, "content": joined(content, role)})
    if not any(message["role"] == "user" and message["content"].strip() for message in kept):
        raise NotAPrompt("it has no user text")
    return kept


def joined(content: Any, role: str) -> str:
    """A text, or text parts joined. Raises NotAPrompt for images and whatever else is no text."""
    if isinstance(content, str):
        return encodable(content)
    if not isinstance(content, list):
        raise NotAPrompt(f"the content of a {role} message is {kind(content)}, not text")
    return "".join(_part(part, role) for part in content)


def _part(part: Any, role: str) -> str:
    if isinstance(part, str):
        return encodable(part)
    if not isinstance(part, Mapping):
        raise NotAPrompt(f"a {role} message holds a part that is {kind(part)}, not text")
    if part.get("type") != "text":
        spelled = part.get("type")
        what = f"of type {quoted(spelled)}" if isinstance(spelled, str) else "without a type"
        raise NotAPrompt(f"a {role} message holds a part {what}; only text can be asked")
    value = part.get("text")
    return text(part.get("value") if value is None else value, f"a text part of a {role} message")


def _role(turn: Any) -> str:
    if not isinstance(turn, Mapping):
        raise NotAPrompt(f"a message is {kind(turn)}, not an object")
    spelled = turn.get("role") or turn.get("from")
    if not isinstance(spelled, str):
        raise NotAPrompt("a message has no role")
    role = ROLES.get(spelled.lower())
    if role is None:
        raise NotAPrompt(f"a message has the unknown role {quoted(spelled)}")
    return role
