"""A reply in the words of `eagle3gen explain`: what the client made of it, as one flat object."""

from collections.abc import Mapping
from typing import Any

from eagle3gen.endpoint.answer import label
from eagle3gen.endpoint.fault import as_object
from eagle3gen.endpoint.refusal import Decision
from eagle3gen.endpoint.reply import Reply, parse
from eagle3gen.records import Usage, usd


def explain(reply: Reply) -> dict[str, Any]:
    """Outcome, decision, bill and fields; of a refused reply, the fields are what can still be seen in it."""
    if reply.completion is not None:
        answer = reply.completion
        fields: dict[str, Any] = {
            "finish_reason": answer.finish_reason,
            "host": answer.host,
            **_bill(answer.usage),
            "reasoning_chars": len(answer.reasoning or ""),
            "content_chars": len(answer.content or ""),
            "tool_calls": len(answer.tool_calls),
            "message": "a whole answer",
        }
        if answer.finish_reason == "length":
            fields["message"] = "an answer that was cut at its limit"
        if answer.hidden_reasoning:
            fields["message"] += ", whose reasoning was not shown whole: its tokens cannot be rebuilt"
        return {"outcome": reply.outcome, "retry": False, "retry_after_s": None, "billed": reply.billed, **fields}
    if reply.refusal is None:
        raise AssertionError("a reply is a completion or a refusal")
    refusal, seen = reply.refusal, _seen(reply.body)
    retry = refusal.decision is Decision.RETRY
    return {
        "outcome": reply.outcome,
        "retry": retry,
        "retry_after_s": refusal.retry_after_seconds if retry else None,
        "billed": reply.billed,
        "finish_reason": seen.pop("finish_reason"),
        "host": refusal.host,
        **_bill(refusal.usage),
        **seen,
        "message": refusal.message,
    }


def _bill(usage: Usage) -> dict[str, Any]:
    cost = usage.cost_usd
    return {"completion_tokens": usage.completion_tokens, "cost_usd": None if cost is None else usd(cost)}


def _seen(body: bytes) -> dict[str, Any]:
    """What a body that is no usable answer holds all the same."""
    choices = as_object(parse(body.strip())).get("choices")
    choice = as_object(choices[0]) if isinstance(choices, list) and choices else {}
    message = as_object(choice.get("message"))
    calls = message.get("tool_calls")
    return {
        "finish_reason": label(choice.get("finish_reason")),
        "reasoning_chars": _length(message, "reasoning") or _length(message, "reasoning_content"),
        "content_chars": _length(message, "content"),
        "tool_calls": len(calls) if isinstance(calls, list) else 0,
    }


def _length(message: Mapping[str, Any], name: str) -> int:
    text = message.get(name)
    return len(text) if isinstance(text, str) else 0
