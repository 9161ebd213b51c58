"""Read what came back. Pure: status, headers and body in; a completion or a refusal out; never an exception.

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
from eagle3gen.endpoint.refusal import Billed, Decision, OutcomeWord, Refusal, billed_by
from eagle3gen.endpoint.rules import Rule, heed_availability, rule_for, rule_for_page, status_of
from eagle3gen.endpoint.usage import read_usage
from eagle3gen.endpoint.waiting import PAGE_SECONDS, bounded, retry_after_seconds
from eagle3gen.records import Completion, Usage

EDGE_CODE = re.compile(rb"error code: (\d{3,4})\b", re.IGNORECASE)
"""What Cloudflare's edge writes to programs: 1xxx is its own refusal, 52x a failure of the server behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One exchange; exactly one of `completion` and `refusal` is set."""

    status: int | None
    """None when no response came at all."""
    body: bytes
    seconds: float
    completion: Completion | None = None
    refusal: Refusal | None = None

    @property
    def outcome(self) -> OutcomeWord:
        if self.refusal is not None:
            return self.refusal.outcome
        cut = self.completion is not None and self.completion.finish_reason == "length"
        return "truncated" if cut else "success"


def read_reply(status: int, headers: Mapping[str, str], body: bytes, seconds: float = 0.0) -> Reply:
    """What the endpoint said."""
    headers = {name.lower(): value for name, value in headers.items()}
    read = _read(status, headers, body)
    if isinstance(read, Completion):
        return Reply(status=status, body=body, seconds=seconds, completion=read)
    generation_id = read.generation_id or label(headers.get("x-generation-id"))
    return Reply(status=status, body=body, seconds=seconds, refusal=replace(read, generation_id=generation_id))


def _read(status: int, headers: Mapping[str, str], body: bytes) -> Completion | Refusal:
    text = body.strip()
    data = _json(text)
    if 300 <= status < 400:
        return _redirected(status, headers)
    if not isinstance(data, dict):
        return _page(status, headers, text)
    usage = read_usage(data.get("usage"), text)
    origin: dict[str, Any] = {
        "usage": usage,
        "generation_id": label(data.get("id")),
        "host": label(data.get("provider")),
    }
    error = data.get("error") or _choice_error(data)
    if not error and "message" in data and not data.get("choices"):
        error = data  # the error object alone, without its wrapper
    if error:
        return replace(_error(status, headers, error, usage), **_known(origin))
    if status >= 400:
        return replace(_ruled(rule_for(status, _sentence(data)), status, headers, _sentence(data)), **origin)
    try:
        return read_answer(data, usage)
    except Defect as defect:
        return _defective(defect, usage, origin)


def _defective(defect: Defect, usage: Usage, origin: Mapping[str, Any]) -> Refusal:
    refusal = Refusal(
        kind=defect.kind,
        decision=Decision.RETRY,
        billed=billed_by(usage, Billed.MAYBE),
        message=defect.sentence,
        defective=True,
    )
    return replace(refusal, **origin)


def _error(status: int, headers: Mapping[str, str], error: Any, usage: Usage) -> Refusal:
    """All dialects: `{code, message, metadata}`, the typed one, the one with `availability`, and a bare string."""
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else None}
    number, sentence = status_of(error, status), _sentence(error)
    metadata, availability = _object(error.get("metadata")), _object(error.get("availability"))
    nested = {str(k).lower(): str(v) for k, v in _object(metadata.get("headers")).items()}
    rule = heed_availability(rule_for(number, sentence), availability)
    refusal = _ruled(rule, number, {**headers, **nested}, sentence)
    # A refused call is charged for only if its bill says so: 0 USD beside tokens is the insurance at work.
    unbilled = usage.cost_usd is not None and not usage.cost_usd
    refusal = replace(refusal, billed=Billed.NO if unbilled else billed_by(usage, rule.billed))
    for wait in (metadata.get("retry_after_seconds"), availability.get("retry_after")):
        if (seconds := bounded(wait)) is not None:
            refusal = replace(refusal, retry_after_seconds=seconds)
            break
    return replace(refusal, host=label(metadata.get("provider_name")))


def _ruled(rule: Rule, status: int, headers: Mapping[str, str], sentence: str) -> Refusal:
    return Refusal(
        kind=rule.kind,
        decision=rule.decision,
        billed=rule.billed,
        message=f"{status}: {sentence}",
        blames_prompt=rule.blames_prompt,
        retry_after_seconds=retry_after_seconds(headers, time.time()),
    )


def _page(status: int, headers: Mapping[str, str], text: bytes) -> Refusal:
    """No JSON: a page of the network in between, or a reply cut off, which may have been an answer and billed."""
    start = label(text[:80].decode("utf-8", "replace")) or "an empty reply"
    edge = EDGE_CODE.search(text[:200])
    if status < 400 and edge is not None:
        code = int(edge[1])
        status = 429 if code == 1015 else 403 if code >= 1000 else code
    if status < 400 and not text.startswith(b"<"):
        message = f"a reply that ended without its JSON: {start}"
        return Refusal(kind="cut_off", decision=Decision.RETRY, billed=Billed.MAYBE, message=message)
    refusal = _ruled(rule_for_page(status), status, headers, f"a page of the network, not of the endpoint: {start}")
    if refusal.decision is not Decision.RETRY or refusal.retry_after_seconds is not None:
        return refusal
    return replace(refusal, retry_after_seconds=PAGE_SECONDS)


def _redirected(status: int, headers: Mapping[str, str]) -> Refusal:
    where = label(headers.get("location")) or "another address"
    return _ruled(rule_for(status, ""), status, {}, f"the endpoint redirects to {where}: wrong --endpoint-url")


def _json(text: bytes) -> Any:
    """The value, or None. orjson refuses halves of characters, which an answer may hold: those are read by json."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if rb"\ud" not in text.lower():
            return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _choice_error(data: Mapping[str, Any]) -> Any:
    choices = data.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return _object(first).get("error")


def _known(origin: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in origin.items() if value is not None}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sentence(error: Mapping[str, Any]) -> str:
    """What is said, without what was sent: validation errors repeat the prompt beside their `msg`."""
    said = error.get("message") or error.get("detail") or error.get("object")
    if isinstance(said, list):
        said = "; ".join(item["msg"] for item in said if isinstance(item, dict) and isinstance(item.get("msg"), str))
    return label(said) or "no message"
