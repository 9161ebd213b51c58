"""Amounts and caps: completion tokens and USD side by side, so that one rule serves both."""

from dataclasses import dataclass
from decimal import Context, Decimal
from typing import TypeVar

Number = TypeVar("Number", int, Decimal)

EXACT = Context(prec=200)
"""Sums of USD keep every digit, as Postgres does; Python's own context rounds to 28."""
NOTHING = Decimal(0)


@dataclass(frozen=True, slots=True)
class Amount:
    """What a call costs, may cost, or reserves: completion tokens, and USD."""

    tokens: int = 0
    usd: Decimal = NOTHING

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, EXACT.add(self.usd, other.usd))

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens - other.tokens, EXACT.subtract(self.usd, other.usd))

    def __mul__(self, count: int) -> "Amount":
        return Amount(self.tokens * count, EXACT.multiply(self.usd, Decimal(count)))


ZERO = Amount()


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that may be spent, or what is left of it. None: no cap in that unit."""

    tokens: int | None = None
    usd: Decimal | None = None

    @property
    def exists(self) -> bool:
        return self.tokens is not None or self.usd is not None

    def left(self, used: Amount) -> "Cap":
        """What remains; negative where a bill was dearer than its hold, or a cap was lowered."""
        return Cap(
            None if self.tokens is None else self.tokens - used.tokens,
            None if self.usd is None else EXACT.subtract(self.usd, used.usd),
        )

    def admits(self, hold: Amount) -> bool:
        """Whether this much may be reserved."""
        return (self.tokens is None or hold.tokens <= self.tokens) and (self.usd is None or hold.usd <= self.usd)

    def times(self, hold: Amount, most: int) -> int:
        """How many such holds fit, at most `most`."""
        if self.tokens is not None and hold.tokens > 0:
            most = min(most, self.tokens // hold.tokens)
        if self.usd is not None and hold.usd > 0:
            most = min(most, int(EXACT.divide_int(self.usd, hold.usd)))
        return max(0, most) if self.admits(hold) else 0

    def narrower(self, other: "Cap") -> "Cap":
        """The smaller of two, unit by unit."""
        return Cap(_least(self.tokens, other.tokens), _least(self.usd, other.usd))


UNCAPPED = Cap()


def _least(one: Number | None, other: Number | None) -> Number | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
