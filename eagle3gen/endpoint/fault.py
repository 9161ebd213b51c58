"""An error object read into a refusal.

In all its dialects: `{code, message, metadata}`, the typed one, the one with `availability`, a bare string, and a
host's own error passed on inside `metadata.raw`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from eagle3gen.endpoint.answer import label
from eagle3gen.endpoint.refusal import Billed, Decision, Refusal, billed_by
from eagle3gen.endpoint.rules import PROMPT_WORDS, Rule, heed_availability, rule_for, rule_for_host, status_of
from eagle3gen.endpoint.waiting import bounded, retry_after_seconds
from eagle3gen.records import Usage

SHOWN_HOST_CODES = frozenset({429, 500, 502, 503, 529})
"""Codes beside which a host's own words are shown; words on an invalid request may quote the prompt."""
BEGUN_AND_REFUSED = frozenset({400, 401, 402, 403, 404, 422})
"""Codes that refuse a request; after the first word of an answer they can only be a host's."""
RUN_BEFORE = frozenset({500, 502})
"""Codes that, inside a 200, may tell of a model that had begun: what it wrote may be on the bill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What stands around an error."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    now: float
    """Seconds since 1970."""
    usage: Usage
    answered: bool = False
    """Whether the model had begun to write."""
    cut: bool = False
    """Whether its text had met a limit."""


def read_error(error: Any, around: Circumstances) -> Refusal:
    """The refusal that an error object means; never raises."""
    if not isinstance(error, dict):
        error = {"message": error if isinstance(error, str) else None}
    metadata, availability = as_object(error.get("metadata")), as_object(error.get("availability"))
    number, sentence, inner = status_of(error, around.status), sentence_of(error), _inner(metadata.get("raw"))
    if around.cut and number == 400:
        rule = Rule("too_long", Decision.FAIL_PROMPT)
    elif _is_of_host(error, metadata, number, around):
        rule = rule_for_host(number, f"{sentence} {inner}")
    else:
        rule = rule_for(number, sentence)
    if inner and number in SHOWN_HOST_CODES and inner not in sentence:
        sentence = f"{sentence}: {inner}"
    rule = heed_availability(rule, availability)
    nested = {str(k).lower(): str(v) for k, v in as_object(metadata.get("headers")).items()}
    refusal = ruled(rule, number, _with_lists(sentence, metadata), {**around.headers, **nested}, around.now)
    refusal = replace(refusal, host=label(metadata.get("provider_name")), billed=_billed(rule, number, around))
    for wait in (metadata.get("retry_after_seconds"), availability.get("retry_after"), error.get("retry_after")):
        if (seconds := bounded(wait)) is not None:
            return replace(refusal, retry_after_seconds=seconds)
    return refusal


def _is_of_host(error: Mapping[str, Any], metadata: Mapping[str, Any], number: int, around: Circumstances) -> bool:
    """Whether a host's own error is passed on: it says so, or the request had been good enough to begin with."""
    typed = metadata.get("error_type") or error.get("error_type") or error.get("code")
    if isinstance(typed, str) and typed in PROMPT_WORDS:
        return False
    passed_on = "provider returned error" in sentence_of(error).lower() or bool(metadata.get("raw"))
    limited = str(metadata.get("limit_source", "")).startswith("upstream")
    return passed_on or limited or (around.answered and number in BEGUN_AND_REFUSED)


def ruled(rule: Rule, status: int, sentence: str, headers: Mapping[str, str], now: float) -> Refusal:
    """The refusal of a rule."""
    waits = rule.decision is Decision.RETRY
    return Refusal(
        kind=rule.kind,
        decision=rule.decision,
        billed=rule.billed,
        message=f"{status}: {sentence}",
        blames_prompt=rule.blames_prompt,
        retry_after_seconds=retry_after_seconds(headers, now) if waits else None,
    )


def _billed(rule: Rule, number: int, around: Circumstances) -> Billed:
    """A failed call costs what its bill says: 0 USD beside tokens is the zero-completion insurance.

    Without a bill: a status of 200 is sent before the outcome is known, so a failure inside it may have come when the
    model was writing. https://openrouter.ai/docs/api-reference/errors
    """
    if around.usage.cost_usd is not None and not around.usage.cost_usd:
        return Billed.NO
    begun = around.status < 400 and (around.answered or number in RUN_BEFORE)
    return billed_by(around.usage, Billed.MAYBE if begun else rule.billed)


def _inner(raw: Any) -> str:
    """What the host itself said: `raw` is a sentence, JSON in a string, or an object."""
    if isinstance(raw, str):
        try:
            value = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return label(raw) or ""
        raw = value if isinstance(value, dict) else None
    if not isinstance(raw, dict):
        return ""
    said = raw.get("error") or raw
    if isinstance(said, str):
        return label(said) or ""
    sentence = sentence_of(as_object(said))
    return "" if sentence == NOTHING_SAID else sentence


def _with_lists(sentence: str, metadata: Mapping[str, Any]) -> str:
    """With the hosts that were asked for and those there are, which tell how to mend the routing."""
    parts = [sentence]
    for name, title in (("requested_providers", "asked for"), ("available_providers", "there are")):
        hosts = metadata.get(name)
        if isinstance(hosts, list) and hosts:
            parts.append(f"{title}: {label(', '.join(str(host) for host in hosts))}")
    return parts[0] if len(parts) == 1 else f"{parts[0]} ({'; '.join(parts[1:])})"


NOTHING_SAID = "no message"


def sentence_of(error: Mapping[str, Any]) -> str:
    """What is said, without what was sent: validation errors repeat the prompt beside their `msg`."""
    said = error.get("message") or error.get("detail") or error.get("object")
    if isinstance(said, list):
        said = "; ".join(item["msg"] for item in said if isinstance(item, dict) and isinstance(item.get("msg"), str))
    return label(said) or NOTHING_SAID


def as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
