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
        self._texts: dict[str, list[str]] = {name: [] for name in TEXTS}
        self._other: dict[str, Any] = {}
        self._details: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._finishes: list[Any] = []
        self._native: Any = None
        self._stop: Any = None
        self._error: Any = None
        self._token_ids: list[Any] | None = None
        self._logprobs: list[Any] | None = None

    def take(self, choice: Mapping[str, Any]) -> None:
        """Read one chunk. Raises Damaged."""
        delta = choice.get("delta") or choice.get("message") or {}
        if not isinstance(delta, dict):
            raise Damaged("an event with a delta of an unknown shape")
        # This runs once for every token: what is absent or empty is passed over.
        for name, value in choice.items():
            if value and name not in {"index", "delta", "message"}:
                self._take_beside(name, value)
        for name, value in delta.items():
            if not value or name == "role":
                continue
            if name in TEXTS:
                self._texts[name].append(_text(value))
            elif name == "reasoning_details":
                self._take_details(value)
            elif name == "tool_calls":
                self._take_calls(value)
            elif name in NOT_TEXT:
                self._other[name] = value

    def _take_beside(self, name: str, value: Any) -> None:
        """What stands beside the delta."""
        match name:
            case "finish_reason":
                self._finishes.append(value)
            case "native_finish_reason":
                self._native = value
            case "stop_reason":
                self._stop = value
            case "error":
                self._error = self._error or value
            case "token_ids" if isinstance(value, list):
                self._token_ids = _appended(self._token_ids, value)
            case "logprobs" if isinstance(value, dict) and isinstance(value.get("content"), list):
                self._logprobs = _appended(self._logprobs, value["content"])

    def _take_details(self, details: Any) -> None:
        if not isinstance(details, list):
            raise Damaged("an event with reasoning details of an unknown shape")
        for item in details:
            if not isinstance(item, dict):
                raise Damaged("an event with reasoning details of an unknown shape")
            kind, last = item.get("type"), self._details[-1] if self._details else {}
            name = JOINED.get(kind) if isinstance(kind, str) else None
            if name is None or kind != last.get("type") or item.get("index") != last.get("index"):
                self._details.append({**item, **({name: [_text(item.get(name))]} if name else {})})
                continue
            last[name].append(_text(item.get(name)))
            if (signature := item.get("signature")) is not None:
                last["signature"] = signature

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
        message.update({name: "".join(parts) for name, parts in self._texts.items() if parts})
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
            "stop_reason": self._stop,
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
    kind = item.get("type")
    name = JOINED.get(kind) if isinstance(kind, str) else None
    return item if name is None else {**item, name: "".join(item[name])}


def _plain_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": "".join(call["name"]), "arguments": "".join(call["arguments"])}
    return {"index": call["index"], "id": call["id"], "type": "function", "function": function}
