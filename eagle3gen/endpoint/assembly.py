"""A streamed answer put together into the body of the plain form, so that both are stored and judged alike.

Server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html. The chunks are collected as bytes
and parsed many at a time in one call of the JSON parser; nothing is decoded event by event while they arrive.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

import orjson

from eagle3gen.endpoint.deltas import ChoiceText, Damaged

FOLD_BYTES = 64 * 1024
"""How many raw bytes are kept before their text is taken out: an event of one token weighs hundreds of bytes."""
FIELDS = (b"event:", b"id:", b"retry:", b":")
"""Lines that hold no text of the model; a line of any other kind may be one that was damaged."""
STARTS = (b"data:", *FIELDS)
LASTING = ("id", "created", "model", "provider", "service_tier", "prompt_token_ids")
"""What every chunk repeats, or the first one says."""
DONE = b"[DONE]"
USAGE = re.compile(rb'"usage"\s*:\s*')


def looks_streamed(text: bytes) -> bool:
    """Whether a body is a stream of events, whatever its content type says. No JSON and no page starts like this."""
    return text.startswith(STARTS)


def assemble(raw: bytes) -> bytes:
    """The plain body of a whole stream; see `Assembly.body`."""
    assembly = Assembly()
    assembly.feed(raw)
    return assembly.body()


class Assembly:
    """The events of one stream so far: text that is taken out, and the newest raw bytes."""

    def __init__(self) -> None:
        self.raw_bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._fold_at = FOLD_BYTES
        self._inside_comment = False
        self._text = _Text()

    def feed(self, chunk: bytes) -> bool:
        """Take in what arrived; whether it holds more than blanks and comments, which only keep a connection open."""
        self._waiting.append(chunk)
        self._waiting_bytes += len(chunk)
        self.raw_bytes += len(chunk)
        if self._waiting_bytes >= self._fold_at:
            self._fold()
        return self._is_progress(chunk)

    def _is_progress(self, chunk: bytes) -> bool:
        first, newline, rest = chunk.partition(b"\n")
        silent = self._inside_comment or first.startswith(b":") or not first.strip()
        if newline:
            last = rest[rest.rfind(b"\n") + 1 :]
            self._inside_comment = last.startswith(b":")
        else:
            self._inside_comment = self._inside_comment or first.startswith(b":")
        return not silent or b"data" in rest

    def _fold(self) -> None:
        """Take the text out of the whole events that wait."""
        raw = b"".join(self._waiting)
        end = max(raw.rfind(b"\n\n") + 2, raw.rfind(b"\r\n\r\n") + 4)
        if end >= 4:
            self._text.take(raw[:end])
            raw = raw[end:]
        self._waiting, self._waiting_bytes = [raw], len(raw)
        self._fold_at = max(FOLD_BYTES, 2 * len(raw))

    def body(self) -> bytes:
        """The JSON body as a plain call would have brought it, marked with `streamed`.

        `streamed` holds the count of events, whether `[DONE]` came, and under `damaged` why text may be missing.
        """
        self._text.take(b"".join(self._waiting))
        self._waiting, self._waiting_bytes = [], 0
        return self._text.body()


class _Text:
    """What the events of a stream say together."""

    def __init__(self) -> None:
        self.events = 0
        self.done = False
        self.damaged = ""
        self.lasting: dict[str, Any] = {}
        self.unsaid = set(LASTING)
        self.error: Any = None
        self.usage: bytes | None = None
        self.choices: dict[int, ChoiceText] = {}

    def take(self, raw: bytes) -> None:
        """Read whole events."""
        lines = raw.removeprefix(b"\xef\xbb\xbf").splitlines() if not self.events else raw.splitlines()
        payloads = [line[5:] for line in lines if line.startswith(b"data:")]
        known = len(payloads) + sum(not line or line.startswith(FIELDS) for line in lines)
        whole = [p for p in payloads if not _is_end(p)]
        self.done = self.done or any(p.strip() == DONE for p in payloads)
        values = _parse_together(whole) if known == len(lines) else None
        for payload, value in zip(whole, values, strict=True) if values is not None else self._one_by_one(lines):
            self._take_one(payload, value)

    def _one_by_one(self, lines: Sequence[bytes]) -> list[tuple[bytes, Any]]:
        """The events by the letter of the standard: `data` lines up to a blank line are one event."""
        events: list[list[bytes]] = [[]]
        for line in lines:
            if not line.strip():
                events.append([])
            elif line.startswith(b"data:"):
                events[-1].append(line[5:])
            elif line.startswith(b"{"):
                events.append([line])  # an error that a gateway wrote between the events
            elif not line.startswith(FIELDS) and not b"data".startswith(line):
                self.damaged = "a line that is no event"
        found: list[tuple[bytes, Any]] = []
        for parts in events:
            payloads = [p for p in parts if not _is_end(p)]
            joined = b"\n".join(payloads)
            if (value := _parse(joined)) is not None or len(payloads) < 2:
                found += [(joined, value)] if payloads else []
            else:
                found += [(p, _parse(p)) for p in payloads]
        return found

    def _take_one(self, payload: bytes, chunk: Any) -> None:
        self.events += 1
        if not isinstance(chunk, dict):
            self.damaged = "an event that is no JSON object"
            return
        for name in self.unsaid & chunk.keys():
            if chunk[name] is not None:
                self.lasting[name] = chunk[name]
                self.unsaid.remove(name)
        choices, error = chunk.get("choices"), chunk.get("error")
        if isinstance(chunk.get("usage"), dict):
            self.usage = _written_usage(payload, chunk["usage"])
        if not error and choices is None and "message" in chunk:
            error = chunk  # the error object alone, without its wrapper
        self.error = self.error or error
        if isinstance(choices, list):
            self._take_choices(choices)
        elif not error and (choices is not None or chunk.get("usage") is None):
            self.damaged = "an event without choices"

    def _take_choices(self, choices: Sequence[Any]) -> None:
        try:
            for choice in choices:
                index = _index(choice)
                if index not in self.choices:
                    self.choices[index] = ChoiceText()
                self.choices[index].take(choice)
        except Damaged as damaged:
            self.damaged = str(damaged)

    def body(self) -> bytes:
        try:
            return self._body()
        except RecursionError:
            streamed = {"events": self.events, "done": self.done, "damaged": "an event that is nested too deeply"}
            return dump({"object": "chat.completion", "streamed": streamed, "choices": []})

    def _body(self) -> bytes:
        streamed: dict[str, Any] = {"events": self.events, "done": self.done}
        if self.damaged:
            streamed["damaged"] = self.damaged
        fields = {**self.lasting, "object": "chat.completion", "streamed": streamed}
        if self.error:
            fields["error"] = self.error
        fields["choices"] = [{"index": i, **choice.plain()} for i, choice in sorted(self.choices.items())]
        head = dump(fields)
        # The bill is copied as it was written: no digit of money passes through binary.
        return head if self.usage is None else head[:-1] + b',"usage":' + self.usage + b"}"


def _index(choice: Any) -> int:
    """Which answer a choice belongs to. Raises Damaged."""
    index = choice.get("index") or 0 if isinstance(choice, dict) else None
    if not isinstance(index, int):
        raise Damaged("an event with a choice of an unknown shape")
    return index


def _is_end(payload: bytes) -> bool:
    """Whether an event says nothing but that the stream ends, be it cut in the middle of saying so."""
    return DONE.startswith(payload.strip())


def dump(value: Any) -> bytes:
    """JSON; halves of characters, which orjson refuses, as escapes."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _parse_together(payloads: Sequence[bytes]) -> list[Any] | None:
    """All events in one call of the parser; None if any of them is not JSON by itself."""
    try:
        values = orjson.loads(b"[" + b",".join(payloads) + b"]")
    except orjson.JSONDecodeError:
        return None
    return values if len(values) == len(payloads) else None


def _parse(payload: bytes) -> Any:
    """The value, or None. orjson refuses halves of characters, which two events may share."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return None


def _written_usage(payload: bytes, usage: Any) -> bytes:
    """The text of the usage object in its event."""
    decoder = json.JSONDecoder()
    for match in USAGE.finditer(payload):
        try:
            text = payload[match.end() :].decode()
            value, end = decoder.raw_decode(text)
            if value == usage:
                return text[:end].encode()
        except (ValueError, RecursionError):
            continue
    try:
        return dump(usage)
    except RecursionError:
        return b"null"
