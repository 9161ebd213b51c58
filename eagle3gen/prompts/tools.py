"""Tools of a row in OpenAI's schema, however the row spells them."""

import math
import re
from collections.abc import Mapping
from typing import Any

import orjson

from eagle3gen.prompts.values import NotAPrompt, encodable, kind, quoted
from eagle3gen.records import Json

DEPTH_MAX = 64
"""Levels of nesting in a tool; orjson writes 254, and no real schema comes near."""

TYPES = {"dict": "object", "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array"}
"""Python's names for what JSON Schema calls otherwise; sets write `List[int]` and `str, optional` too."""

LIST_OF = re.compile(r"list\[(.+)\]", re.IGNORECASE)

# Keywords of JSON Schema 2020-12 that hold schemas; in all others (enum, default, const, …) a "type" is only data.
ONE_OR_MORE = {
    "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not", "oneOf", "prefixItems",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip
BY_NAME = {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}


def read_tools(row: Mapping[str, Any]) -> list[Json]:
    """The `tools` of a row, or else its `functions`: a list or a JSON string of one, wrapped or bare.

    Raises NotAPrompt.
    """
    for field in ("tools", "functions"):
        if tools := _list(row.get(field), field):
            return [_tool(tool) for tool in tools]
    return []


def _list(tools: Any, field: str) -> list[Any]:
    tools = _parsed(tools, f"its {field} field is")
    if tools is None:
        return []
    if isinstance(tools, Mapping):
        return [tools] if tools else []
    if not isinstance(tools, list):
        raise NotAPrompt(f"its {field} field is {kind(tools)}, not a list")
    return tools


def _parsed(value: Any, what: str) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise NotAPrompt(f"{what} not JSON ({error})") from error


def _tool(tool: Any) -> Json:
    tool = _parsed(tool, "one of its tools is")
    if not isinstance(tool, Mapping):
        raise NotAPrompt(f"one of its tools is {kind(tool)}, not an object")
    function = tool["function"] if isinstance(tool.get("function"), Mapping) else tool
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise NotAPrompt("one of its tools has no name")
    known: dict[str, Any] = {"name": name}
    for field, wanted in (("description", str), ("parameters", Mapping), ("strict", bool)):
        value = function.get(field)
        if value is None:
            continue
        if not isinstance(value, wanted):
            raise NotAPrompt(f"the {field} field of its tool {quoted(name)} is {kind(value)}")
        known[field] = value
    _sendable(known, 0)
    if "parameters" in known:
        known["parameters"] = _parameters(known["parameters"], function.get("required"), name)
    return {"type": "function", "function": known}


def _parameters(schema: Mapping[str, Any], required: Any, name: str) -> Json:
    """The schema in JSON Schema's words; `required` is what some sets write beside it instead of in it."""
    if schema and not BY_NAME & schema.keys() and all(isinstance(value, Mapping) for value in schema.values()):
        # Properties without the object around them.
        schema = {"type": "object", "properties": schema}
    if required and "required" not in schema:
        if not isinstance(required, list) or not all(isinstance(field, str) for field in required):
            raise NotAPrompt(f"the required field of its tool {quoted(name)} is not a list of names")
        schema = {**schema, "required": [encodable(field) for field in required]}
    return _object(schema)


def _object(schema: Mapping[str, Any]) -> Json:
    read = {keyword: _keyword(keyword, value) for keyword, value in schema.items()}
    spelled = schema.get("type")
    if isinstance(spelled, str) and (items := LIST_OF.match(spelled)):
        read.setdefault("items", {"type": _type(items[1])})
    return read


def _schema(value: Any) -> Any:
    if isinstance(value, list):
        return [_schema(one) for one in value]
    return _object(value) if isinstance(value, Mapping) else value


def _keyword(keyword: str, value: Any) -> Any:
    if keyword == "type":
        return [_type(one) for one in value] if isinstance(value, list) else _type(value)
    if keyword in ONE_OR_MORE:
        return _schema(value)
    if keyword in BY_NAME and isinstance(value, Mapping):
        return {name: _schema(inner) for name, inner in value.items()}
    return value


def _type(spelled: Any) -> Any:
    if not isinstance(spelled, str):
        return spelled
    alone = spelled.removesuffix(", optional")
    return TYPES.get(alone.split("[")[0].lower(), alone)


def _sendable(value: Any, depth: int) -> None:
    """Raises NotAPrompt for what Python's parser reads and JSON cannot say."""
    if depth > DEPTH_MAX:
        raise NotAPrompt(f"one of its tools is nested more than {DEPTH_MAX} levels deep")
    if isinstance(value, str):
        encodable(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise NotAPrompt("one of its tools holds a number that JSON does not know (NaN or Infinity)")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            encodable(key)
            _sendable(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            _sendable(inner, depth + 1)
