"""JSON whose decimals keep every digit."""

from array import array
from decimal import Decimal
from typing import Any

import orjson


def dumps(value: Any) -> bytes:
    """JSON text; a Decimal becomes a number with all its digits, an array of ids a list."""
    return orjson.dumps(value, default=_written)


def _written(value: Any) -> Any:
    if isinstance(value, Decimal):
        return orjson.Fragment(plain(value))
    if isinstance(value, array):
        return value.tolist()
    raise TypeError(type(value).__name__)


def plain(amount: Decimal) -> str:
    """An amount without exponent and without closing zeros."""
    return format(amount.normalize(), "f")
