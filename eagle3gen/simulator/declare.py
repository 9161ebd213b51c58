"""Kimi-K2.5's TypeScript rendering of tools, a second implementation from the same description.

The product has its own in another room; two writers who read one description are a check on each other.
"""

import json
from typing import Any

STEP = "  "
LIMITS = {
    "string": ["maxLength", "minLength", "pattern"],
    "number": ["maximum", "minimum"],
    "integer": ["maximum", "minimum"],
    "array": ["maxItems", "minItems"],
}
SHORT = {
    "string": "string",
    "number": "number",
    "integer": "number",
    "boolean": "boolean",
    "null": "null",
    "object": "{}",
    "array": "Array<any>",
}
"""How a type is written inside a list of types."""
ENUMERABLE: dict[str, Any] = {"string": str, "number": (int, float), "integer": int, "boolean": bool}


class Undeclarable(ValueError):
    """A tool whose schema the rendering does not know; a server then shows all tools as JSON."""


def in_order(tools: list[Any]) -> list[Any]:
    """The tools with the keys of every object sorted, as Kimi's tokenizer sorts them first."""
    ordered: list[Any] = json.loads(json.dumps(tools, sort_keys=True))
    return ordered


def declare(tools: list[Any]) -> str | None:
    """The namespace of all functions, or None where a server falls back to JSON."""
    try:
        functions = [t["function"] for t in in_order(tools) if t.get("type") == "function" and t.get("function")]
        blocks = [_Writer().function(function) for function in functions]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return "# Tools\n\n## functions\nnamespace functions {\n" + "\n".join(blocks) + "\n}\n" if blocks else None


class _Writer:
    """Writes one function, and knows the shared types that were met in it."""

    def __init__(self) -> None:
        self._shared: dict[str, Any] = {}
        self._recursive = False

    def function(self, function: dict[str, Any]) -> str:
        parameters = function.get("parameters") or {}
        argument = self._struct(parameters, "")
        lines = []
        if self._recursive:
            # As the original has it: the fields in alphabetical order, required or not, and no rest.
            fields = [text for _, text in self._members(parameters, STEP)]
            lines.append("interface parameters " + _braces(fields, ""))
            argument = "parameters"
        for name, schema in tuple(self._shared.items()):
            written = f"interface {name} {self._type(schema, '')}"
            lines += [*_remarks(schema.get("description"), ""), written]
        if function.get("description"):
            lines.append("\n".join(_remarks(function["description"], "")))
        return "\n".join([*lines, f"type {function.get('name', 'function')} = (_: {argument}) => any;"])

    def _struct(self, schema: dict[str, Any], indent: str) -> str:
        self._shared.update(schema.get("$defs") or {})
        inner = indent + STEP
        rest = schema.get("additionalProperties")
        last = []
        if isinstance(rest, bool):
            last = [f"{inner}[k: string]: {'any' if rest else 'never'}"]
        elif isinstance(rest, dict):
            last = [f"{inner}[k: string]: {self._type(rest, inner)}"]
        elif rest is not None:
            raise Undeclarable("additionalProperties")
        members = self._members(schema, inner)
        needed = [text for optional, text in members if not optional]
        return _braces([*needed, *(text for optional, text in members if optional), *last], indent)

    def _members(self, schema: dict[str, Any], indent: str) -> list[tuple[bool, str]]:
        """Whether each property may be left out, and its lines; in alphabetical order."""
        if "properties" not in schema:
            return []
        required = set(schema.get("required", ()))
        members = []
        for name, kind in schema["properties"].items():
            optional = name not in required
            notes = [*_notes(kind, indent), *_default(kind, indent)]
            line = f"{indent}{name}{'?' * optional}: {self._type(kind, indent)}"
            members.append((optional, "\n".join([*notes, line])))
        return members

    def _type(self, schema: Any, indent: str) -> str:
        if isinstance(schema, bool):
            return "any" if schema else "null"
        if "$ref" in schema:
            return self._refer(schema["$ref"])
        if "anyOf" in schema:
            return " | ".join([self._type(option, indent) for option in schema["anyOf"]])
        if "enum" in schema:
            return _values(schema)
        if "type" not in schema:
            if schema:
                raise Undeclarable("a schema without a type")
            return "any"
        kind = schema["type"]
        if isinstance(kind, list):
            return " | ".join([SHORT[one] for one in kind])
        if kind == "object":
            return self._struct(schema, indent)
        if kind == "array":
            return self._array(schema.get("items"), indent)
        return "number" if kind == "integer" else str(kind)

    def _array(self, items: Any, indent: str) -> str:
        if not items:
            return "Array<any>"
        inner = indent + STEP
        if notes := _notes(items, inner):
            return "\n".join(["Array<", *notes, inner + self._type(items, inner), indent + ">"])
        return f"Array<{self._type(items, indent)}>"

    def _refer(self, target: str) -> str:
        if target == "#":
            self._recursive = True
            return "parameters"
        name = target.rsplit("/", maxsplit=1)[-1]
        if not target.startswith("#/$defs/") or name not in self._shared:
            raise Undeclarable(target)
        return name


def _braces(fields: list[str], indent: str) -> str:
    return "{\n" + ",\n".join(fields) + f"\n{indent}}}" if fields else "{}"


def _values(schema: dict[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        if len(kind) > 2 or (len(kind) == 2 and "null" not in kind):
            raise Undeclarable("an enum of several types")
        kind = kind[0] if kind[0] != "null" else kind[-1]
    for value in schema["enum"]:
        if value is not None and not isinstance(value, ENUMERABLE.get(kind or "", object)):
            raise Undeclarable("an enum value of another type")
    return " | ".join([f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"]])


def _notes(schema: Any, indent: str) -> list[str]:
    """Comment lines above a type: description and limits."""
    if isinstance(schema, bool):
        return []
    notes = _remarks(schema.get("description"), indent)
    plain = not {"$ref", "anyOf", "enum"} & schema.keys()
    limits = LIMITS.get(str(schema.get("type")), []) if plain else []
    if told := [f"{key}: {schema[key]}" for key in limits if key in schema]:
        notes.append(f"{indent}// {', '.join(told)}")
    return notes


def _default(schema: Any, indent: str) -> list[str]:
    default = None if isinstance(schema, bool) else schema.get("default")
    if default is None:
        return []
    shown = repr(default) if isinstance(default, int | float) else json.dumps(default, ensure_ascii=False)
    return [f"{indent}// Default: {shown}"]


def _remarks(text: str | None, indent: str) -> list[str]:
    return [f"{indent}// {line}" if line else "" for line in text.split("\n")] if text else []
