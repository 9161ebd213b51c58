"""The JSON that OpenRouter answers with."""

from decimal import Decimal
from typing import Any

import orjson

from eagle3gen.simulator.options import Host
from eagle3gen.simulator.voice import Answer

DATED = "-0127"
"""OpenRouter answers with the dated name of the model."""


def completion(
    generation_id: str, created: int, model: str, host: Host, answer: Answer, prompt_tokens: int, cost: Decimal
) -> bytes:
    """The body of a successful call."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.content, "refusal": None}
    if answer.content is None and answer.finish == "length":
        message["content"] = ""
    message["reasoning"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {
                "type": "function",
                "index": index,
                "id": call.id.text,
                "function": {"name": call.name, "arguments": call.arguments.text},
            }
            for index, call in enumerate(answer.calls)
        ]
    message["reasoning_details"] = [
        {"type": "reasoning.text", "text": answer.reasoning, "format": "unknown", "index": 0}
    ]
    choice = {
        "index": 0,
        "logprobs": None,
        "finish_reason": answer.finish,
        "native_finish_reason": answer.finish,
        "message": message,
    }
    return orjson.dumps(
        {
            "id": generation_id,
            "object": "chat.completion",
            "created": created,
            "model": model if model.endswith(DATED) else model + DATED,
            "provider": host.name,
            "system_fingerprint": None,
            "choices": [choice],
            "usage": _usage(host, answer, prompt_tokens, cost),
        }
    )


def _usage(host: Host, answer: Answer, prompt_tokens: int, cost: Decimal) -> dict[str, Any]:
    prompt_cost = host.cost(prompt_tokens, 0)
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": len(answer.ids),
        "total_tokens": prompt_tokens + len(answer.ids),
        "cost": _number(cost),
        "is_byok": False,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, "audio_tokens": 0, "video_tokens": 0},
        "cost_details": {
            "upstream_inference_cost": _number(cost),
            "upstream_inference_prompt_cost": _number(prompt_cost),
            "upstream_inference_completions_cost": _number(cost - prompt_cost),
        },
        "completion_tokens_details": {
            "reasoning_tokens": answer.reasoning_tokens,
            "image_tokens": 0,
            "audio_tokens": 0,
        },
    }


def _number(amount: Decimal) -> orjson.Fragment:
    """A JSON number with every digit of the decimal."""
    return orjson.Fragment(format(amount.normalize(), "f"))


def error(code: int, message: str, **metadata: Any) -> bytes:
    """An error body."""
    inside: dict[str, Any] = {"code": code, "message": message}
    if metadata:
        inside["metadata"] = metadata
    return orjson.dumps({"error": inside, "user_id": "user_simulated"})
