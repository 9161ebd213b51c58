"""The bundled prompts show what real ones look like."""

import re

import pytest

from eagle3gen.prompts.demo import demo_prompts
from eagle3gen.prompts.identity import content_key
from eagle3gen.prompts.reading import read_prompts
from eagle3gen.prompts.routing import choose_queue
from eagle3gen.records import Conversation, Queue


@pytest.fixture(scope="module")
def prompts() -> list[Conversation]:
    return list(read_prompts(demo_prompts(), strict=True))


def test_there_are_at_least_two_hundred_different_ones(prompts) -> None:
    """No prompt is there twice."""
    assert len({content_key(prompt) for prompt in prompts}) == len(prompts) >= 200


def test_the_file_is_small() -> None:
    """The wheel carries less than half a megabyte of prompts."""
    assert demo_prompts().stat().st_size < 500_000


def test_some_are_long(prompts) -> None:
    """Both queues get work."""
    assert sum(choose_queue(prompt) is Queue.LONG for prompt in prompts) >= 8


def test_many_have_tools(prompts) -> None:
    """A fifth or so brings tools, several of them in one prompt too."""
    assert sum(bool(prompt.tools) for prompt in prompts) >= 35
    assert any(len(prompt.tools) > 2 for prompt in prompts)


@pytest.mark.parametrize("keyword", ["enum", "items", "default", "minimum", "maximum", "anyOf", "required"])
def test_the_tools_use_the_schema_widely(prompts, keyword) -> None:
    """Nested objects, lists, choices, limits and defaults all stand in some tool."""
    assert any(f"'{keyword}'" in str(prompt.tools) for prompt in prompts)


@pytest.mark.parametrize(
    "script",
    [
        r"[\u4e00-\u9fff]",
        r"[\u3040-\u30ff]",
        r"[\uac00-\ud7a3]",
        r"[\u0600-\u06ff]",
        r"[\u0900-\u097f]",
        r"[\u0400-\u04ff]",
        r"[\U0001f300-\U0001faff]",
        r"\u200d",
        r"```python\n",
        r"\\int|\\sum",
    ],
    ids=["han", "kana", "hangul", "arabic", "devanagari", "cyrillic", "emoji", "joiner", "code", "maths"],
)
def test_many_scripts_are_there(prompts, script) -> None:
    """Every script that a tokenizer may stumble over is asked in."""
    assert any(re.search(script, message["content"]) for prompt in prompts for message in prompt.messages)


def test_some_have_a_system_message(prompts) -> None:
    """System messages are there."""
    assert sum(prompt.messages[0]["role"] == "system" for prompt in prompts) >= 10


def test_some_are_written_in_parts() -> None:
    """Content as a list of parts is there."""
    assert demo_prompts().read_text("utf-8").count('"content": [{"type": "text"') >= 10
