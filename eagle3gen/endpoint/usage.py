"""The bill of a reply: token counts, and the cost as the exact decimal that was written."""

import json
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from eagle3gen.records import Usage

TOKENS_MAX = 10**9
USD_MAX = 10**6
DIGITS_MAX = 30
"""Beyond these a number is no bill, and could not be stored either."""


def read_usage(usage: Any, body: bytes) -> Usage:
    """The `usage` object of a body. What is missing or no count stays None; never raises.

    orjson reads numbers as floats; where a cost came, it is read again from the text, so that no digit of money
    passes through binary.
    """
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        prompt_tokens=read_count(usage.get("prompt_tokens")),
        completion_tokens=read_count(usage.get("completion_tokens")),
        reasoning_tokens=read_count(_mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        cached_tokens=read_count(_mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        cost_usd=None if usage.get("cost") is None else _cost(_exact(usage, body)),
    )


def read_count(value: Any) -> int | None:
    """A count of tokens, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX else None


def _exact(usage: Mapping[str, Any], body: bytes) -> Mapping[str, Any]:
    """The same object with its numbers as decimals.

    A long answer is read only from where the bill stands, if `"usage"` stands there once and what follows is the
    bill; the answer or other objects may spell the word too, and then the whole body is read.
    """
    exact = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
    try:
        if body.count(b'"usage"') == 1 and (start := body.find(b"{", body.find(b'"usage"'))) >= 0:
            text = body[start:].decode()
            if json.JSONDecoder().raw_decode(text)[0] == usage:
                return _mapping(exact.raw_decode(text)[0])
        return _mapping(_mapping(exact.decode(body.decode())).get("usage"))
    except (ValueError, RecursionError, InvalidOperation):
        return {}


def _cost(exact: Mapping[str, Any]) -> Decimal | None:
    """What the call cost the user: `cost`, and under BYOK the upstream's bill beside it."""
    cost = read_money(exact.get("cost"))
    upstream = read_money(_mapping(exact.get("cost_details")).get("upstream_inference_cost"))
    if cost is not None and upstream is not None and exact.get("is_byok") is True:
        return cost + upstream
    return cost


def read_money(value: Any) -> Decimal | None:
    """USD, at least 0, as a number read exactly or as text; None for anything else."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        try:
            value = Decimal(value)
        except InvalidOperation:
            return None
    if not isinstance(value, Decimal) or not value.is_finite() or not 0 <= value < USD_MAX:
        return None
    return value if value.adjusted() >= -DIGITS_MAX or not value else None


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
