"""`KEY=VALUE` options: routing and sampling as they are typed, checked before anything is spent."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from eagle3gen.endpoint.sampling import check_sampling
from eagle3gen.errors import InputError

LISTS = frozenset({"order", "only", "ignore", "quantizations"})
WORDS = {"true": True, "false": False}


def routing(typed: Iterable[str]) -> dict[str, Any]:
    """The routing options. Lists are separated by commas; prices are `max_price.completion=3.00`.

    Raises InputError for what is no pair; what is no routing is refused by `Routing` itself.
    """
    options: dict[str, Any] = {}
    for key, value in _pairs("--routing", typed):
        name, _, part = key.partition(".")
        if part:
            options.setdefault(name, {})[part] = value
        elif name in LISTS:
            options[name] = [*options.get(name, ()), *(word.strip() for word in value.split(",") if word.strip())]
        else:
            options[name] = WORDS.get(value.lower(), value)
    return options


def sampling(typed: Iterable[str]) -> dict[str, Any]:
    """The sampling parameters; values are JSON where they are JSON, else text. Raises InputError."""
    parameters = {key: _value(value) for key, value in _pairs("--sampling", typed)}
    check_sampling(parameters)
    return parameters


def _pairs(option: str, typed: Iterable[str]) -> Iterator[tuple[str, str]]:
    for pair in typed:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise InputError(f"{option} {pair!r} is no KEY=VALUE")
        yield key.strip(), value.strip()


def _value(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
