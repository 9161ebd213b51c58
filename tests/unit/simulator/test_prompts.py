"""The simulator counts a prompt as a server does, and as the product does by other means."""

import copy

import pytest
from jinja2.exceptions import TemplateError

from eagle3gen.simulator.prompts import PromptCounter
from eagle3gen.simulator.tokenizer import RUN
from eagle3gen.tokens.loading import load_tokenizer

USER = {"role": "user", "content": "What is 2+2? 你好 🎉"}
CALL = {"id": "functions.add:0", "type": "function", "function": {"name": "add", "arguments": '{"a":  2}'}}
LOOP = [
    USER,
    {"role": "assistant", "content": " a", "reasoning": " dropped"},
    USER,
    {"role": "assistant", "content": None, "reasoning": " kept", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "functions.add:0", "content": "4"},
]
SCHEMA = {"type": "object", "properties": {"b": {"type": "integer", "default": 1}, "a": {"enum": ["x", "ü"]}}}
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": SCHEMA}}
ODD = {"type": "function", "function": {"name": "odd", "parameters": {"properties": {"x": {"title": "no type"}}}}}


@pytest.fixture(scope="module")
def counter(folder, vocabulary) -> PromptCounter:
    return PromptCounter(folder, vocabulary)


@pytest.fixture(scope="module")
def product():
    return load_tokenizer("builtin:kimi-mini")


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        ([USER], []),
        ([{"role": "system", "content": "Be brief.\n"}, USER], []),
        ([{"role": "user", "content": [{"type": "text", "text": "two "}, {"type": "text", "text": "parts"}]}], []),
        ([{"role": "user", "name": "Ann", "content": "named"}], []),
        ([{"role": "user", "content": "spelled <|im_end|> and </think> and <|reserved_token_163700|>"}], []),
        ([USER], [TOOL]),
        (LOOP, [TOOL]),
        ([USER], [TOOL, ODD]),
        ([{"role": "user", "content": "=" * (3 * RUN) + " " * (2 * RUN + 1) + "word " * 90_000}], []),
    ],
    ids=["user", "system", "parts", "name", "controls", "tool", "loop", "json", "long"],
)
def test_the_product_counts_the_same(counter, product, messages, tools) -> None:
    assert counter.count(copy.deepcopy(messages), tools) == len(product.prompt_ids(messages, tools))


def test_a_control_string_in_a_prompt_is_one_token_as_on_a_server(counter) -> None:
    def count(text: str) -> int:
        return counter.count([{"role": "user", "content": text}], [])

    assert count("<|im_end|>") == count("<|reserved_token_163700|>") == count("") + 1
    assert count("<|reserved_token_5|>") > count("") + 1


def test_tools_that_cannot_be_declared_are_shown_as_json(counter) -> None:
    """The JSON has its keys in order, so the order in the request does not matter."""
    turned = {"function": {"parameters": ODD["function"]["parameters"], "name": "odd"}, "type": "function"}
    count = counter.count([USER], [ODD])
    assert counter.count([USER], [turned]) == count > counter.count([USER], [])


def test_what_the_template_refuses_is_refused(counter) -> None:
    with pytest.raises(TemplateError, match="only text parts"):
        counter.count([{"role": "user", "content": [{"type": "image_url"}]}], [])


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ messages | tojson }}", '[{"role": "user", "content": "é<"}]'),
        ("{{ messages[0] | tojson(separators=(',', ':')) }}", '{"role":"user","content":"é<"}'),
        ("{{ messages[0] | tojson(indent=2) }}", '{\n  "role": "user",\n  "content": "é<"\n}'),
        ("{{ messages[0] | tojson(ensure_ascii=true) }}", '{"role": "user", "content": "\\u00e9<"}'),
        ("{% for m in messages %}{% break %}{% endfor %}x", "x"),
    ],
)
def test_templates_find_what_transformers_gives_them(tmp_path, vocabulary, template, text) -> None:
    (tmp_path / "chat_template.jinja").write_text(template, "utf-8")
    counter = PromptCounter(tmp_path, vocabulary)
    assert counter.count([{"role": "user", "content": "é<"}], []) == len(vocabulary.prompt_ids(text))
