"""What a client asks for, read from the body of its call."""

from dataclasses import dataclass
from typing import Any

import orjson

from eagle3gen.simulator.host import PARAMETERS
from eagle3gen.simulator.refusals import BadRequest
from eagle3gen.simulator.wishes import ANY_HOST, Wishes, read_wishes

LIMIT_DEFAULT = 65_536
"""The most that an answer may have when the client does not say."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that can be answered."""

    model: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    limit: int
    may_call_tools: bool
    limit_told: bool = False
    """Whether the client named the limit, so that hosts with a lower one are out."""
    wishes: Wishes = ANY_HOST
    parameters: frozenset[str] = frozenset()
    """Names of the fields that a host has to understand."""
    stream: bool = False
    wants_usage: bool = False
    """`stream_options.include_usage`, which OpenRouter ignores and vLLM obeys."""
    wants_ids: bool = False
    """`return_token_ids`, of vLLM."""
    wants_logprobs: bool = False

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
    if not isinstance(body.get("stream_options") or {}, dict):
        raise BadRequest("stream_options must be an object")
    limit = _limit(body)
    return Asked(
        model=_model(body, models),
        messages=messages,
        tools=tools,
        limit=limit or LIMIT_DEFAULT,
        may_call_tools=bool(tools) and body.get("tool_choice") != "none",
        limit_told=limit is not None,
        wishes=read_wishes(body.get("provider")),
        parameters=frozenset(name for name in PARAMETERS if body.get(name)),
        stream=body.get("stream") is True,
        wants_usage=(body.get("stream_options") or {}).get("include_usage") is True,
        wants_ids=body.get("return_token_ids") is True,
        wants_logprobs=body.get("logprobs") is True,
    )


def _model(body: dict[str, Any], models: tuple[str, ...]) -> str:
    """The model, or the first of the fallbacks that is served."""
    named = (
        [body.get("model"), *(body.get("models") or [])]
        if isinstance(body.get("models"), list)
        else [body.get("model")]
    )
    wanted = [model for model in named if model is not None]
    if not wanted or not all(isinstance(model, str) and model for model in wanted):
        raise BadRequest("model is missing")
    if not models:
        return str(wanted[0])
    for model in wanted:
        if model in models:
            return str(model)
    raise BadRequest(f"{wanted[0]} is not a valid model ID")


def _limit(body: dict[str, Any]) -> int | None:
    told = [body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None]
    if not told:
        return None
    if not isinstance(told[0], int) or isinstance(told[0], bool) or told[0] < 1:
        raise BadRequest("max_tokens must be a whole number, at least 1")
    return told[0]


def _objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _is_function(tool: dict[str, Any]) -> bool:
    function = tool.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)
