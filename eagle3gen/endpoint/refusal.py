"""Whatever came back that is no answer: what kind it is, what to do about it, and whether it may have been billed."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum

from eagle3gen.records import Usage


class Decision(StrEnum):
    """What becomes of the prompt."""

    RETRY = "retry"
    FAIL_PROMPT = "fail_prompt"
    PAUSE_DATASET = "pause_dataset"
    PAUSE_KEY = "pause_key"


class Billed(StrEnum):
    """Whether the call costs money."""

    NO = "no"
    YES = "yes"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """No usable answer."""

    kind: str
    """A stable word: `rate_limited`, `deadline`, `moderation`, …"""
    decision: Decision
    billed: Billed
    message: str
    """One sentence for the operator."""
    retry_after_seconds: float | None = None
    usage: Usage | None = None
    generation_id: str | None = None
    host: str | None = None

    @property
    def pauses_key(self) -> bool:
        return self.decision is Decision.PAUSE_KEY

    @property
    def pauses_dataset(self) -> bool:
        return self.decision is Decision.PAUSE_DATASET


@dataclass(frozen=True, slots=True)
class Rule:
    """What a status code means: OpenRouter's error table."""

    kind: str
    decision: Decision
    billed: Billed


_RETRY, _FAIL = Decision.RETRY, Decision.FAIL_PROMPT
RULES: Mapping[int, Rule] = {
    400: Rule("invalid_request", _FAIL, Billed.NO),
    401: Rule("key_refused", Decision.PAUSE_KEY, Billed.NO),
    402: Rule("out_of_credit", Decision.PAUSE_KEY, Billed.NO),
    403: Rule("forbidden", _FAIL, Billed.NO),
    404: Rule("no_endpoint", Decision.PAUSE_DATASET, Billed.NO),
    405: Rule("wrong_endpoint", Decision.PAUSE_DATASET, Billed.NO),
    408: Rule("timeout", _RETRY, Billed.MAYBE),
    409: Rule("conflict", _RETRY, Billed.NO),
    413: Rule("too_large", _FAIL, Billed.NO),
    422: Rule("unprocessable", _FAIL, Billed.NO),
    425: Rule("too_early", _RETRY, Billed.NO),
    429: Rule("rate_limited", _RETRY, Billed.NO),
    500: Rule("server_error", _RETRY, Billed.NO),
    502: Rule("host_failed", _RETRY, Billed.NO),
    503: Rule("unavailable", _RETRY, Billed.NO),
    504: Rule("timeout", _RETRY, Billed.MAYBE),
    524: Rule("timeout", _RETRY, Billed.MAYBE),
    529: Rule("overloaded", _RETRY, Billed.NO),
}
KEY_LIMIT = "key limit"
"""OpenRouter's 403 for a key at its own limit says so in its message; other 403s are about the prompt."""
WRAPPED = "Provider returned error"
"""A host's own 400 passed on: another host may take the same prompt."""


def rule_for(status: int, message: str) -> Rule:
    """The rule of a status code; what is unknown is tried again, and may have been billed."""
    if status == 403 and KEY_LIMIT in message.lower():
        return Rule("out_of_credit", Decision.PAUSE_KEY, Billed.NO)
    if status == 400 and message.startswith(WRAPPED):
        return Rule("host_refused", _RETRY, Billed.NO)
    if status in RULES:
        return RULES[status]
    if 400 <= status < 500:
        return Rule("refused", _FAIL, Billed.NO)
    return Rule("server_error", _RETRY, Billed.MAYBE)


BACKOFF_SECONDS = 1.0
BACKOFF_SECONDS_MAX = 60.0
RETRY_AFTER_SECONDS_MAX = 600.0


def backoff_seconds(tries: int, retry_after: float | None, rng: random.Random) -> float:
    """How long to wait before try `tries + 1`: exponential with full jitter, and at least what the endpoint asks.

    Jitter keeps thousands of prompts that failed together from coming back together.
    """
    ceiling = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2.0 ** min(tries, 10))
    wait = ceiling * rng.uniform(0.5, 1.0)
    if retry_after is None:
        return wait
    return min(retry_after, RETRY_AFTER_SECONDS_MAX) + rng.uniform(0.0, max(1.0, wait / 4))


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """What `Retry-After` (seconds or a date) or `X-RateLimit-Reset` (milliseconds since 1970) ask for."""
    lowered = {name.lower(): value for name, value in headers.items()}
    if value := lowered.get("retry-after"):
        try:
            return max(0.0, float(value))
        except ValueError:
            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - now)
            except ValueError:
                return None
    if reset := lowered.get("x-ratelimit-reset"):
        try:
            return max(0.0, float(reset) / 1000.0 - now)
        except ValueError:
            return None
    return None
