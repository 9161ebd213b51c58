"""A message of a model, read into a completion, or the defect that makes it useless.

What a success holds is the whole text: whatever is not understood is a defect, never text that is silently missing.
"""

from collections.abc import Mapping
from typing import Any

from eagle3gen.endpoint.emitted import read_emitted
from eagle3gen.records import Completion, ToolCall, Usage

LABEL_CHARS = 300
FINISHED = frozenset({"stop", "length", "tool_calls"})
"""The finish reasons after which the text is whole, or cut at our own limit."""


class Defect(Exception):
    """An answer was given, but it cannot be used."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(kind, sentence)
        self.kind, self.sentence = kind, sentence


def read_answer(data: Mapping[str, Any], usage: Usage) -> Completion:
    """The completion of a body that has `choices`. Raises Defect."""
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Defect("no_choices", "a reply without an answer")
    if len(choices) > 1:
        raise Defect("malformed", "a reply with several answers where one was asked for")
    choice = choices[0]
    message = choice.get("message")
    if not isinstance(message, dict):
        raise Defect("no_message", "an answer without a message")
    reasoning, hidden = _reasoning(message)
    # Reasoning that was billed and is nowhere to be seen was kept back.
    hidden = hidden or (not reasoning and bool(usage.reasoning_tokens))
    emitted = read_emitted(data, choice)
    completion = Completion(
        generation_id=label(data.get("id")),
        model=label(data.get("model")),
        host=label(data.get("provider")),
        finish_reason=_finish(choice.get("finish_reason")),
        native_finish_reason=label(choice.get("native_finish_reason")),
        stop_reason=_stop_reason(choice.get("stop_reason")),
        reasoning=reasoning,
        hidden_reasoning=hidden,
        content=_content(message),
        tool_calls=_tool_calls(message),
        usage=usage,
        prompt_token_ids=emitted.prompt_ids,
        output_token_ids=emitted.output_ids,
        output_token_bytes=emitted.output_bytes,
    )
    _check(completion)
    return completion


def _stop_reason(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else label(value) or None


def _check(completion: Completion) -> None:
    """Raises Defect for an answer that holds no answer."""
    if completion.content or completion.tool_calls:
        if completion.finish_reason == "tool_calls" and not completion.tool_calls:
            raise Defect("no_tool_calls", "an answer that ended with tool calls but holds none")
        return
    if not completion.reasoning and not completion.hidden_reasoning:
        raise Defect("empty", "an answer without any text")
    if completion.finish_reason != "length":
        raise Defect("all_in_reasoning", "the whole answer stands in the reasoning")


def _finish(reason: Any) -> str:
    if reason is None:
        raise Defect("no_finish_reason", "an answer that does not say how it ended")
    if reason == "content_filter":
        raise Defect("content_filter", "the answer was cut by a content filter")
    if not isinstance(reason, str) or reason not in FINISHED:
        raise Defect("unknown_finish", f"an answer that ended in an unknown way: {label(reason)}")
    return reason


def _reasoning(message: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The text of the reasoning, and whether some of it is hidden.

    `reasoning_details` repeats the text of open models; encrypted or summarised items stand for text that is not shown.
    """
    text, other = _string(message, "reasoning"), _string(message, "reasoning_content")
    contradicted = bool(text and other and text != other)
    text = text or other
    details = message.get("reasoning_details") or []
    if not isinstance(details, list) or not all(isinstance(item, dict) for item in details):
        raise Defect("malformed", "an answer with reasoning details of an unknown shape")
    if any(item.get("type") != "reasoning.text" for item in details):
        return text, True
    detailed = "".join(_string(item, "text") or "" for item in details)
    return text or detailed or None, contradicted or bool(detailed and text and detailed != text)


def _content(message: Mapping[str, Any]) -> str | None:
    """The text of a message; parts are joined. Never stripped: blanks are tokens."""
    if _string(message, "refusal"):
        raise Defect("model_refused", "the model refused, in a field of its own")
    if message.get("images") or message.get("audio") or message.get("function_call"):
        raise Defect("unknown_part", "an answer that holds more than text and tool calls")
    content = message.get("content")
    if not isinstance(content, list):
        return _string(message, "content")
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            raise Defect("unknown_part", "an answer with a part that is no text")
    return "".join(part["text"] for part in content)


def _tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise Defect("malformed", "an answer with tool calls of an unknown shape")
    return tuple(_tool_call(call) for call in calls)


def _tool_call(call: Any) -> ToolCall:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise Defect("malformed", "an answer with a tool call of an unknown shape")
    name, arguments = function.get("name"), function.get("arguments")
    # Arguments that are no text are not what the model wrote.
    if not isinstance(name, str) or not name or not isinstance(arguments, str):
        raise Defect("malformed", "an answer with a tool call without its name or text")
    return ToolCall(id=_string(call, "id") or "", name=name, arguments=arguments)


def _string(holder: Mapping[str, Any], name: str) -> str | None:
    value = holder.get(name)
    if value is not None and not isinstance(value, str):
        raise Defect("malformed", f"an answer whose {name} is no text")
    return value


def label(value: Any) -> str | None:
    """A short text for rows and messages: no control characters and no halves of characters."""
    if not isinstance(value, str):
        return None
    return "".join(c if c.isprintable() else " " for c in value[:LABEL_CHARS])
