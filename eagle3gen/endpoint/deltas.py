"""The pieces of one streamed choice, joined into the message of the plain form."""

from collections.abc import Mapping
from typing import Any

TEXTS = ("content", "reasoning", "reasoning_content", "refusal")
JOINED = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Reasoning details that come in pieces, and the name of their text."""
NOT_TEXT = ("images", "audio", "function_call")
"""Kept as they are: the reader of answers refuses them."""
WORST_FINISH = ("error", "content_filter", "length")
"""If chunks contradict each other, the one that says the answer is not whole is believed."""


class Damaged(Exception):
    """A piece that cannot be read, so text may be missing."""


class ChoiceText:
    """What the chunks of one choice say together."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._other: dict[str, Any] = {}
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._finishes: list[Any] = []
        self._native: Any = None
        self._error: Any = None
        self._token_ids: list[Any] | None = None
        self._logprobs: list[Any] | None = None

    def take(self, choice: Mapping[str, Any]) -> None:
        """Read one chunk. Raises Damaged."""
        if choice.get("finish_reason") is not None:
            self._finishes.append(choice["finish_reason"])
        self._native = choice.get("native_finish_reason") or self._native
        self._error = self._error or choice.get("error")
        self._take_proofs(choice)
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        if not isinstance(delta, dict):
            raise Damaged("an event with a delta of an unknown shape")
        for name in TEXTS:
            if (text := delta.get(name)) is not None:
                self._texts.setdefault(name, []).append(_text(text))
        for name in NOT_TEXT:
            if delta.get(name):
                self._other[name] = delta[name]
        if details := delta.get("reasoning_details"):
            self._take_details(details)
        if calls := delta.get("tool_calls"):
            self._take_calls(calls)

    def _take_proofs(self, choice: Mapping[str, Any]) -> None:
        if isinstance(ids := choice.get("token_ids"), list):
            self._token_ids = _appended(self._token_ids, ids)
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(content := logprobs.get("content"), list):
            self._logprobs = _appended(self._logprobs, content)

    def _take_details(self, details: Any) -> None:
        if not isinstance(details, list) or not all(isinstance(item, dict) for item in details):
            raise Damaged("an event with reasoning details of an unknown shape")
        for item in details:
            name = JOINED.get(str(item.get("type")))
            last = self._details[-1] if self._details else {}
            if name is None or any(item.get(k) != last.get(k) for k in ("type", "index")):
                self._details.append({**item, **({name: [_text(item.get(name))]} if name else {})})
                continue
            last[name].append(_text(item.get(name)))
            last.update({k: v for k, v in item.items() if k != name and v is not None})

    def _take_calls(self, calls: Any) -> None:
        if not isinstance(calls, list):
            raise Damaged("an event with tool calls of an unknown shape")
        for position, piece in enumerate(calls):
            function = piece.get("function") or {} if isinstance(piece, dict) else None
            if not isinstance(function, dict):
                raise Damaged("an event with a tool call of an unknown shape")
            call = self._call(piece, position)
            call["id"] = call["id"] or _text(piece.get("id"))
            name = _text(function.get("name"))
            if name and name != "".join(call["name"]):
                call["name"].append(name)
            call["arguments"].append(_text(function.get("arguments")))

    def _call(self, piece: Mapping[str, Any], position: int) -> dict[str, Any]:
        """The call that a piece belongs to: by index, or by position; another id is another call."""
        index, name = piece.get("index"), piece.get("id")
        same = [c for c in self._calls if c["index"] == index] if index is not None else self._calls[-1:]
        if same and not (name and same[-1]["id"] and name != same[-1]["id"]):
            return same[-1]
        index = index if index is not None else len(self._calls) + position
        self._calls.append({"index": index, "id": "", "name": [], "arguments": []})
        return self._calls[-1]

    def plain(self) -> dict[str, Any]:
        """The choice as a plain body holds it."""
        message: dict[str, Any] = {"role": "assistant", "content": None, **self._other}
        message.update({name: "".join(parts) for name, parts in self._texts.items()})
        if self._details:
            message["reasoning_details"] = [_joined(item) for item in self._details]
        if self._calls:
            numbered = all(isinstance(call["index"], int) for call in self._calls)
            calls = sorted(self._calls, key=lambda call: int(call["index"])) if numbered else self._calls
            message["tool_calls"] = [_plain_call(call) for call in calls]
        worst = [reason for reason in WORST_FINISH if reason in self._finishes]
        choice = {
            "finish_reason": worst[0] if worst else self._finishes[-1] if self._finishes else None,
            "native_finish_reason": self._native,
            "message": whole_characters(message),
        }
        if self._error:
            choice["error"] = self._error
        if self._token_ids is not None:
            choice["token_ids"] = self._token_ids
        if self._logprobs is not None:
            choice["logprobs"] = {"content": self._logprobs}
        return choice


def whole_characters(value: Any) -> Any:
    """The same JSON with characters whose halves came in two pieces made whole; a half that stays alone stays."""
    if isinstance(value, str):
        if value.isascii() or not any("\ud800" <= c <= "\udbff" for c in value):
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    if isinstance(value, dict):
        return {name: whole_characters(inner) for name, inner in value.items()}
    return [whole_characters(inner) for inner in value] if isinstance(value, list) else value


def _appended(kept: list[Any] | None, more: list[Any]) -> list[Any]:
    kept = [] if kept is None else kept
    kept.extend(more)
    return kept


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Damaged("an event with a text of an unknown shape")
    return value


def _joined(item: dict[str, Any]) -> dict[str, Any]:
    return {name: "".join(value) if isinstance(value, list) else value for name, value in item.items()}


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": "".join(call["name"]), "arguments": "".join(call["arguments"])}
    return {"index": call["index"], "id": call["id"], "type": "function", "function": function}
