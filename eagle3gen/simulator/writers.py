"""The events of a stream, as OpenRouter and as vLLM write them."""

from collections.abc import Callable
from typing import Any, Protocol

import orjson

from eagle3gen.simulator import replies, vllm
from eagle3gen.simulator.call import Call
from eagle3gen.simulator.events import Delta
from eagle3gen.simulator.numbers import dumps

COMMENT = b": OPENROUTER PROCESSING\n\n"
DONE = b"data: [DONE]\n\n"


class Writer(Protocol):
    """The events of one dialect."""

    first: bytes
    """What comes before all else."""
    comment: bytes
    """What keeps the connection alive."""

    def delta(self, delta: Delta) -> bytes:
        """More of the answer."""

    def end(self) -> bytes:
        """All that follows the last delta."""

    def failed(self) -> bytes:
        """An error in the middle, and the end."""


class OpenRouterWriter:
    """Events as OpenRouter writes them."""

    first = comment = COMMENT

    def __init__(self, call: Call) -> None:
        self._call = call
        named = {"id": call.ask.id, "object": "chat.completion.chunk", "created": int(call.ask.begun)}
        self._named = {**named, "model": call.model, "provider": call.host.name}
        # Thousands of events a second: all but the text is written once.
        head = orjson.dumps(self._named)[:-1]
        self._before = b"data: " + head + b',"choices":[{"index":0,"delta":'
        self._after = b',"finish_reason":null,"native_finish_reason":null}]}\n\n'

    def delta(self, delta: Delta) -> bytes:
        return self._before + _DELTAS[delta.kind](self._call, delta) + self._after

    def end(self) -> bytes:
        answer = self._call.answer
        frames = []
        if answer.hidden is not None:
            hidden = {"content": "", "role": "assistant", "reasoning": answer.reasoning}
            frames.append(self._chunk({**hidden, "reasoning_details": [replies.reasoning_details(answer)]}, None))
        empty = {"content": "", "role": "assistant"}
        frames.append(self._chunk({**empty, "reasoning": None}, answer.finish))
        usage = {} if "no_usage" in self._call.faults else {"usage": replies.usage(self._call)}
        if self._call.ask.rng.random() < 0.5:
            frames.append(self._chunk(empty, answer.finish, **usage))
        else:
            frames += [self._chunk(empty, answer.finish), _frame({**self._named, "choices": [], **usage})]
        return b"".join([*frames, DONE])

    def failed(self) -> bytes:
        rng, prompt_tokens = self._call.ask.rng, self._call.ask.prompt_tokens
        metadata: dict[str, Any] = {"provider_name": self._call.host.name, "raw": "connection lost"}
        if rng.random() < 0.5:
            metadata = {"error_type": "provider_unavailable", "provider_code": None}
        error = {"code": rng.choice([400, 429, 502]), "message": "Provider disconnected", "metadata": metadata}
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 0, "total_tokens": prompt_tokens, "cost": 0}
        finish = rng.choice(["error", None])
        return self._chunk({"content": "", "role": "assistant"}, finish, error=error, usage=usage) + DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "native_finish_reason": finish}
        return _frame({**self._named, "choices": [choice], **more})


def _frame(event: dict[str, Any]) -> bytes:
    return b"data: " + dumps(event) + b"\n\n"


def _reasoning(_call: Call, delta: Delta) -> bytes:
    text = orjson.dumps(delta.text)
    return (
        b'{"content":"","role":"assistant","reasoning":' + text + b',"reasoning_details":[{"type":"reasoning.text",'
        b'"text":' + text + b',"format":"unknown","index":0}]}'
    )


def _content(_call: Call, delta: Delta) -> bytes:
    return b'{"content":' + orjson.dumps(delta.text) + b',"role":"assistant"}'


def _tool(call: Call, delta: Delta) -> bytes:
    name = call.answer.calls[delta.index].name
    function = {"name": name, "arguments": ""}
    tool = {"index": delta.index, "id": delta.text, "type": "function", "function": function}
    return orjson.dumps({"content": None, "role": "assistant", "tool_calls": [tool]})


def _arguments(_call: Call, delta: Delta) -> bytes:
    tool = {"index": delta.index, "function": {"arguments": delta.text}}
    return orjson.dumps({"content": None, "role": "assistant", "tool_calls": [tool]})


_DELTAS: dict[str, Callable[[Call, Delta], bytes]] = {
    "reasoning": _reasoning,
    "content": _content,
    "call": _tool,
    "arguments": _arguments,
}


class VllmWriter:
    """Events as vLLM writes them: the ids come with the text, the counts only for who asks."""

    comment = b""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._ids = call.answer.ids.tolist()
        self._used = 0
        self.first = _frame({**vllm.chunk(call, {"role": "assistant", "content": ""}, []), **self._prompt()})

    def _prompt(self) -> dict[str, Any]:
        return {} if self._call.ask.prompt_ids is None else {"prompt_token_ids": self._call.ask.prompt_ids}

    def delta(self, delta: Delta) -> bytes:
        inside: dict[str, Any] = {delta.kind: delta.text}
        if delta.kind == "call":
            named = {"name": self._call.answer.calls[delta.index].name, "arguments": ""}
            inside = {"tool_calls": [{"index": delta.index, "id": delta.text, "type": "function", "function": named}]}
        elif delta.kind == "arguments":
            inside = {"tool_calls": [{"index": delta.index, "function": {"arguments": delta.text}}]}
        elif delta.kind == "reasoning":
            inside["reasoning_content"] = delta.text
        return _frame(vllm.chunk(self._call, inside, self._next(delta.upto)))

    def _next(self, upto: int) -> list[int]:
        start, self._used = self._used, max(self._used, upto)
        return self._ids[start : self._used]

    def end(self) -> bytes:
        finish = self._call.answer.finish
        frames = [_frame(vllm.chunk(self._call, {}, self._next(len(self._ids)), finish))]
        if self._call.ask.asked.wants_usage:
            frames.append(_frame(vllm.last_chunk(self._call)))
        return b"".join([*frames, DONE])

    def failed(self) -> bytes:
        error = {"message": "EngineCore died", "type": "InternalServerError", "param": None, "code": 500}
        return _frame({"error": error}) + DONE
