"""Tools as TypeScript: what is written, and what makes a server fall back to JSON."""

import pytest

from eagle3gen.simulator.declare import declare, in_order
from eagle3gen.tokens.typescript import tools_to_typescript


def tool(parameters, **more) -> dict:
    return {"type": "function", "function": {"name": "f", "parameters": parameters, **more}}


def fields(**properties) -> dict:
    return {"type": "object", "properties": properties}


def written(parameters, **more) -> str:
    """The lines of one function, without the namespace around it."""
    text = declare([tool(parameters, **more)])
    assert text is not None
    assert tools_to_typescript([tool(parameters, **more)]) == text
    head, tail = "# Tools\n\n## functions\nnamespace functions {\n", "\n}\n"
    assert text.startswith(head)
    assert text.endswith(tail)
    return text.removeprefix(head).removesuffix(tail)


def test_required_fields_come_first_each_group_in_alphabetical_order() -> None:
    schema = fields(d={"type": "string"}, c={"type": "integer"}, b={"type": "number"}, a={"type": "boolean"})
    lines = written(schema | {"required": ["d", "b"]}, description="Does it.\n\nWell.")
    assert lines == (
        "// Does it.\n\n// Well.\ntype f = (_: {\n  b: number,\n  d: string,\n  a?: boolean,\n  c?: number\n}) => any;"
    )


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({}, "any"),
        (True, "any"),
        (False, "null"),
        ({"type": "array"}, "Array<any>"),
        ({"type": "array", "items": {"type": "integer"}}, "Array<number>"),
        ({"type": ["string", "null", "array", "object", "integer"]}, "string | null | Array<any> | {} | number"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": True}]}, "string | Array<any>"),
        ({"enum": ["a", 'b"', 3, True, None]}, '"a" | "b"" | 3 | True | None'),
        ({"enum": ["a", None], "type": ["null", "string"]}, '"a" | None'),
        ({"type": "object"}, "{}"),
        ({"type": "object", "additionalProperties": False}, "{\n    [k: string]: never\n  }"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "{\n    [k: string]: number\n  }"),
        (fields(y={"type": "null"}), "{\n    y?: null\n  }"),
    ],
)
def test_each_kind_of_type_is_written_in_its_way(schema, kind) -> None:
    assert written(fields(x=schema)) == f"type f = (_: {{\n  x?: {kind}\n}}) => any;"


@pytest.mark.parametrize(
    ("schema", "notes"),
    [
        ({"type": "string", "description": "A\n\nb", "minLength": 1}, "  // A\n\n  // b\n  // minLength: 1\n"),
        ({"type": "string", "pattern": "^a", "maxLength": 3}, "  // maxLength: 3, pattern: ^a\n"),
        (
            {"type": "integer", "minimum": 1, "maximum": 2, "default": 1},
            "  // maximum: 2, minimum: 1\n  // Default: 1\n",
        ),
        ({"type": "string", "default": "日本"}, '  // Default: "日本"\n'),
        ({"type": "boolean", "default": False}, "  // Default: False\n"),
        ({"type": "string", "default": None}, ""),
        ({"enum": ["a"], "type": "string", "maxLength": 3}, ""),
        ({"anyOf": [{"type": "string", "description": "inner"}], "description": "outer"}, "  // outer\n"),
    ],
)
def test_notes_stand_above_a_field(schema, notes) -> None:
    assert written(fields(x=schema)).startswith(f"type f = (_: {{\n{notes}  x?: ")


def test_notes_of_items_stand_inside_the_array() -> None:
    schema = {"type": "array", "minItems": 1, "items": {"type": "string", "description": "a word"}}
    inside = "  // minItems: 1\n  x?: Array<\n    // a word\n    string\n  >"
    assert written(fields(x=schema)) == f"type f = (_: {{\n{inside}\n}}) => any;"


def test_shared_types_are_interfaces_before_the_function() -> None:
    shared = {"Point": fields(x={"type": "number"}) | {"description": "a place"}}
    lines = written(fields(at={"$ref": "#/$defs/Point"}) | {"$defs": shared}, description="Go.")
    place = "// a place\ninterface Point {\n  x?: number\n}\n"
    assert lines == place + "// Go.\ntype f = (_: {\n  at?: Point\n}) => any;"


def test_a_function_that_refers_to_itself_names_its_parameters() -> None:
    lines = written(fields(b={"$ref": "#"}, a={"type": "string"}) | {"required": ["b"], "additionalProperties": False})
    assert lines == "interface parameters {\n  a?: string,\n  b: parameters\n}\ntype f = (_: parameters) => any;"


@pytest.mark.parametrize(
    "schema",
    [
        {"description": "no type"},
        {"$ref": "#/$defs/Nothing"},
        {"$ref": "#/definitions/Old"},
        {"enum": ["a"], "type": "integer"},
        {"enum": ["a"], "type": ["string", "integer"]},
        {"type": ["string", "date"]},
        {"type": "object", "properties": ["a"]},
    ],
)
def test_what_the_writer_does_not_know_is_not_declared(schema) -> None:
    assert declare([tool(fields(x=schema))]) is None


@pytest.mark.parametrize("tools", [[], [{"type": "plugin"}], [{"type": "function", "function": {}}]])
def test_without_a_function_nothing_is_declared(tools) -> None:
    assert declare(tools) is None


def test_the_order_of_keys_in_a_request_does_not_matter() -> None:
    one = tool({"type": "object", "properties": {"b": {"type": "string"}, "a": {"$ref": "#"}}})
    other = tool({"properties": {"a": {"$ref": "#"}, "b": {"type": "string"}}, "type": "object"})
    assert declare([one]) == declare([other])
    assert list(in_order([one])[0]["function"]["parameters"]["properties"]) == ["a", "b"]
