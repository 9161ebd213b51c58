"""The shapes that rows come in, one small reader each, chosen by what a row holds.

Only what stands before the first assistant turn is sent: that turn is what the target is asked for. Old answers in a
file are never sent as if they were the target's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from eagle3gen.records import Conversation, Json


class NotAPrompt(Exception):
    """Why a row cannot be used, as the end of a sentence that began with its place."""


Row = Mapping[str, Any]


def read_row(row: Any, place: str) -> Conversation:
    """One row as a conversation that ends where the target begins. Raises NotAPrompt."""
    if not isinstance(row, Mapping):
        raise NotAPrompt(f"it is {_kind(row)}, not an object")
    for field, reader in READERS.items():
        if row.get(field) is not None:
            messages = _before_the_answer(reader(row))
            return Conversation(messages=messages, tools=_tools(row.get("tools")), source=place)
    raise NotAPrompt(f"none of its fields is one of {', '.join(READERS)} (it has {', '.join(map(str, row)) or 'none'})")


def _messages(row: Row) -> list[Json]:
    """OpenAI `messages`."""
    return [_message(message) for message in _list(row, "messages")]


def _conversations(row: Row) -> list[Json]:
    """ShareGPT `conversations`, with `from`/`value` or `role`/`content`; a `system` field comes first."""
    messages = [_message(turn) for turn in _list(row, "conversations")]
    return [*_system(row), *messages]


def _turns(row: Row) -> list[Json]:
    """MT-Bench and Spec-Bench `turns`: user texts; the first is asked."""
    turns = _list(row, "turns")
    if not turns:
        raise NotAPrompt("its turns are empty")
    return [*_system(row), {"role": "user", "content": _string(turns[0], "its first turn")}]


def _prompt(row: Row) -> list[Json]:
    """`prompt`: a text, or messages."""
    if isinstance(row["prompt"], list):
        return [_message(message) for message in row["prompt"]]
    return [*_system(row), {"role": "user", "content": _string(row["prompt"], "its prompt")}]


def _instruction(row: Row) -> list[Json]:
    """Alpaca `instruction` with an optional `input` below it."""
    text = _string(row["instruction"], "its instruction")
    below = row.get("input")
    if below:
        text = f"{text}\n\n{_string(below, 'its input')}"
    return [*_system(row), {"role": "user", "content": text}]


READERS: Mapping[str, Callable[[Row], list[Json]]] = {
    "messages": _messages,
    "conversations": _conversations,
    "turns": _turns,
    "prompt": _prompt,
    "instruction": _instruction,
}

ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "system": "system",
    "developer": "system",
    "observation": "tool",
    "function_response": "tool",
    "tool": "tool",
    "function": "tool",
}


def _message(turn: Any) -> Json:
    if not isinstance(turn, Mapping):
        raise NotAPrompt(f"a message is {_kind(turn)}, not an object")
    spelled = turn.get("role") or turn.get("from")
    role = ROLES.get(str(spelled).lower())
    if role is None:
        raise NotAPrompt(f"a message has the unknown role {spelled!r}")
    if role == "assistant":
        # It is never sent, so whatever it holds is fine.
        return {"role": role}
    content = turn["content"] if "content" in turn else turn.get("value")
    return {"role": role, "content": _content(content, role)}


def _content(content: Any, role: str) -> str:
    """A text, or text parts joined. Raises NotAPrompt for images and whatever else is no text."""
    if isinstance(content, str):
        return _encodable(content)
    if not isinstance(content, list):
        raise NotAPrompt(f"the content of a {role} message is {_kind(content)}, not text")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        if not isinstance(part, Mapping) or part.get("type") != "text":
            kind = part.get("type") if isinstance(part, Mapping) else _kind(part)
            raise NotAPrompt(f"a {role} message holds a part of type {kind!r}; only text can be asked")
        texts.append(_string(part["text"] if "text" in part else part.get("value"), "a text part"))
    return _encodable("".join(texts))


def _before_the_answer(messages: Sequence[Json]) -> list[Json]:
    """The messages up to the first assistant turn that follows a user's."""
    kept: list[Json] = []
    asked = False
    for message in messages:
        if message["role"] == "assistant":
            if asked:
                break
            continue
        if message["role"] == "tool":
            raise NotAPrompt("a tool result stands before any question")
        asked = asked or message["role"] == "user"
        kept.append(message)
    if not any(message["role"] == "user" and message["content"].strip() for message in kept):
        raise NotAPrompt("it has no user text")
    return kept


def _system(row: Row) -> list[Json]:
    system = row.get("system") or row.get("system_prompt")
    return [{"role": "system", "content": _string(system, "its system text")}] if system else []


def _tools(tools: Any) -> list[Json]:
    """Tools in OpenAI's schema, from a list or a JSON string of one, wrapped or bare."""
    if isinstance(tools, str):
        if not tools.strip():
            return []
        try:
            tools = orjson.loads(tools)
        except orjson.JSONDecodeError as error:
            raise NotAPrompt(f"its tools are not JSON ({error})") from error
    if tools is None:
        return []
    if isinstance(tools, Mapping):
        tools = [tools]
    if not isinstance(tools, list):
        raise NotAPrompt(f"its tools are {_kind(tools)}, not a list")
    return [_tool(tool) for tool in tools]


def _tool(tool: Any) -> Json:
    if isinstance(tool, Mapping):
        function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
        if isinstance(function.get("name"), str):
            known = {k: v for k, v in function.items() if k in {"name", "description", "parameters", "strict"}}
            return {"type": "function", "function": known}
    raise NotAPrompt("one of its tools has no name")


def _list(row: Row, field: str) -> list[Any]:
    value = row[field]
    if isinstance(value, str):
        # Some sets hold their messages as a JSON string.
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            value = None
    if not isinstance(value, list):
        raise NotAPrompt(f"its {field} are {_kind(row[field])}, not a list")
    return value


def _string(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise NotAPrompt(f"{what} is {_kind(value)}, not text")
    return _encodable(value)


def _encodable(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotAPrompt("it holds half of a character (a lone surrogate)") from error
    return text


def _kind(value: Any) -> str:
    names = {type(None): "empty", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")
