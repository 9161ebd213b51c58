"""Rendering a prompt with the model's own chat template; transformers does it, without a tokenizer and remote code."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eagle3gen.errors import InputError
from eagle3gen.records import Json
from eagle3gen.tokens.typescript import tools_to_typescript


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
                conversations=[[dict(message) for message in messages]],
                tools=[dict(tool) for tool in tools] or None,
                chat_template=self.source,
                add_generation_prompt=True,
                **more,
            )
        except (TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise InputError(f"the chat template cannot render this prompt: {error}") from error
        return str(rendered[0][0])
