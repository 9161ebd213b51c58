"""What a client asks for, read from the body of its call."""

from dataclasses import dataclass
from typing import Any

import orjson

LIMIT_DEFAULT = 65_536
"""The most that an answer may have when the client does not say."""


class BadRequest(Exception):
    """What a 400 says."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that can be answered."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    limit: int
    may_call_tools: bool

    @property
    def earlier_calls(self) -> int:
        """Tool calls in the conversation so far: Kimi's ids count on from there."""
        return sum(len(message.get("tool_calls") or ()) for message in self.messages)


def read_asked(raw: bytes, models: tuple[str, ...] = ()) -> Asked:
    """Read a body. Raises BadRequest for what no endpoint could answer, or for a model that is not among `models`."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise BadRequest("the body is not JSON") from error
    if not isinstance(body, dict):
        raise BadRequest("the body is not an object")
    messages, tools = body.get("messages"), body.get("tools") or []
    if not _objects(messages) or not messages or not all(isinstance(m.get("role"), str) for m in messages):
        raise BadRequest("messages must be a list of messages that is not empty")
    if not all(_objects(m.get("tool_calls") or []) for m in messages):
        raise BadRequest("tool_calls must be a list of calls")
    if not _objects(tools) or not all(_is_function(tool) for tool in tools):
        raise BadRequest("tools must be a list of functions with names")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model is missing")
    if models and model not in models:
        raise BadRequest(f"{model} is not a valid model ID")
    may_call = bool(tools) and body.get("tool_choice") != "none"
    return Asked(model, messages, tools, _limit(body), may_call)


def _limit(body: dict[str, Any]) -> int:
    told = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    limit = told[0] if told else LIMIT_DEFAULT
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise BadRequest("max_tokens must be a whole number, at least 1")
    return limit


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_function(tool: dict[str, Any]) -> bool:
    function = tool.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)
