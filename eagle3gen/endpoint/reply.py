"""Read what came back. Pure: status, headers and body in; a completion or a refusal out; never an exception.

OpenRouter commits to 200 before it knows the outcome: blanks keep the connection alive, then comes JSON that may hold
an error instead of an answer. So the body decides, and `error` is looked at before `choices`.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import InvalidOperation
from typing import Any

import orjson

from eagle3gen.endpoint.refusal import Billed, Decision, Refusal, retry_after_seconds, rule_for
from eagle3gen.endpoint.usage import read_usage
from eagle3gen.records import Completion, ToolCall, Usage

MESSAGE_CHARS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One exchange; exactly one of `completion` and `refusal` is set."""

    status: int | None
    """None when no response came at all."""
    body: bytes
    seconds: float
    completion: Completion | None = None
    refusal: Refusal | None = None


def read_reply(status: int, headers: Mapping[str, str], body: bytes, seconds: float = 0.0) -> Reply:
    """What the endpoint said."""
    try:
        read = _read(status, headers, body)
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, InvalidOperation, RecursionError) as error:
        read = _odd("malformed", f"a reply of an unknown shape ({type(error).__name__})", Billed.MAYBE)
    if isinstance(read, Completion):
        return Reply(status=status, body=body, seconds=seconds, completion=read)
    header_id = next((v for k, v in headers.items() if k.lower() == "x-generation-id"), None)
    return Reply(
        status=status,
        body=body,
        seconds=seconds,
        refusal=replace(read, generation_id=read.generation_id or header_id),
    )


def _read(status: int, headers: Mapping[str, str], body: bytes) -> Completion | Refusal:
    text = body.strip()
    if not text:
        return _no_json(status, headers, "an empty reply")
    try:
        data = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _no_json(status, headers, _start_of(text))
    if not isinstance(data, dict):
        return _no_json(status, headers, _start_of(text))
    usage = read_usage(data.get("usage"), text)
    if data.get("error"):
        return _error(status, headers, data, data["error"], usage)
    if status >= 400:
        return _by_status(status, headers, _sentence(data), usage, data)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return replace(_odd("no_choices", "a reply without an answer", Billed.MAYBE), **_origin(data, usage))
    if choices[0].get("error"):
        return _error(status, headers, data, choices[0]["error"], usage)
    return _completion(data, choices[0], usage)


def _completion(data: dict[str, Any], choice: dict[str, Any], usage: Usage) -> Completion | Refusal:
    message = choice.get("message")
    if not isinstance(message, dict):
        return replace(_odd("no_message", "an answer without a message", _billed(usage)), **_origin(data, usage))
    completion = Completion(
        generation_id=_text(data.get("id")),
        model=_text(data.get("model")),
        host=_text(data.get("provider")),
        finish_reason=_text(choice.get("finish_reason")),
        native_finish_reason=_text(choice.get("native_finish_reason")),
        reasoning=_text(message.get("reasoning")) or _text(message.get("reasoning_content")),
        content=_content(message.get("content")),
        tool_calls=tuple(_tool_call(call) for call in message.get("tool_calls") or ()),
        usage=usage,
    )
    defect = _defect(completion, message)
    if defect is not None:
        kind, sentence = defect
        return replace(_odd(kind, sentence, _billed(usage)), **_origin(data, usage))
    return completion


def _defect(completion: Completion, message: dict[str, Any]) -> tuple[str, str] | None:
    """Why an answer cannot be used although it was given; None for a sound one."""
    if completion.finish_reason is None:
        return "no_finish_reason", "an answer that does not say how it ended"
    if completion.finish_reason == "error":
        return "host_failed", "the host failed in the middle of the answer"
    if completion.finish_reason == "content_filter":
        return "content_filter", "the answer was cut by a content filter"
    if completion.finish_reason == "length":
        if completion.reasoning or completion.content or completion.tool_calls:
            return None
        return "empty", "an answer without any text"
    if not completion.content and not completion.tool_calls:
        if completion.reasoning:
            return "all_in_reasoning", "the whole answer stands in the reasoning"
        return "empty", "an answer without any text"
    if not completion.reasoning and message.get("reasoning_details"):
        return "hidden_reasoning", "the reasoning is encrypted or summarised, so its tokens cannot be rebuilt"
    return None


def _error(status: int, headers: Mapping[str, str], data: dict[str, Any], error: Any, usage: Usage) -> Refusal:
    """All dialects: `{code, message, metadata}`, the typed one, the one with `availability`, and a bare string."""
    if not isinstance(error, dict):
        return _by_status(status if status >= 400 else 500, headers, str(error), usage, data)
    code = error.get("code") or error.get("http_status") or status
    number = int(code) if str(code).isdigit() else status
    number = number if number >= 400 else 500
    metadata, availability = _object(error, "metadata"), _object(error, "availability")
    nested = _object(metadata, "headers")
    refusal = _by_status(
        number, {**headers, **{str(k): str(v) for k, v in nested.items()}}, _sentence(error), usage, data
    )
    wait = next((w for w in (metadata.get("retry_after_seconds"), availability.get("retry_after")) if w), None)
    if isinstance(wait, int | float):
        refusal = replace(refusal, retry_after_seconds=max(0.0, float(wait)))
    if availability.get("retryable") is True and refusal.decision is not Decision.PAUSE_KEY:
        refusal = replace(refusal, decision=Decision.RETRY)
    host = _text(metadata.get("provider_name"))
    return replace(refusal, host=refusal.host or host)


def _object(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}


def _by_status(status: int, headers: Mapping[str, str], sentence: str, usage: Usage, data: dict[str, Any]) -> Refusal:
    rule = rule_for(status, sentence)
    billed = Billed.YES if usage.cost_usd else rule.billed
    return replace(
        Refusal(kind=rule.kind, decision=rule.decision, billed=billed, message=f"{status}: {sentence}"),
        retry_after_seconds=retry_after_seconds(headers, time.time()),
        **_origin(data, usage),
    )


def _no_json(status: int, headers: Mapping[str, str], start: str) -> Refusal:
    """A page of the network in between, or a reply cut off: an answer may have been made and billed."""
    if status >= 400:
        return _by_status(status, headers, start, Usage(), {})
    return _odd("cut_off", f"a reply that ended without its JSON: {start}", Billed.MAYBE)


def _odd(kind: str, sentence: str, billed: Billed) -> Refusal:
    return Refusal(kind=kind, decision=Decision.RETRY, billed=billed, message=sentence)


def _billed(usage: Usage) -> Billed:
    return Billed.YES if usage.completion_tokens is not None else Billed.MAYBE


def _origin(data: dict[str, Any], usage: Usage) -> dict[str, Any]:
    return {"usage": usage, "generation_id": _text(data.get("id")), "host": _text(data.get("provider"))}


def _tool_call(call: dict[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        raise TypeError("arguments that are no text are not what the model wrote")
    return ToolCall(id=str(call.get("id") or ""), name=str(function["name"]), arguments=arguments)


def _content(content: Any) -> str | None:
    """The text of a message; parts are joined. Never stripped: blanks are tokens."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part.get("type") == "text")
    return _text(content)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _sentence(error: dict[str, Any]) -> str:
    message = error.get("message") or error.get("detail") or error.get("object") or "no message"
    return str(message)[:MESSAGE_CHARS]


def _start_of(text: bytes) -> str:
    return text[:80].decode("utf-8", "replace").replace("\n", " ")
