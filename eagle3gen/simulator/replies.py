"""The JSON of a successful call, as OpenRouter writes it."""

from decimal import Decimal
from typing import Any

from eagle3gen.simulator.call import Call
from eagle3gen.simulator.voice import Answer


def completion(call: Call) -> dict[str, Any]:
    """The body of a successful call."""
    answer = call.answer
    body: dict[str, Any] = {
        "id": call.ask.id,
        "object": "chat.completion",
        "created": int(call.ask.begun),
        "model": call.model,
        "provider": call.host.name,
        "system_fingerprint": None,
        "choices": [
            {
                "index": 0,
                "logprobs": None,
                "finish_reason": answer.finish,
                "native_finish_reason": answer.finish,
                "message": _message(call),
            }
        ],
    }
    if "no_usage" not in call.faults:
        body["usage"] = usage(call)
    return body


def _message(call: Call) -> dict[str, Any]:
    answer = call.answer
    message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
    if answer.content is None and not answer.null and (not answer.calls or answer.finish == "length"):
        message["content"] = ""
    message["reasoning"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "type": "function",
                "index": index,
                "id": tool.id.text,
                "function": {"name": tool.name, "arguments": tool.arguments.text},
            }
            for index, tool in enumerate(answer.calls)
        ]
    if (details := reasoning_details(answer)) is not None:
        message["reasoning_details"] = [details]
    return message


def reasoning_details(answer: Answer) -> dict[str, Any] | None:
    """The one item of a list of them."""
    if answer.hidden is not None:
        kind, field, value = answer.hidden
        return {"type": kind, field: value, "format": "openai-responses-v1", "index": 0}
    if answer.reasoning is None:
        return None
    return {"type": "reasoning.text", "text": answer.reasoning, "format": "unknown", "index": 0}


def usage(call: Call) -> dict[str, Any]:
    """The counts and the cost of a call."""
    answer, prompt_tokens, price = call.answer, call.ask.prompt_tokens, call.price
    told: dict[str, Any] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": answer.billed,
        "total_tokens": prompt_tokens + answer.billed,
    }
    if "no_cost" not in call.faults:
        told |= {"cost": charged(call, price.total), "is_byok": call.charged_share is not None}
    told["prompt_tokens_details"] = {
        "cached_tokens": call.cached_tokens,
        "cache_write_tokens": 0,
        "audio_tokens": 0,
        "video_tokens": 0,
    }
    if "no_cost" not in call.faults:
        told["cost_details"] = {
            "upstream_inference_cost": price.total,
            "upstream_inference_prompt_cost": price.prompt,
            "upstream_inference_completions_cost": price.completion,
        }
    told["completion_tokens_details"] = {
        "reasoning_tokens": answer.reasoning_tokens,
        "image_tokens": 0,
        "audio_tokens": 0,
    }
    return told


def charged(call: Call, total: Decimal) -> Decimal:
    """What of a host's price is charged to the account."""
    return total if call.charged_share is None else total * Decimal(str(call.charged_share))
