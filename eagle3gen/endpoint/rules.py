"""What an error means: OpenRouter's table of status codes, its error words, and what only the message says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eagle3gen.endpoint.refusal import Billed, Decision

_RETRY, _FAIL, _PAUSE = Decision.RETRY, Decision.FAIL_PROMPT, Decision.PAUSE_DATASET


@dataclass(frozen=True, slots=True)
class Rule:
    """What a status code means."""

    kind: str
    decision: Decision
    billed: Billed = Billed.NO
    blames_prompt: bool = True


RULES: Mapping[int, Rule] = {
    400: Rule("invalid_request", _FAIL),
    401: Rule("key_refused", Decision.PAUSE_KEY),
    402: Rule("out_of_credit", Decision.PAUSE_KEY),
    403: Rule("forbidden", _FAIL),
    404: Rule("no_endpoint", _PAUSE),
    405: Rule("wrong_endpoint", _PAUSE),
    408: Rule("timeout", _RETRY, Billed.MAYBE),
    409: Rule("conflict", _RETRY),
    413: Rule("too_large", _FAIL),
    422: Rule("unprocessable", _FAIL),
    425: Rule("too_early", _RETRY),
    429: Rule("rate_limited", _RETRY, blames_prompt=False),
    500: Rule("server_error", _RETRY),
    502: Rule("host_failed", _RETRY),
    503: Rule("unavailable", _RETRY, blames_prompt=False),
    504: Rule("timeout", _RETRY, Billed.MAYBE),
    524: Rule("timeout", _RETRY, Billed.MAYBE),
    529: Rule("overloaded", _RETRY, blames_prompt=False),
}
STATUS_OF_WORD: Mapping[str, int] = {
    # OpenRouter's `metadata.error_type`
    "context_length_exceeded": 400,
    "max_tokens_exceeded": 400,
    "token_limit_exceeded": 400,
    "string_too_long": 400,
    "invalid_request": 400,
    "invalid_prompt": 400,
    "authentication": 401,
    "payment_required": 402,
    "permission_denied": 403,
    "content_policy_violation": 403,
    "refusal": 403,
    "not_found": 404,
    "precondition_failed": 412,
    "payload_too_large": 413,
    "unprocessable": 422,
    "rate_limit_exceeded": 429,
    "server": 500,
    "unmapped": 500,
    "provider_unavailable": 503,
    "timeout": 504,
    "provider_overloaded": 529,
    # the words that OpenAI and its imitators put into `code` or `type`
    "invalid_request_error": 400,
    "invalid_api_key": 401,
    "authentication_error": 401,
    "insufficient_quota": 402,
    "model_not_found": 404,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "server_error": 500,
    "api_error": 500,
    "overloaded_error": 529,
    # Moonshot
    "invalid_authentication_error": 401,
    "exceeded_current_quota_error": 402,
    "permission_denied_error": 403,
    "resource_not_found_error": 404,
    "rate_limit_reached_error": 429,
    "engine_overloaded_error": 529,
    # vLLM and SGLang
    "badrequesterror": 400,
    "notfounderror": 404,
    "internalservererror": 500,
    # Google
    "invalid_argument": 400,
    "resource_exhausted": 429,
    "internal": 500,
    "unavailable": 503,
    "deadline_exceeded": 504,
    # `error.availability.code`
    "wrong_endpoint": 400,
    "region_restricted": 403,
    "no_endpoints": 404,
    "model_deprecated": 404,
    "model_unavailable_upstream": 404,
    "privacy_restricted": 404,
    "constraint_filtered": 404,
    "free_variant_ended": 404,
    "capacity_exhausted": 429,
    "temporarily_unavailable": 503,
}
PROMPT_WORDS = frozenset(
    {
        "context_length_exceeded",
        "max_tokens_exceeded",
        "token_limit_exceeded",
        "string_too_long",
        "invalid_prompt",
        "content_policy_violation",
        "refusal",
        "payload_too_large",
    }
)
"""`error_type` of faults that this prompt would meet at every host."""
CONFIG_CODES = frozenset(
    {
        "model_not_found",
        "wrong_endpoint",
        "no_endpoints",
        "model_deprecated",
        "privacy_restricted",
        "constraint_filtered",
        "free_variant_ended",
        "region_restricted",
    }
)
"""`error.availability.code` of faults that every prompt of the dataset would meet."""
SAYINGS: tuple[tuple[int, str, Rule], ...] = (
    # A key at its own limit; other 403s are about the prompt.
    (403, "key limit", Rule("out_of_credit", Decision.PAUSE_KEY)),
    (403, "your region", Rule("region_restricted", _PAUSE)),
    (403, "country, region", Rule("region_restricted", _PAUSE)),
    (400, "is not a valid model id", Rule("unknown_model", _PAUSE)),
    (400, "unrecognized key", Rule("unknown_field", _PAUSE)),
    (400, "unrecognized request argument", Rule("unknown_field", _PAUSE)),
)
"""What only the message tells apart."""
TOO_LONG = (
    "context length",
    "context window",
    "maximum input length",
    "prompt is too long",
    "input is too long",
    "token limit reached",
)
"""What every host would say of this prompt under this limit."""
ELSEWHERE = Rule("wrong_endpoint", _PAUSE)
"""A reply of another endpoint than the one that was meant."""
UNSENT_PAGES = frozenset({502, 503, 521, 522, 523, 525, 526, 530})
"""Pages by which an edge says that it could not reach the server behind it."""


def rule_for(status: int, message: str) -> Rule:
    """The rule of a status code; what is unknown is tried again, and may have been billed."""
    lowered = message.lower()
    for said_with, words, rule in SAYINGS:
        if status == said_with and words in lowered:
            return rule
    if status in RULES:
        return RULES[status]
    if 300 <= status < 400:
        return Rule("redirected", _PAUSE)
    if 400 <= status < 500:
        return Rule("refused", _FAIL)
    return Rule("server_error", _RETRY, Billed.MAYBE)


def rule_for_host(status: int, said: str) -> Rule:
    """The rule of a host's own error that was passed on.

    A host's 400 may pass elsewhere, and its 401, 402 or 404 is about the router's account there, not about our key.
    """
    lowered = said.lower()
    if any(words in lowered for words in TOO_LONG):
        return Rule("too_long", _FAIL)
    if 400 <= status < 500 and status not in {408, 409, 413, 425, 429}:
        return Rule("host_refused", _RETRY)
    # One host is full; the endpoint itself, and with it every other host, is not.
    return replace(RULES[429], kind="host_limited") if status == 429 else rule_for(status, "")


def rule_for_page(status: int) -> Rule:
    """The rule of a page that the network in between wrote: no word of the endpoint on key, model or prompt.

    A 400 or 403 page may be a firewall that dislikes this very text, so these count; and 413 will not get smaller.
    """
    if status == 413:
        return RULES[413]
    if 400 <= status < 500 and status != 408:
        kind = "edge_limited" if status == 429 else "network_page"
        return Rule(kind, _RETRY, blames_prompt=status in {400, 403})
    if status in UNSENT_PAGES:
        return Rule("network_page", _RETRY, blames_prompt=False)
    return Rule("network_page", _RETRY, Billed.MAYBE)


def heed_availability(rule: Rule, availability: Mapping[str, Any]) -> Rule:
    """What `error.availability` adds: `retryable` is the endpoint's own word, else its code decides."""
    code, retryable = availability.get("code"), availability.get("retryable")
    if rule.decision is Decision.PAUSE_KEY:
        return rule
    if retryable is True:
        return replace(rule, decision=_RETRY, blames_prompt=rule.blames_prompt and rule.decision is not _PAUSE)
    if isinstance(code, str) and code in CONFIG_CODES:
        return Rule(code, _PAUSE)
    if retryable is False and rule.decision is _RETRY:
        # Availability is a matter of model and hosts: trying again is in vain for every prompt of the dataset.
        return replace(rule, decision=_PAUSE)
    return rule


def status_of(error: Mapping[str, Any], status: int) -> int:
    """The code of an error object: a number in any dress, a word, or else the status of the reply."""
    metadata, availability = error.get("metadata"), error.get("availability")
    typed = metadata.get("error_type") if isinstance(metadata, dict) else None
    available = availability.get("code") if isinstance(availability, dict) else None
    if (number := _number(error.get("code"))) is not None:
        return number
    if (number := _number(error.get("http_status"))) is not None:
        return number
    for word in (error.get("code"), typed, error.get("error_type"), error.get("type"), available, error.get("status")):
        if isinstance(word, str) and word.lower() in STATUS_OF_WORD:
            return STATUS_OF_WORD[word.lower()]
        if isinstance(word, str) and word.startswith("image_"):
            return 400
    number = _number(error.get("status"))
    return number if number is not None else status if status >= 400 else 500


def _number(code: Any) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        code = int(code)
    if isinstance(code, int | float) and 400 <= code < 600:
        return int(code)
    return None
