"""How long to wait before the next try."""

import math
import random
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

BACKOFF_SECONDS = 1.0
BACKOFF_SECONDS_MAX = 60.0
OUTAGE_SECONDS = (5.0, 30.0)
PAGE_SECONDS = 60.0
"""After a page of the network: bans of an edge last minutes, and every call prolongs them."""
WAIT_SECONDS_MAX = 86_400.0
"""The longest wait that an endpoint can ask for: a daily limit is reset within a day, and asking before is refused."""
JITTER_SECONDS_MAX = 60.0
MILLISECONDS_FROM, SECONDS_FROM = 1e11, 1e9
"""From these numbers on, a time is one since 1970: 1e9 s and 1e11 ms are long past, and no wait is 30 years."""


def backoff_seconds(tries: int, retry_after: float | None, rng: random.Random) -> float:
    """How long to wait before try `tries + 1`: exponential with jitter, and at least what the endpoint asks.

    Jitter keeps thousands of prompts that failed together from coming back together.
    """
    ceiling = min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2.0 ** min(tries, 10))
    wait = ceiling * rng.uniform(0.5, 1.0)
    return wait if retry_after is None else _after(retry_after, wait, rng)


def outage_seconds(retry_after: float | None, rng: random.Random) -> float:
    """How long to wait while the endpoint is away: no tries are counted, so nothing can grow."""
    wait = rng.uniform(*OUTAGE_SECONDS)
    return wait if retry_after is None else _after(retry_after, wait, rng)


def _after(asked: float, wait: float, rng: random.Random) -> float:
    asked = bounded(asked) or 0.0
    return asked + rng.uniform(0.0, min(JITTER_SECONDS_MAX, max(1.0, wait / 4, asked / 4)))


def bounded(seconds: Any) -> float | None:
    """A wait as it may be asked for, a number or its text, between 0 and `WAIT_SECONDS_MAX`; None for anything else."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | str):
        return None
    try:
        number = float(seconds)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(number) else min(max(0.0, number), WAIT_SECONDS_MAX)


def retry_after_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """What `Retry-After` (seconds or a date) or `X-RateLimit-Reset` ask for, bounded.

    OpenRouter's reset counts milliseconds since 1970; others count seconds, or seconds from now.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    if value := lowered.get("retry-after"):
        seconds = bounded(value)
        return seconds if seconds is not None else _until(value, now)
    if reset := lowered.get("x-ratelimit-reset"):
        try:
            at = float(reset)
        except ValueError:
            return None
        if at >= MILLISECONDS_FROM:
            return bounded(at / 1000.0 - now)
        return bounded(at - now if at >= SECONDS_FROM else at)
    return None


def _until(date: str, now: float) -> float | None:
    try:
        return bounded(parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
