"""Tools as TypeScript declarations: how Kimi-K2.5 reads them in its prompt.

Moonshot ships this as code beside the tokenizer (tool_declaration_ts.py); this is our own, held against that one by
a test. Keys are sorted first, at every depth.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]
INDENT = "  "
CONSTRAINTS: Mapping[str, Sequence[str]] = {
    "string": ("maxLength", "minLength", "pattern"),
    "number": ("maximum", "minimum"),
    "integer": ("maximum", "minimum"),
    "array": ("maxItems", "minItems"),
}
UNION = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "{}",
    "array": "Array<any>",
}
ENUM_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
}


@dataclass(slots=True)
class _Scope:
    """The `$defs` of one function, and whether it refers to itself."""

    definitions: dict[str, Schema] = field(default_factory=dict)
    refers_to_itself: bool = False


def tools_to_typescript(tools: Sequence[Schema]) -> str | None:
    """The declarations, or None where the original gives up and the template falls back to JSON."""
    try:
        functions = [
            _function(tool["function"])
            for tool in sorted_deeply(tools)
            if tool.get("type") == "function" and tool.get("function")
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    if not functions:
        return None
    body = "\n".join(functions)
    return f"# Tools\n\n## functions\nnamespace functions {{\n{body}\n}}\n"


def sorted_deeply(value: Any) -> Any:
    """The same value with the keys of every object in order, as the original sorts tools before it reads them."""
    if isinstance(value, Mapping):
        return {key: sorted_deeply(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [sorted_deeply(item) for item in value]
    return value


def _function(function: Schema) -> str:
    scope = _Scope()
    parameters = function.get("parameters") or {}
    rendered = _object(parameters, "", scope)
    name = function.get("name", "function")
    parts = []
    if scope.refers_to_itself:
        fields = ",\n".join(line for _, line in _fields(parameters, INDENT, scope))
        parts.append(f"interface parameters {{\n{fields}\n}}" if fields else "interface parameters {}")
        rendered = "parameters"
    for definition, schema in list(scope.definitions.items()):
        description = _comment(schema.get("description", ""), "")
        head = f"{description}\n" if description else ""
        parts.append(f"{head}interface {definition} {_type(schema, '', scope)}")
    if function.get("description"):
        parts.append(_comment(function["description"], ""))
    parts.append(f"type {name} = (_: {rendered}) => any;")
    return "\n".join(parts)


def _type(schema: Schema | bool, indent: str, scope: _Scope) -> str:
    if isinstance(schema, bool):
        return "any" if schema else "null"
    if "$ref" in schema:
        return _reference(schema["$ref"], scope)
    if "anyOf" in schema:
        return " | ".join(_type(option, indent, scope) for option in schema["anyOf"])
    if "enum" in schema:
        return _enum(schema)
    if "type" not in schema:
        if schema != {}:
            raise ValueError("a schema without a type")
        return "any"
    kind = schema["type"]
    if isinstance(kind, list):
        return " | ".join(UNION[name] for name in kind)
    if kind == "object":
        return _object(schema, indent, scope)
    if kind == "array":
        return _array(schema, indent, scope)
    return "number" if kind == "integer" else str(kind)


def _reference(target: str, scope: _Scope) -> str:
    if target == "#":
        scope.refers_to_itself = True
        return "parameters"
    name = target.removeprefix("#/$defs/")
    if name == target or name.split("/")[-1] not in scope.definitions:
        raise ValueError(f"a reference to nothing: {target}")
    return name.split("/")[-1]


def _enum(schema: Schema) -> str:
    values = list(schema["enum"])
    if "type" in schema:
        expected = ENUM_TYPES.get(_only_type(schema["type"]), object)
        if any(value is not None and not isinstance(value, expected) for value in values):
            raise ValueError("an enum value of another type")
    return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in values)


def _only_type(kind: Any) -> str:
    """The one type of an enum beside null."""
    if not isinstance(kind, list):
        return str(kind)
    if not kind or len(kind) > 2 or (len(kind) == 2 and "null" not in kind):
        raise ValueError("an enum of several types")
    return str(kind[0] if kind[0] != "null" else kind[-1])


def _array(schema: Schema, indent: str, scope: _Scope) -> str:
    items = schema.get("items")
    if not items:
        return "Array<any>"
    deeper = indent + INDENT
    comment = _docstring(items, deeper)
    if not comment:
        return f"Array<{_type(items, indent, scope)}>"
    return f"Array<\n{comment}{deeper}{_type(items, deeper, scope)}\n{indent}>"


def _object(schema: Schema, indent: str, scope: _Scope) -> str:
    scope.definitions.update(schema.get("$defs") or {})
    deeper = indent + INDENT
    rest = _rest(schema, deeper, scope)
    fields = [line for _, line in sorted(_fields(schema, deeper, scope))] + rest
    return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{}"


def _rest(schema: Schema, indent: str, scope: _Scope) -> list[str]:
    """What fields an object may have beyond its named ones."""
    more = schema.get("additionalProperties")
    if more is None:
        return []
    if not isinstance(more, bool | Mapping):
        raise TypeError("additionalProperties is neither a schema nor a boolean")
    kind = _type(more, indent, scope) if more is not False else "never"
    return [f"{indent}[k: string]: {kind}"]


def _fields(schema: Schema, indent: str, scope: _Scope) -> list[tuple[tuple[bool, str], str]]:
    """Each field's place among the others, required ones first, and its line, in the order they are written in."""
    if "properties" not in schema:
        return []
    required = set(schema.get("required", []))
    return [
        ((name not in required, name), _field(name, field, name not in required, indent, scope))
        for name, field in schema["properties"].items()
    ]


def _field(name: str, schema: Schema | bool, optional: bool, indent: str, scope: _Scope) -> str:
    comments = _docstring(schema, indent)
    default = schema.get("default") if isinstance(schema, Mapping) else None
    if default is not None:
        shown = repr(default) if isinstance(default, int | float) else json.dumps(default, ensure_ascii=False)
        comments += f"{indent}// Default: {shown}\n"
    return f"{comments}{indent}{name}{'?' if optional else ''}: {_type(schema, indent, scope)}"


def _docstring(schema: Schema | bool, indent: str) -> str:
    if isinstance(schema, bool):
        return ""
    lines = []
    if schema.get("description"):
        lines.append(_comment(schema["description"], indent))
    plain = not ({"$ref", "anyOf", "enum"} & set(schema)) and isinstance(schema.get("type"), str)
    allowed = CONSTRAINTS.get(schema["type"], ()) if plain else ()
    limits = ", ".join(f"{key}: {schema[key]}" for key in sorted(allowed) if key in schema)
    if limits:
        lines.append(f"{indent}// {limits}")
    return "".join(line + "\n" for line in lines)


def _comment(text: str, indent: str) -> str:
    return "\n".join(f"{indent}// {line}" if line else "" for line in text.split("\n")) if text else ""
