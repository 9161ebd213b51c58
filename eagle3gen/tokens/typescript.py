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
            for tool in map(_sorted, tools)
            if tool.get("type") == "function" and tool.get("function")
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not functions:
        return None
    body = "\n".join(functions)
    return f"# Tools\n\n## functions\nnamespace functions {{\n{body}\n}}\n"


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [_sorted(item) for item in value]
    return value


def _function(function: Schema) -> str:
    scope = _Scope()
    parameters = function.get("parameters") or {}
    rendered = _object(parameters, "", scope)
    name = function.get("name", "function")
    parts = []
    if scope.refers_to_itself:
        fields = ",\n".join(_fields(parameters, INDENT, scope))
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
    kind = schema.get("type")
    if isinstance(kind, list):
        return " | ".join(UNION[name] for name in kind)
    if kind == "object":
        return _object(schema, indent, scope)
    if kind == "array":
        return _array(schema, indent, scope)
    if kind is None:
        if schema:
            raise ValueError("a schema without a type")
        return "any"
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
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else [k for k in kinds if k != "null" or len(kinds) == 1]
    if len(names) > 1:
        raise ValueError("an enum of several types")
    for name in names:
        if any(v is not None and not isinstance(v, ENUM_TYPES.get(name, object)) for v in schema["enum"]):
            raise ValueError("an enum value of another type")
    return " | ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"])


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
    properties = schema.get("properties") or {}
    required = set(schema.get("required", []))
    order = sorted(properties, key=lambda name: (name not in required, name))
    fields = _fields(schema, deeper, scope, order)
    more = schema.get("additionalProperties")
    if more is not None:
        if isinstance(more, Mapping):
            rest = _type(more, deeper, scope)
        elif isinstance(more, bool):
            rest = "any" if more else "never"
        else:
            raise ValueError("additionalProperties is neither a schema nor a boolean")
        fields.append(f"{deeper}[k: string]: {rest}")
    return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{}"


def _fields(schema: Schema, indent: str, scope: _Scope, order: Sequence[str] | None = None) -> list[str]:
    properties = schema.get("properties") or {}
    required = set(schema.get("required", []))
    return [
        _field(name, properties[name], name not in required, indent, scope)
        for name in (properties if order is None else order)
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
