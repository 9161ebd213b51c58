"""The JSON of a vLLM server: no cost, no host, no blanks; the true ids for who asks.

Shapes as vLLM 0.11 writes them: `token_ids` on a choice, `prompt_token_ids` on the whole, logprobs under `content`.
"""

from typing import Any

import orjson

from eagle3gen.simulator.call import Call
from eagle3gen.simulator.errors import Failure
from eagle3gen.simulator.numbers import dumps

NAME = "vllm"
LOGPROB = -0.125
KINDS = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 429: "TooManyRequestsError"}


def completion(call: Call) -> dict[str, Any]:
    """The body of a successful call."""
    answer, asked = call.answer, call.ask.asked
    message = {
        "role": "assistant",
        "content": answer.content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "tool_calls": [_tool_call(tool.id.text, tool.name, tool.arguments.text) for tool in answer.calls],
        "reasoning": answer.reasoning,
        "reasoning_content": answer.reasoning,
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": logprobs(answer.ids.tolist())} if asked.wants_logprobs else None,
        "finish_reason": answer.finish,
        "stop_reason": None,
        "token_ids": answer.ids if asked.wants_ids else None,
    }
    return {
        "id": _name(call),
        "object": "chat.completion",
        "created": int(call.ask.begun),
        "model": asked.model,
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": usage(call),
        "prompt_logprobs": None,
        "prompt_token_ids": call.ask.prompt_ids,
        "kv_transfer_params": None,
    }


def _name(call: Call) -> str:
    return "chatcmpl-" + call.ask.id.removeprefix("gen-")


def _tool_call(name: str, function: str, arguments: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}


def logprobs(ids: list[int]) -> list[dict[str, Any]]:
    """One entry for each id, named by its number as `return_tokens_as_token_ids` has it."""
    return [{"token": f"token_id:{i}", "logprob": LOGPROB, "bytes": None, "top_logprobs": []} for i in ids]


def usage(call: Call) -> dict[str, Any]:
    prompt, answer = call.ask.prompt_tokens, call.answer
    cached = {"cached_tokens": call.cached_tokens} if call.cached_tokens else None
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + answer.billed,
        "completion_tokens": answer.billed,
        "prompt_tokens_details": cached,
    }


def chunk(call: Call, delta: dict[str, Any], ids: list[int], finish: str | None = None) -> dict[str, Any]:
    """One event of a stream; `ids` are those that came with it."""
    asked = call.ask.asked
    choice = {
        "index": 0,
        "delta": delta,
        "logprobs": {"content": logprobs(ids)} if asked.wants_logprobs else None,
        "finish_reason": finish,
        "token_ids": ids if asked.wants_ids else None,
    }
    return _event(call, [choice])


def last_chunk(call: Call) -> dict[str, Any]:
    """The event with the counts."""
    return {**_event(call, []), "usage": usage(call)}


def _event(call: Call, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": _name(call),
        "object": "chat.completion.chunk",
        "created": int(call.ask.begun),
        "model": call.ask.asked.model,
        "choices": choices,
    }


def failure(of: Failure) -> Failure:
    """An error as vLLM words it."""
    inside = {
        "message": _message(of),
        "type": KINDS.get(of.status, "InternalServerError"),
        "param": None,
        "code": of.status,
    }
    headers = {name: value for name, value in of.headers.items() if name == "Retry-After"}
    return Failure(of.status, dumps({"error": inside}), headers)


def _message(of: Failure) -> str:
    try:
        return str(orjson.loads(of.body)["error"]["message"])
    except orjson.JSONDecodeError:
        return of.body.decode()


def models(names: tuple[str, ...], longest: int) -> dict[str, Any]:
    """GET /v1/models."""
    data = [
        {"id": name, "object": "model", "created": 0, "owned_by": "vllm", "root": name, "max_model_len": longest}
        for name in names
    ]
    return {"object": "list", "data": data}
