"""Prompts are rendered as Kimi-K2.5's servers do."""

import pytest

from eagle3gen.errors import InputError
from eagle3gen.tokens.template import Template

from .conftest import CONTROL

OPEN = "<|im_assistant|>assistant<|im_middle|><think>"
CALL = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": '{ "a":1}'}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


def render(tokenizer, *messages, tools=()) -> str:
    return tokenizer.template.render(messages, tools)


def test_a_question(tokenizer) -> None:
    rendered = render(tokenizer, {"role": "user", "content": " Hi\n"})
    assert rendered == f"<|im_user|>user<|im_middle|> Hi\n<|im_end|>{OPEN}"


def test_no_system_turn_is_added(tokenizer) -> None:
    assert "<|im_system|>" not in render(tokenizer, {"role": "user", "content": "x"})


def test_a_system_turn_and_a_named_user(tokenizer) -> None:
    rendered = render(tokenizer, {"role": "system", "content": "S"}, {"role": "user", "name": "Ana", "content": "x"})
    assert rendered.startswith("<|im_system|>system<|im_middle|>S<|im_end|><|im_user|>Ana<|im_middle|>x<|im_end|>")


def test_text_parts_are_joined(tokenizer) -> None:
    parts = [{"type": "text", "text": "a "}, {"type": "text", "text": "b"}]
    assert "<|im_middle|>a b<|im_end|>" in render(tokenizer, {"role": "user", "content": parts})


def test_a_picture_is_refused_in_one_sentence(tokenizer) -> None:
    with pytest.raises(InputError, match="cannot render"):
        render(tokenizer, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]})


def test_a_picture_is_refused_although_the_folder_s_template_would_take_it() -> None:
    """The original's template writes a placeholder, whose ids are not those of a picture."""
    takes_all = Template("{% for m in messages %}{% for p in m.content %}{{ p.type }}{% endfor %}{% endfor %}")
    with pytest.raises(InputError, match="only text"):
        takes_all.render([{"role": "user", "content": [{"type": "video_url"}]}])


@pytest.mark.parametrize("given", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("read", ["reasoning", "reasoning_content"])
def test_thinking_reaches_a_template_under_the_name_it_reads(given, read) -> None:
    template = Template(f"{{% for m in messages %}}{{{{ m.get('{read}', '') }}}}{{% endfor %}}")
    assert template.render([{"role": "assistant", "content": "a", given: "why"}]) == "why"
    assert template.render([{"role": "assistant", "content": "a", given: None}]) == ""


@pytest.mark.parametrize(
    ("messages", "tools"),
    [([7], ()), ([{"role": "user", "content": [1]}], ()), ([{"role": "assistant", "tool_calls": [{}]}], ())],
)
def test_messages_of_no_shape_are_an_input_error(tokenizer, messages, tools) -> None:
    with pytest.raises(InputError):
        tokenizer.template.render(messages, tools)


def test_half_a_character_in_a_prompt_is_an_input_error(tokenizer) -> None:
    """tiktoken would put U+FFFD in its place and say nothing."""
    with pytest.raises(InputError, match="half of a character"):
        tokenizer.prompt_ids([{"role": "user", "content": "a\ud83d"}])


def test_the_thinking_of_finished_turns_is_not_shown_again(tokenizer) -> None:
    rendered = render(
        tokenizer,
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "reasoning": "secret"},
        {"role": "user", "content": "q2"},
    )
    assert "<think></think>a<|im_end|>" in rendered
    assert "secret" not in rendered


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_the_thinking_of_a_running_tool_loop_is_kept_and_arguments_stay_verbatim(tokenizer, field) -> None:
    rendered = render(
        tokenizer,
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", field: "why", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "functions.f:0", "content": "42"},
        tools=[TOOL],
    )
    assert (
        "<think>why</think><|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
        '<|tool_call_argument_begin|>{ "a":1}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
    ) in rendered
    assert "<|im_system|>tool<|im_middle|>## Return of functions.f:0\n42<|im_end|>" in rendered


def test_tools_come_first_as_typescript(tokenizer) -> None:
    rendered = render(tokenizer, {"role": "user", "content": "q"}, tools=[TOOL])
    assert rendered.startswith("<|im_system|>tool_declare<|im_middle|># Tools\n\n## functions\nnamespace functions {\n")


def test_tools_that_typescript_cannot_say_fall_back_to_json(tokenizer) -> None:
    odd = {"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": {"minimum": 1}}}}}
    rendered = render(tokenizer, {"role": "user", "content": "q"}, tools=[odd])
    # Sorted too: the original sorts first, and falls back afterwards.
    assert 'tool_declare<|im_middle|>[{"function":{"name":"f","parameters":{"properties"' in rendered


def test_control_strings_of_a_user_are_active_as_on_the_server(tokenizer) -> None:
    ids = tokenizer.prompt_ids([{"role": "user", "content": "say </think> now"}])
    assert CONTROL["</think>"] in ids


def test_a_prompt_ends_where_the_model_begins(tokenizer) -> None:
    ids = tokenizer.prompt_ids([{"role": "user", "content": "x"}])
    assert ids[-1] == CONTROL["<think>"]
    assert ids[-2] == CONTROL["<|im_middle|>"]
