"""Tools become OpenAI's schema, however a row spells them."""

import pytest

from eagle3gen.prompts.tools import DEPTH_MAX, read_tools
from eagle3gen.prompts.values import NotAPrompt

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "The weather.", "parameters": PARAMETERS}
WRAPPED = {"type": "function", "function": FUNCTION}


def parameters(schema: object, **beside: object) -> object:
    return read_tools({"tools": [{"name": "f", "parameters": schema, **beside}]})[0]["function"]["parameters"]


def refusal(tools: object) -> str:
    with pytest.raises(NotAPrompt) as caught:
        read_tools({"tools": tools})
    return str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        {"tools": [WRAPPED]},
        {"tools": [FUNCTION]},
        {"tools": WRAPPED},
        {"tools": [{"type": "function", **FUNCTION}]},
        {"tools": '[{"name": "weather", "description": "The weather.", "parameters": {"type": "object", '
                  '"properties": {"city": {"type": "string"}}, "required": ["city"]}}]'},
        {"functions": [FUNCTION]},
        {"tools": None, "functions": [FUNCTION]},
        {"tools": [], "functions": [FUNCTION]},
        {"tools": [{**WRAPPED, "id": 7, "function": {**FUNCTION, "cost": 3}}]},
    ],
)  # fmt: skip
def test_every_spelling_gives_the_same_tool(row) -> None:
    """Wrapped or bare, list or JSON string, tools or functions: the same tool."""
    assert read_tools(row) == [WRAPPED]


@pytest.mark.parametrize("tools", [None, "", " ", "[]", "null", [], {}])
def test_no_tools_are_no_tools(tools) -> None:
    """An empty field in any spelling sends no tools."""
    assert read_tools({"tools": tools}) == []


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("dict", "object"),
        ("str", "string"),
        ("int", "integer"),
        ("float", "number"),
        ("bool", "boolean"),
        ("list", "array"),
        ("string", "string"),
        (["str", "null"], ["string", "null"]),
        ("str, optional", "string"),
        ("string, optional", "string"),
        ("Dict[str, int]", "object"),
    ],
)
def test_python_types_get_their_json_schema_names(spelled, meant) -> None:
    """A type that is named as in Python is renamed."""
    assert parameters({"type": spelled}) == {"type": meant}


@pytest.mark.parametrize("spelled", ["List[int]", "list[int]", "List[int], optional"])
def test_a_python_list_type_keeps_the_type_of_its_items(spelled) -> None:
    """`List[int]` is an array of integers."""
    assert parameters({"type": "object", "properties": {"a": {"type": spelled}}}) == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}},
    }


def test_items_that_are_given_are_kept() -> None:
    """A list type does not overwrite the schema of its items."""
    schema = {"type": "List[int]", "items": {"type": "int", "minimum": 0}}
    assert parameters(schema) == {"type": "array", "items": {"type": "integer", "minimum": 0}}


def test_bare_properties_get_the_object_around_them() -> None:
    """Some sets give the properties alone as parameters, one of them named type perhaps."""
    assert parameters({"type": {"type": "str"}, "n": {"type": "int"}}, required=["n"]) == {
        "type": "object",
        "properties": {"type": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["n"],
    }


@pytest.mark.parametrize("schema", [{}, {"properties": {"a": {}}}, {"$defs": {"a": {}}}, {"type": "object"}])
def test_a_schema_is_not_taken_for_bare_properties(schema) -> None:
    """What is a schema already is left alone."""
    assert parameters(schema) == schema


def test_types_are_renamed_at_every_depth() -> None:
    """Schemas in properties, items, alternatives and definitions are all reached."""
    leaf, meant = {"type": "int"}, {"type": "integer"}
    schema = {
        "type": "dict",
        "properties": {"a": {"type": "list", "items": leaf}, "b": {"anyOf": [leaf, {"not": leaf}]}},
        "additionalProperties": leaf,
        "$defs": {"c": {"type": "dict", "patternProperties": {"^x": leaf}}},
    }
    assert parameters(schema) == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": meant}, "b": {"anyOf": [meant, {"not": meant}]}},
        "additionalProperties": meant,
        "$defs": {"c": {"type": "object", "patternProperties": {"^x": meant}}},
    }


def test_data_that_looks_like_a_type_is_kept() -> None:
    """A property named type, and values in enum and default, are not renamed."""
    schema = {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": ["int", "str"]}, "x": {"default": {"type": "int"}}},
    }
    assert parameters(schema) == schema


def test_required_beside_the_parameters_moves_into_them() -> None:
    """Some sets write `required` next to the schema it belongs to."""
    assert parameters({"type": "object", "properties": {}}, required=["a"])["required"] == ["a"]


def test_required_in_the_parameters_stays() -> None:
    """A schema's own `required` is not overwritten."""
    assert parameters({"type": "object", "required": ["a"]}, required=["b"])["required"] == ["a"]


@pytest.mark.parametrize("function", [{"name": "now"}, {"name": "now", "parameters": None, "required": []}])
def test_missing_parameters_stay_absent(function) -> None:
    """A tool without parameters gets none."""
    assert read_tools({"tools": [function]}) == [{"type": "function", "function": {"name": "now"}}]


def test_the_row_is_not_changed() -> None:
    """Reading tools leaves the row as it was."""
    tool = {"name": "f", "parameters": {"type": "dict"}, "required": ["a"]}
    read_tools({"tools": [tool]})
    assert tool == {"name": "f", "parameters": {"type": "dict"}, "required": ["a"]}


def deep(levels: int) -> object:
    schema: object = {"type": "int"}
    for _ in range(levels):
        schema = {"type": "list", "items": schema}
    return schema


def test_a_deep_schema_is_read() -> None:
    """Fifty levels are no trouble."""
    assert "int'" not in str(parameters(deep(50)))


@pytest.mark.parametrize(
    ("tools", "sentence"),
    [
        ("nothing", "its tools field is not JSON"),
        (3, "its tools field is a number, not a list"),
        ("3", "its tools field is a number, not a list"),
        (["nothing"], "one of its tools is not JSON"),
        ([3], "one of its tools is a number, not an object"),
        ([{}], "one of its tools has no name"),
        ([{"name": ""}], "one of its tools has no name"),
        ([{"function": {"name": 3}}], "one of its tools has no name"),
        ([{"name": "f", "parameters": "x"}], "the parameters field of its tool 'f' is text"),
        ([{"name": "f", "parameters": []}], "the parameters field of its tool 'f' is a list"),
        ([{"name": "f", "description": 3}], "the description field of its tool 'f' is a number"),
        ([{"name": "f", "strict": "yes"}], "the strict field of its tool 'f' is text"),
        ([{"name": "f", "parameters": {}, "required": True}], "the required field of its tool 'f' is not a list of"),
        ([{"name": "f", "parameters": {}, "required": [1]}], "the required field of its tool 'f' is not a list of"),
        ([{"name": "f", "parameters": {"default": float("nan")}}], "a number that JSON does not know"),
        ([{"name": "f", "description": "\ud83d"}], "it is not UTF-8 text"),
        ([{"name": "f", "parameters": {"\ud83d": 1}}], "it is not UTF-8 text"),
        ([{"name": "f", "parameters": deep(900)}], f"nested more than {DEPTH_MAX} levels deep"),
    ],
)
def test_a_tool_that_cannot_be_sent_says_why(tools, sentence) -> None:
    """Each reason has its own sentence."""
    assert sentence in refusal(tools)
