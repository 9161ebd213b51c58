"""Read what came back. Pure: status, headers, body and time in; a completion or a refusal out; never an exception.

OpenRouter commits to 200 before it knows the outcome: blanks keep the connection alive, then comes JSON that may hold
an error instead of an answer. So the body decides, and `error` is looked at before `choices`.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from eagle3gen.endpoint.answer import Defect, label, read_answer
from eagle3gen.endpoint.assembly import assemble, looks_streamed
from eagle3gen.endpoint.fault import Circumstances, as_object, read_error, ruled, sentence_of
from eagle3gen.endpoint.refusal import Billed, Decision, OutcomeWord, Refusal, billed_by
from eagle3gen.endpoint.rules import ELSEWHERE, rule_for, rule_for_page
from eagle3gen.endpoint.usage import read_usage
from eagle3gen.endpoint.waiting import PAGE_SECONDS
from eagle3gen.records import Completion, Usage

EDGE_CODE = re.compile(rb"error code: (\d{3,4})\b", re.IGNORECASE)
"""What Cloudflare's edge writes to programs: 1xxx is its own refusal, 52x a failure of the server behind it."""
MARK = b"\xef\xbb\xbf"
WRITTEN = ("content", "reasoning", "reasoning_content", "tool_calls")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One exchange; exactly one of `completion` and `refusal` is set."""

    status: int | None
    """None when no response came at all."""
    body: bytes
    """As received; of a stream, its plain form."""
    seconds: float
    completion: Completion | None = None
    refusal: Refusal | None = None

    @property
    def outcome(self) -> OutcomeWord:
        if self.refusal is not None:
            return self.refusal.outcome
        cut = self.completion is not None and self.completion.finish_reason == "length"
        return "truncated" if cut else "success"

    @property
    def billed(self) -> Billed:
        """An answer is paid for, whatever it costs."""
        return Billed.YES if self.refusal is None else self.refusal.billed


def read_reply(
    status: int, headers: Mapping[str, str], body: bytes, seconds: float = 0.0, *, now: float | None = None
) -> Reply:
    """What the endpoint said, streamed or not. `now` is the time of the answer in seconds since 1970."""
    headers = {name.lower(): value for name, value in headers.items()}
    text = body.removeprefix(MARK).strip()
    if looks_streamed(text):
        body = text = assemble(body)
    read = _read(status, headers, text, time.time() if now is None else now)
    if isinstance(read, Completion):
        if read.generation_id is None:
            read = replace(read, generation_id=label(headers.get("x-generation-id")))
        return Reply(status=status, body=body, seconds=seconds, completion=read)
    generation_id = read.generation_id or label(headers.get("x-generation-id"))
    return Reply(status=status, body=body, seconds=seconds, refusal=replace(read, generation_id=generation_id))


def _read(status: int, headers: Mapping[str, str], text: bytes, now: float) -> Completion | Refusal:
    if 300 <= status < 400:
        return _redirected(status, headers, now)
    data = parse(text)
    if not isinstance(data, dict):
        return _page(status, headers, text, now)
    usage = read_usage(data.get("usage"), text)
    origin: dict[str, Any] = {
        "usage": usage,
        "generation_id": label(data.get("id")),
        "host": label(data.get("provider")),
    }
    around = Circumstances(
        status=status,
        headers=headers,
        now=now,
        usage=usage,
        answered=_has_begun(data),
        cut=_choice(data).get("finish_reason") == "length",
    )
    if error := _error(data):
        return replace(read_error(error, around), **_known(origin))
    if status >= 400:
        return replace(ruled(rule_for(status, sentence_of(data)), status, sentence_of(data), headers, now), **origin)
    if "choices" not in data and isinstance(data.get("data"), dict | list):
        return ruled(ELSEWHERE, status, "a record of another kind, not an answer: wrong --endpoint-url", {}, now)
    if broken := _broken_stream(data):
        return replace(_cut_off(broken, usage), **origin)
    try:
        return read_answer(data, usage)
    except Defect as defect:
        return _defective(defect, usage, origin, data)


def _error(data: Mapping[str, Any]) -> Any:
    """What a body gives as its error, if it does."""
    choice = _choice(data)
    if error := data.get("error") or choice.get("error"):
        return error
    if "message" in data and not data.get("choices"):
        return data  # the error object alone, without its wrapper
    if choice.get("finish_reason") == "error":
        return {"code": 502, "message": "the host failed in the middle of the answer"}
    return None


def _broken_stream(data: Mapping[str, Any]) -> str:
    """Why text of a stream may be missing, if so."""
    streamed = as_object(data.get("streamed"))
    if streamed.get("damaged"):
        return f"a stream with {label(streamed['damaged'])}"
    if streamed and not streamed.get("done") and _choice(data).get("finish_reason") is None:
        return "a stream that broke off"
    return ""


def _defective(defect: Defect, usage: Usage, origin: Mapping[str, Any], data: Mapping[str, Any]) -> Refusal:
    billed = billed_by(usage, Billed.MAYBE)
    if billed is Billed.NO and usage.cost_usd is None and _choice(data).get("finish_reason"):
        # The insurance covers answers that broke off; one that ended by itself may still cost its prompt.
        billed = Billed.MAYBE
    refusal = Refusal(kind=defect.kind, decision=Decision.RETRY, billed=billed, message=defect.sentence, defective=True)
    return replace(refusal, **origin)


def _page(status: int, headers: Mapping[str, str], text: bytes, now: float) -> Refusal:
    """No JSON: a page of the network in between, or a reply cut off, which may have been an answer and billed."""
    start = label(text[:80].decode("utf-8", "replace")) or "an empty reply"
    edge = EDGE_CODE.search(text[:200])
    if status < 400 and edge is not None:
        code = int(edge[1])
        status = 429 if code == 1015 else 403 if code >= 1000 else code
    if status < 400 and not text.startswith(b"<"):
        # What was cut off may be the text of an answer, which no log should repeat.
        what = "JSON that is not whole" if text.startswith(b"{") else start
        return _cut_off(f"a reply that ended without its JSON: {what}", Usage())
    sentence = f"a page of the network, not of the endpoint: {start}"
    refusal = ruled(rule_for_page(status), status, sentence, headers, now)
    if refusal.decision is not Decision.RETRY or refusal.retry_after_seconds is not None:
        return refusal
    return replace(refusal, retry_after_seconds=PAGE_SECONDS)


def _cut_off(message: str, usage: Usage) -> Refusal:
    billed = billed_by(usage, Billed.MAYBE)
    return Refusal(kind="cut_off", decision=Decision.RETRY, billed=billed, message=message)


def _redirected(status: int, headers: Mapping[str, str], now: float) -> Refusal:
    where = label(headers.get("location")) or "another address"
    return ruled(rule_for(status, ""), status, f"the endpoint redirects to {where}: wrong --endpoint-url", {}, now)


def parse(text: bytes) -> Any:
    """The value, or None. orjson refuses halves of characters and numbers that are none; json reads them.

    An answer beside such a number is paid for all the same.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _has_begun(data: Mapping[str, Any]) -> bool:
    message = as_object(_choice(data).get("message"))
    return any(message.get(name) for name in WRITTEN)


def _choice(data: Mapping[str, Any]) -> dict[str, Any]:
    choices = data.get("choices")
    return as_object(choices[0]) if isinstance(choices, list) and choices else {}


def _known(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in origin.items() if value is not None}
