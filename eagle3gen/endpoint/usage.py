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
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        reasoning_tokens=_count(_object(usage, "completion_tokens_details").get("reasoning_tokens")),
        cached_tokens=_count(_object(usage, "prompt_tokens_details").get("cached_tokens")),
        cost_usd=None if usage.get("cost") is None else _cost(_exact(usage, body)),
    )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX else None


def _object(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = usage.get(name)
    return value if isinstance(value, dict) else {}


def _exact(usage: Mapping[str, Any], body: bytes) -> Mapping[str, Any]:
    """The same object with its numbers as decimals.

    A body of a long answer is read only where the bill stands, if `"usage"` stands there once; the answer itself or
    other fields may spell it too, and then the whole body is read.
    """
    decoder = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal)
    try:
        if body.count(b'"usage"') == 1:
            start = body.find(b"{", body.find(b'"usage"'))
            found, _ = decoder.raw_decode(body[start:].decode())
            if isinstance(found, dict) and found == usage | _decimals(found):
                return found
        found = decoder.decode(body.decode()).get("usage")
    except (ValueError, AttributeError, RecursionError, InvalidOperation):
        return {}
    return found if isinstance(found, dict) else {}
