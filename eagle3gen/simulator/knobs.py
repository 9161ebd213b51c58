"""How the value of a knob is written, on the command line and in the JSON that changes it later."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any


class BadKnob(ValueError):
    """A sentence about a knob, or about a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What values a knob has; `read` takes text or JSON, and raises BadKnob."""

    name: str
    read: Callable[[Any], Any]
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Knob:
    """One option of the simulator."""

    flag: str
    kind: Kind
    says: str
    fixed: bool = False
    """Whether it can be told at the start only."""

    @property
    def name(self) -> str:
        """How the JSON that changes it calls it."""
        return self.flag.replace("-", "_")


def _number(low: float, high: float = math.inf) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not low <= number <= high or math.isinf(number):
            upto = f" to {high:g}" if high < math.inf else " or more"
            raise BadKnob(f"{value!r} is not a number from {low:g}{upto}")
        return number

    return read


def _whole(low: int, high: int | None = None) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        try:
            number = None if isinstance(value, bool | float) else int(value)
        except (TypeError, ValueError):
            number = None
        if number is None or number < low or (high is not None and number > high):
            upto = f" to {high}" if high is not None else " or more"
            raise BadKnob(f"{value!r} is not a whole number from {low}{upto}")
        return number

    return read


def read_usd(value: Any) -> Decimal:
    """An amount that is not negative, from text or a JSON number."""
    try:
        amount = Decimal("NaN") if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise BadKnob(f"{value!r} is not an amount in USD")
    return amount


def _perhaps(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else read(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise BadKnob(f"{value!r} is neither true nor false")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise BadKnob(f"{value!r} is not a text")
    return value


def read_words(value: Any) -> tuple[str, ...]:
    """Texts, from a list of them or from one."""
    return tuple(_text(one) for one in (value if isinstance(value, list | tuple) else [value]))


def one_of(name: str, *words: str) -> Kind:
    def read(value: Any) -> str:
        if value not in words:
            raise BadKnob(f"{value!r} is none of {', '.join(words)}")
        return str(value)

    return Kind(name, read)


SHARE = Kind("share", _number(0, 1))
SECONDS = Kind("seconds", _number(0))
COUNT = Kind("n", _whole(0))
AT_LEAST_ONE = Kind("n", _whole(1))
TOKENS = Kind("tokens", _whole(8))
PORT = Kind("port", _whole(0, 65_535))
SEED = Kind("n", _whole(-(2**63)))
SIGMA = Kind("sigma", _number(0, 2))
USD = Kind("usd", _perhaps(read_usd))
FLAG = Kind("flag", _flag)
TEXT = Kind("text", _perhaps(_text))
WORDS = Kind("name", read_words, repeated=True)


def changed(knobs: Mapping[str, Knob], told: Any) -> dict[str, Any]:
    """Fields and their new values, from a JSON object of knobs. Raises BadKnob and changes nothing."""
    if not isinstance(told, dict):
        raise BadKnob('knobs are an object, such as {"latency": 3}')
    by_name = {knob.name: (field_name, knob) for field_name, knob in knobs.items()}
    values = {}
    for name, value in told.items():
        field_name, found = by_name.get(name.replace("-", "_"), (None, None))
        if field_name is None or found is None:
            raise BadKnob(f"there is no knob {name}")
        if found.fixed:
            raise BadKnob(f"{name} can be told at the start only")
        try:
            values[field_name] = found.kind.read(value)
        except BadKnob as error:
            raise BadKnob(f"{name}: {error}") from error
    return values
