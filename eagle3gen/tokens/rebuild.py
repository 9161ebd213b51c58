"""The ids a model emitted, rebuilt from the text of its answer: ordinary text, and control ids by structure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3gen.records import Completion, Json, ToolCall
from eagle3gen.tokens.encoding import KimiEncoding

CUT = "length"
"""The finish reason of an answer that met its limit: no end token was emitted."""


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Output ids, and the reading of the text that they follow."""

    ids: list[int]
    hypothesis: str = "base"


def rebuild(encoding: KimiEncoding, completion: Completion, messages: Sequence[Json]) -> Rebuilt:
    """Reasoning, `</think>`, content, tool section, end token; what a cut answer did not reach is left out.

    The opening `<think>` stands in the prompt. Every run of text between control ids is encoded in one go.
    A cut answer is rebuilt as far as it certainly came. Raises UnicodeEncodeError for text that no model can have
    emitted, and TooManyBlanks.
    """
    family = encoding.family
    cut = completion.finish_reason == CUT
    ids = encoding.encode_text(completion.reasoning or "")
    if completion.content or completion.tool_calls or not cut:
        ids.append(family.think_close_id)
    ids += encoding.encode_text(completion.content or "")
    hypothesis = "base"
    if completion.tool_calls:
        earlier = sum(len(message.get("tool_calls") or ()) for message in messages)
        section, restored = _tool_section(encoding, completion.tool_calls, earlier)
        # Whether a cut answer still closed its last call and the section, nothing shows.
        ids += section[:-2] if cut else section
        hypothesis = "tool ids restored" if restored else hypothesis
    if not cut:
        ids.append(family.id(family.end_of_turn))
    return Rebuilt(ids, hypothesis)


def _tool_section(encoding: KimiEncoding, calls: Sequence[ToolCall], earlier: int) -> tuple[list[int], bool]:
    """The section's ids, and whether a call's id had to be put back into the model's own spelling.

    Some hosts return ids of their own. The model counts calls over the whole conversation.
    """
    family, tools = encoding.family, encoding.family.tools
    restored = False
    ids = [family.id(tools.begin)]
    for index, call in enumerate(calls, earlier):
        spelled = call.id
        if not _is_own_spelling(family.tool_id, call):
            spelled, restored = family.tool_id.format(name=call.name, index=index), True
        ids.append(family.id(tools.call_begin))
        ids += encoding.encode_text(spelled)
        ids.append(family.id(tools.argument_begin))
        ids += encoding.encode_text(call.arguments)
        ids.append(family.id(tools.call_end))
    ids.append(family.id(tools.end))
    return ids, restored


def _is_own_spelling(form: str, call: ToolCall) -> bool:
    numbers = re.findall(r"[0-9]+", call.id)
    return bool(numbers) and call.id == form.format(name=call.name, index=numbers[-1])
