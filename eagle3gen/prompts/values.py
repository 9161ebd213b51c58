"""Single values of a row: the value, or why it cannot be used."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

SHOWN_CHARS = 40
"""How much of a user's value a sentence repeats."""


class NotAPrompt(Exception):
    """Why a row cannot be used, as the end of a sentence that began with its place."""


def parse(data: bytes) -> Any:
    """A JSON value, lenient about what is not used in the end. Raises NotAPrompt.

    NaN, lone surrogates and bytes that are not UTF-8 are let through here, so that one of them in an unused field
    refuses no row and one in a used field refuses its own row only; `encodable` and `read_tools` find them.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8", "surrogateescape"), parse_int=_number)
        except json.JSONDecodeError as error:
            line = f"line {error.lineno} " if error.lineno > 1 else ""
            raise NotAPrompt(f"it is not JSON ({error.msg} at {line}column {error.colno})") from error
        except RecursionError:
            raise NotAPrompt("it is nested too deeply to be read") from None


def _number(digits: str) -> int | float:
    # As orjson does; Python's own parser refuses a whole file for one number of 5,000 digits.
    return int(digits) if len(digits) < 20 else float(digits)


def text(value: Any, what: str) -> str:
    """A text that can be sent. Raises NotAPrompt, whose sentence begins with `what`."""
    if not isinstance(value, str):
        raise NotAPrompt(f"{what} is {kind(value)}, not text")
    return encodable(value)


def encodable(value: str) -> str:
    """The same text, if UTF-8 can say it. Raises NotAPrompt."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotAPrompt("it is not UTF-8 text: it holds a foreign byte or half of a character") from error
    return value


def listed(row: Mapping[str, Any], field: str) -> list[Any]:
    """A list, or a JSON string of one, as some sets have it. Raises NotAPrompt."""
    value = row[field]
    if isinstance(value, str):
        if not value.strip():
            return []
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError:
            value = None
    if not isinstance(value, list):
        raise NotAPrompt(f"its {field} field is {kind(row[field])}, not a list")
    return value


def kind(value: Any) -> str:
    """What a JSON value is, in a sentence."""
    names = {type(None): "empty", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list"}
    return names.get(type(value), "an object")


def quoted(value: str) -> str:
    """A user's value as a sentence shows it: short, and printable whatever it holds."""
    return repr(value if len(value) <= SHOWN_CHARS else f"{value[:SHOWN_CHARS]}…")
