"""What a model family emits, as data. Nothing here is looked up in text; ids are put where the structure says.

Source of the Kimi ids: the model's published tokenizer configuration and chat template.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSection:
    """The control strings around tool calls."""

    begin: str
    call_begin: str
    argument_begin: str
    call_end: str
    end: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One model family."""

    name: str
    model_types: frozenset[str]
    """`model_type` values of config.json that mean this family."""
    pattern: str
    """How text is split before BPE."""
    vocabulary_size: int
    base_vocabulary: int
    """Ids below are made of bytes; from here on they are control ids."""
    ranks_sha256: str
    """Of the published `tiktoken.model`."""
    control_ids: Mapping[str, int]
    reserved_name: str
    """How an unlisted control id is spelled; `{id}` is its number."""
    generation_prompt: str
    """What a rendered prompt must end with; it opens the thinking, so the model does not emit that tag."""
    think_open: str
    think_close: str
    end_of_turn: str
    tools: ToolSection
    tool_id: str
    """How the model spells a call's id."""

    def id(self, control: str) -> int:
        """The id of a control string."""
        return self.control_ids[control]

    @property
    def think_open_id(self) -> int:
        return self.id(self.think_open)

    @property
    def think_close_id(self) -> int:
        return self.id(self.think_close)

    @property
    def end_of_turn_ids(self) -> frozenset[int]:
        return frozenset({self.id(self.end_of_turn)})


_UPPERISH = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_LOWERISH = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
KIMI_PATTERN = "|".join(
    [
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPERISH}*{_LOWERISH}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPERISH}+{_LOWERISH}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
"""Moonshot's split pattern: a Han run stands alone, numbers go in threes."""

KIMI_K25 = Family(
    name="kimi-k2.5",
    model_types=frozenset({"kimi_k25", "kimi_k2", "kimi_k2_5"}),
    pattern=KIMI_PATTERN,
    vocabulary_size=163_840,
    base_vocabulary=163_584,
    ranks_sha256="b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103",
    control_ids={
        "[BOS]": 163_584,
        "[EOS]": 163_585,
        "<|im_end|>": 163_586,
        "<|im_user|>": 163_587,
        "<|im_assistant|>": 163_588,
        "<|start_header_id|>": 163_590,
        "<|end_header_id|>": 163_591,
        "[EOT]": 163_593,
        "<|im_system|>": 163_594,
        "<|tool_calls_section_begin|>": 163_595,
        "<|tool_calls_section_end|>": 163_596,
        "<|tool_call_begin|>": 163_597,
        "<|tool_call_argument_begin|>": 163_598,
        "<|tool_call_end|>": 163_599,
        "<|im_middle|>": 163_601,
        "<|media_begin|>": 163_602,
        "<|media_content|>": 163_603,
        "<|media_end|>": 163_604,
        "<|media_pad|>": 163_605,
        "<think>": 163_606,
        "</think>": 163_607,
        "[UNK]": 163_838,
        "[PAD]": 163_839,
    },
    reserved_name="<|reserved_token_{id}|>",
    generation_prompt="<|im_assistant|>assistant<|im_middle|><think>",
    think_open="<think>",
    think_close="</think>",
    end_of_turn="<|im_end|>",
    tools=ToolSection(
        begin="<|tool_calls_section_begin|>",
        call_begin="<|tool_call_begin|>",
        argument_begin="<|tool_call_argument_begin|>",
        call_end="<|tool_call_end|>",
        end="<|tool_calls_section_end|>",
    ),
    tool_id="functions.{name}:{index}",
)

FAMILIES = (KIMI_K25,)


def family_of(model_type: str) -> Family | None:
    """The family that a config.json names, if it is a known one."""
    return next((f for f in FAMILIES if model_type in f.model_types), None)
