"""Kimi-K2.5's TypeScript rendering of tools, a second implementation from the same description.

The product has its own in another room; two writers who read one description are a check on each other.
"""

import json
from typing import Any

LIMITS = {
    "string": ["maxLength", "minLength", "pattern"],
    "number": ["maximum", "minimum"],
    "integer": ["maximum", "minimum"],
    "array": ["maxItems", "minItems"],
}
NAMES = {"integer": "number", "object": "{}", "array": "Array<any>"}


def declare(tools: list[Any]) -> str:
    """The namespace of all functions, keys in alphabetical order."""
    functions = [tool["function"] for tool in tools if tool.get("type") == "function"]
    blocks = [_function(json.loads(json.dumps(function, sort_keys=True))) for function in functions]
    return "# Tools\n\n## functions\nnamespace functions {\n" + "\n".join(blocks) + "\n}\n" if blocks else ""


def _function(function: dict[str, Any]) -> str:
    parameters = function.get("parameters") or {}
    lines = [
        *(f"interface {name} {_type_of(schema, '')}" for name, schema in (parameters.get("$defs") or {}).items()),
        *_remarks(function.get("description"), ""),
        f"type {function['name']} = (_: {_struct(parameters, '')}) => any;",
    ]
    return "\n".join(lines)


def _struct(schema: dict[str, Any], indent: str) -> str:
    inner = indent + "  "
    required = schema.get("required") or []
    members = []
    named = schema.get("properties") or {}
    for optional in (False, True):
        for name in sorted(named):
            if (name not in required) is not optional:
                continue
            head = "".join(f"{line}\n" for line in _notes(named[name], inner, with_default=True))
            members.append(f"{head}{inner}{name}{'?' * optional}: {_type_of(named[name], inner)}")
    extra = schema.get("additionalProperties")
    if extra is not None:
        closed = "any" if extra is True else "never"
        word: str = closed if isinstance(extra, bool) else _type_of(extra, inner)
        members.append(f"{inner}[k: string]: {word}")
    return "{\n" + ",\n".join(members) + "\n" + indent + "}" if members else "{}"


def _type_of(schema: Any, indent: str) -> str:
    if schema is True or schema == {}:
        return "any"
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "anyOf" in schema:
        return " | ".join(_type_of(option, indent) for option in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(f'"{v}"' if isinstance(v, str) else str(v) for v in schema["enum"])
    kind = schema["type"]
    if isinstance(kind, list):
        return " | ".join(str(NAMES.get(k, k)) for k in kind)
    if kind == "object":
        return _struct(schema, indent)
    if kind == "array" and schema.get("items"):
        inner = indent + "  "
        notes = _notes(schema["items"], inner)
        if notes:
            return "Array<\n" + "\n".join(notes) + f"\n{inner}{_type_of(schema['items'], inner)}\n{indent}>"
        return f"Array<{_type_of(schema['items'], indent)}>"
    return str(NAMES.get(kind, kind))


def _notes(schema: Any, indent: str, *, with_default: bool = False) -> list[str]:
    """Comment lines above a member: description, limits, default."""
    if not isinstance(schema, dict):
        return []
    notes = _remarks(schema.get("description"), indent)
    special = "enum" in schema or "anyOf" in schema or "$ref" in schema
    limits = [] if special else LIMITS.get(str(schema.get("type")), [])
    if told := [f"{key}: {schema[key]}" for key in limits if key in schema]:
        notes.append(f"{indent}// {', '.join(told)}")
    default = schema.get("default")
    if with_default and default is not None:
        shown = repr(default) if isinstance(default, int | float) else json.dumps(default, ensure_ascii=False)
        notes.append(f"{indent}// Default: {shown}")
    return notes


def _remarks(text: str | None, indent: str) -> list[str]:
    return [f"{indent}// {line}" if line else "" for line in text.split("\n")] if text else []
