"""Tools as TypeScript: by example, against the simulator's own writer, and against the published one where it is."""

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.declare import declare
from eagle3gen.tokens.typescript import _sorted, tools_to_typescript


def tool(parameters, **more):
    return {"type": "function", "function": {"name": "f", "parameters": parameters, **more}}


def test_required_fields_come_first_then_by_name() -> None:
    parameters = {
        "type": "object",
        "properties": {"z": {"type": "string"}, "b": {"type": "integer"}, "a": {"type": "boolean"}},
        "required": ["z"],
    }
    assert "(_: {\n  z: string,\n  a?: boolean,\n  b?: number\n}) => any;" in tools_to_typescript([tool(parameters)])


def test_descriptions_limits_and_defaults_are_comments() -> None:
    field = {"type": "integer", "description": "How many.\nAt most ten.", "minimum": 1, "maximum": 10, "default": 3}
    expected = "  // How many.\n  // At most ten.\n  // maximum: 10, minimum: 1\n  // Default: 3\n  n?: number"
    assert expected in tools_to_typescript([tool({"properties": {"n": field}}, description="Counts.")])


@pytest.mark.parametrize(
    ("schema", "spelled"),
    [
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "string | number"),
        ({"type": "array"}, "Array<any>"),
        ({"type": "array", "items": {"type": "integer"}}, "Array<number>"),
        ({"type": "object"}, "{}"),
        ({}, "any"),
        (True, "any"),
        ({"type": "object", "additionalProperties": False}, "{\n    [k: string]: never\n  }"),
    ],
)
def test_types(schema, spelled) -> None:
    assert f"  x?: {spelled}\n" in tools_to_typescript([tool({"properties": {"x": schema}})])


def test_definitions_become_interfaces() -> None:
    parameters = {
        "$defs": {"Point": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "properties": {"at": {"$ref": "#/$defs/Point"}},
    }
    said = tools_to_typescript([tool(parameters)])
    assert "interface Point {\n  x?: number\n}" in said
    assert "at?: Point" in said


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": {"x": {"minimum": 1}}},
        {"properties": {"x": {"$ref": "#/$defs/Nothing"}}},
        {"properties": {"x": {"type": "string", "enum": [1]}}},
        {"properties": {"x": {"type": "object", "additionalProperties": "yes"}}},
    ],
)
def test_what_the_original_refuses_is_refused(parameters) -> None:
    assert tools_to_typescript([tool(parameters)]) is None


def test_no_tools_say_nothing() -> None:
    assert tools_to_typescript([]) is None
    assert tools_to_typescript([{"type": "plugin"}]) is None


names = st.sampled_from(["alpha", "beta", "gamma", "x1", "_y"])
scalars = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={"description": st.text("ab \n", max_size=8), "maxLength": st.integers(0, 9)},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(0, 9), "default": st.integers(1, 9)},
    ),
    st.just({"type": "boolean"}),
    st.fixed_dictionaries({"enum": st.lists(st.sampled_from(["a", "b", 1]), min_size=1, max_size=3)}),
    st.just({"type": ["string", "null"]}),
)


def objects(inner):
    return st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(names, inner, max_size=3)},
        optional={"required": st.lists(names, max_size=2), "additionalProperties": st.booleans() | inner},
    )


schemas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        objects(inner),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={"items": inner, "minItems": st.integers(0, 3), "description": st.just("many")},
        ),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=2)}),
    ),
    max_leaves=8,
)
tools = st.lists(objects(schemas).map(lambda p: tool(p, description="Does it.")), min_size=1, max_size=3)


@given(tools)
def test_two_writers_say_the_same(given_tools) -> None:
    """The simulator has its own implementation of the same description."""
    assert tools_to_typescript(given_tools) == declare(given_tools)


@pytest.mark.skipif(importlib.util.find_spec("tinker_cookbook") is None, reason="tinker-cookbook is not installed")
@given(tools)
def test_the_published_writer_says_the_same(given_tools) -> None:
    from tinker_cookbook.renderers.kimi_k2_5_tool_declaration_ts import encode_tools_to_typescript_style

    assert tools_to_typescript(given_tools) == encode_tools_to_typescript_style(_sorted(given_tools))
