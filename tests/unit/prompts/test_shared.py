"""Public files that nobody here wrote, where they are at hand."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eagle3gen.prompts.identity import content_key
from eagle3gen.prompts.reading import read_prompts
from eagle3gen.prompts.routing import choose_queue
from eagle3gen.records import Conversation, Queue

# file: rows, different prompts, with tools, with a system message
EXPECTED = {
    "alpaca_en_demo.json": (999, 985, 0, 0),
    "glaive_toolcall_en_300.json": (300, 262, 191, 0),
    "mt_bench_80.jsonl": (80, 80, 0, 0),
    "reason_tool_use_50.jsonl": (50, 47, 48, 50),
    "sharegpt_dummy_500.json": (500, 52, 0, 0),
    "spec_bench_480.jsonl": (480, 480, 0, 0),
    "sweagent_default.traj": (1, 1, 0, 1),
    "sweagent_function_calling.traj": (1, 1, 0, 1),
}


def prompts(shared: Path, name: str) -> list[Conversation]:
    return list(read_prompts(shared / "data" / name, strict=True))


@pytest.mark.parametrize("name", EXPECTED)
def test_every_row_is_read(shared, name) -> None:
    """Every row is a prompt, and tools, system messages and duplicates are counted as they are."""
    found = prompts(shared, name)
    keys = {content_key(prompt) for prompt in found}
    tools = sum(bool(prompt.tools) for prompt in found)
    system = sum(prompt.messages[0]["role"] == "system" for prompt in found)
    assert (len(found), len(keys), tools, system) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_no_old_answer_is_sent(shared, name) -> None:
    """Only system and user messages are sent, the user's last."""
    found = prompts(shared, name)
    assert {message["role"] for prompt in found for message in prompt.messages} <= {"system", "user"}
    assert {prompt.messages[-1]["role"] for prompt in found} == {"user"}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_questions_are_short(shared, name) -> None:
    """Without the old answers, each of these is a short prompt."""
    assert Counter(map(choose_queue, prompts(shared, name))) == {Queue.SHORT: EXPECTED[name][0]}


def types(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("type"), str):
            yield value["type"]
        for inner in value.values():
            yield from types(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from types(inner)


@pytest.mark.parametrize("name", ["glaive_toolcall_en_300.json", "reason_tool_use_50.jsonl"])
def test_every_type_of_a_tool_is_json_schemas(shared, name) -> None:
    """No Python name of a type is left in any tool."""
    found = {spelled for prompt in prompts(shared, name) for tool in prompt.tools for spelled in types(tool)}
    assert found - {"function"} <= {"array", "boolean", "integer", "number", "object", "string"}
