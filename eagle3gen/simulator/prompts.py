"""How many tokens a prompt has: rendered with the folder's template by plain jinja2."""

import json
from pathlib import Path
from typing import Any

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from eagle3gen.simulator.declare import declare, in_order
from eagle3gen.simulator.tokenizer import Vocabulary


class PromptCounter:
    """Counts as a server does: template, then one encoding of the whole text."""

    def __init__(self, folder: Path, vocabulary: Vocabulary) -> None:
        # As transformers sets it up, and with its filter: keys as they come, every script as it is.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        self._template = environment.from_string((folder / "chat_template.jinja").read_text("utf-8"))
        self._vocabulary = vocabulary

    def count(self, messages: list[Any], tools: list[Any]) -> int:
        """How many tokens a prompt has; raises as `ids` does."""
        return len(self.ids(messages, tools))

    def ids(self, messages: list[Any], tools: list[Any]) -> list[int]:
        """Prompt ids. Raises TemplateError or another ValueError for what cannot be rendered."""
        more: dict[str, Any] = {"tools": in_order(tools) if tools else None}
        if tools and (declared := declare(tools)) is not None:
            more["tools_ts_str"] = declared
        return self._vocabulary.prompt_ids(self._template.render(messages=messages, add_generation_prompt=True, **more))


def _to_json(value: Any, **how: Any) -> str:
    return json.dumps(value, **{"ensure_ascii": False, **how})


def _refuse(message: str) -> None:
    raise TemplateError(message)
