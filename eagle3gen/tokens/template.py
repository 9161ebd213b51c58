"""Rendering a prompt with the model's own chat template; transformers does it, without a tokenizer and remote code."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eagle3gen.errors import InputError
from eagle3gen.records import Json
from eagle3gen.tokens.typescript import sorted_deeply, tools_to_typescript

REASONING_FIELDS = ("reasoning", "reasoning_content")
"""The two names in use; the first that holds text counts, as in Kimi-K2.5's template."""


@dataclass(frozen=True, slots=True)
class Template:
    """A chat template's source."""

    source: str

    def render(self, messages: Sequence[Json], tools: Sequence[Json] = ()) -> str:
        """The prompt's text up to where the model begins. Raises InputError for messages it cannot render."""
        # Loaded at the first prompt: it takes a second that no command line should pay for.
        os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
        from jinja2 import TemplateError
        from transformers.utils.chat_template_utils import render_jinja_template

        more: dict[str, Any] = {}
        if tools and (declared := tools_to_typescript(tools)) is not None:
            more["tools_ts_str"] = declared
        try:
            rendered = render_jinja_template(
                conversations=[[_readable(message) for message in messages]],
                tools=sorted_deeply(tools) or None,
                chat_template=self.source,
                add_generation_prompt=True,
                **more,
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            raise InputError(f"the chat template cannot render this prompt: {error}") from error
        return str(rendered[0][0])


def _readable(message: Json) -> dict[str, Any]:
    """A message as every template of the family reads it: its thinking under both names in use, and text only.

    Raises InputError for pictures: the original's template renders a placeholder for them, whose ids would be wrong.
    """
    content = message.get("content")
    if isinstance(content, list | tuple):
        for part in content:
            if part.get("type") != "text":
                raise InputError(f"the chat template cannot render a part of type {part.get('type')!r}, only text")
    readable = {key: value for key, value in message.items() if key not in REASONING_FIELDS}
    reasoning = next((message[name] for name in REASONING_FIELDS if message.get(name)), None)
    return readable if reasoning is None else readable | dict.fromkeys(REASONING_FIELDS, reasoning)
