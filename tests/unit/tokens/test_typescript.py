"""Tools as TypeScript: by example, against the simulator's own writer, and against the published one where it is."""

import importlib.util
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.declare import declare
from eagle3gen.tokens.typescript import sorted_deeply, tools_to_typescript


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


def published_writer():
    """The encoder that tinker-cookbook ships, by its file: its package needs much that we do not."""
    found = importlib.util.find_spec("tinker_cookbook")
    if found is None or found.origin is None:
        pytest.skip("tinker-cookbook is not installed; `pip install --no-deps --target DIR` and PYTHONPATH=DIR do")
    path = Path(found.origin).parent / "renderers" / "kimi_k2_5_tool_declaration_ts.py"
    spec = importlib.util.spec_from_file_location("published_writer", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module.encode_tools_to_typescript_style


odd_scalars = st.one_of(
    st.sampled_from([{"$ref": "#"}, {"$ref": "#/$defs/alpha"}, {"$ref": "#/$defs/nothing"}, {"type": ["x", "null"]}]),
    st.just({"minimum": 1}),
    st.fixed_dictionaries(
        {"enum": st.lists(st.sampled_from(["a", 1, None, True, 2.5]), max_size=3)},
        optional={
            "type": st.sampled_from(["string", "integer", ["string", "null"], ["null"], ["string", "integer"], []])
        },
    ),
)
odd = st.recursive(
    scalars | odd_scalars,
    lambda inner: st.one_of(
        objects(inner).flatmap(
            lambda schema: st.fixed_dictionaries({}, optional={"$defs": st.dictionaries(names, inner, max_size=2)}).map(
                lambda defs: {**schema, **defs}
            )
        ),
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=2)}, optional={"description": st.just("either")}),
    ),
    max_leaves=8,
)
odd_tools = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(["function", "plugin"]), "function": st.just({})})
    | objects(odd).map(lambda p: tool(p, description="Does it.")),
    max_size=3,
)


def test_the_published_writer_says_the_same() -> None:
    """Also of references, definitions, and of what it refuses."""
    encode = published_writer()

    @given(tools | odd_tools)
    def compare(given_tools) -> None:
        try:
            said = encode(sorted_deeply(given_tools)) or None
        except (ValueError, KeyError, TypeError, AttributeError):
            said = None
        assert tools_to_typescript(given_tools) == said

    compare()


@pytest.mark.parametrize(
    "parameters",
    [
        {"properties": None},
        {"properties": {"x": {"enum": ["a"], "type": ["string", "integer"]}}},
        {"properties": {"x": {"enum": ["a"], "type": []}}},
        {"properties": {"x": {"anyOf": [[]]}}},
    ],
)
def test_schemas_that_are_none_are_refused_as_the_original_does(parameters) -> None:
    assert tools_to_typescript([tool(parameters)]) is None


def test_a_schema_as_deep_as_python_is_refused() -> None:
    deep = {"type": "string"}
    for _ in range(3000):
        deep = {"type": "array", "items": deep}
    assert tools_to_typescript([tool({"properties": {"x": deep}})]) is None


def test_definitions_are_known_in_the_order_of_the_original() -> None:
    """A definition inside the first property by name serves the second, although required fields are written first."""
    parameters = {
        "properties": {
            "a": {"type": "object", "$defs": {"P": {"type": "string"}}},
            "b": {"$ref": "#/$defs/P"},
        },
        "required": ["b"],
    }
    assert "b: P,\n  a?: {}" in tools_to_typescript([tool(parameters)])
