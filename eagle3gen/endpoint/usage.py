"""The bill of a reply: token counts, and the cost as the exact decimal that was written."""

import json
from decimal import Decimal
from typing import Any

from eagle3gen.records import Usage


def read_usage(usage: Any, body: bytes) -> Usage:
    """The `usage` object of a body. What is missing or no count stays None.

    orjson reads numbers as floats; where a float came, the cost is read again from the text, so that no digit of
    money passes through binary.
    """
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("completion_tokens_details")
    cached = usage.get("prompt_tokens_details")
    return Usage(
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        reasoning_tokens=_count(details.get("reasoning_tokens")) if isinstance(details, dict) else None,
        cached_tokens=_count(cached.get("cached_tokens")) if isinstance(cached, dict) else None,
        cost_usd=_cost(usage, body),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _cost(usage: dict[str, Any], body: bytes) -> Decimal | None:
    """What the call cost the user: `cost`, and under BYOK the upstream's bill beside it."""
    if usage.get("cost") is None:
        return None
    at = body.rfind(b'"usage"')
    start = body.find(b"{", at)
    exact, _ = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal).raw_decode(body[start:].decode())
    cost = exact.get("cost")
    if not isinstance(cost, Decimal) or not cost.is_finite() or cost < 0:
        return None
    upstream = (exact.get("cost_details") or {}).get("upstream_inference_cost")
    if exact.get("is_byok") is True and isinstance(upstream, Decimal) and upstream > 0:
        return cost + upstream
    return cost
