"""What the makers of the models have published, written down a second time on purpose.

The structural check (structure.py) compares samples with these numbers and with nothing that made the samples: not
with `family.py`, not with the tokenizer folder. A slip in either shows as a difference. Change a number here only with
the maker's own files at hand. Sources: the published `tokenizer_config.json`, `generation_config.json` and chat
template of each model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """A control id that opens a section: what closes it, where it may stand, what parts it once."""

    closes: int
    inside: int | None = None
    """The opener of the section around it; None: outside of all."""
    parts: int | None = None
    """The control id that must stand in it exactly once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The ids of one model family and the order in which its answers use them."""

    vocabulary_size: int
    controls: range
    """Every control id lies here."""
    names: Mapping[int, str]
    """The named control ids and how they are spelled."""
    reserved_name: str = ""
    """How an unnamed id among the controls is spelled, `{id}` being its number; empty: there is none."""
    ends: frozenset[int]
    """One of these ends an answer, and none stands within."""
    opens_thinking: int | None = None
    closes_thinking: int | None = None
    thinks: bool = True
    """Whether every answer closes its thinking exactly once."""
    opened_by_prompt: bool = False
    """The prompt opens the thinking, so the answer never does."""
    nests: Mapping[int, Nest] = field(default_factory=dict)
    prompt_begins: frozenset[int] = frozenset()
    """A prompt's first id, if it must be one of some."""
    prompt_ends: tuple[int, ...] = ()
    """The control ids that a prompt's last ids must be, in their order; texts may stand between them."""
    ranks: int = 0
    ranks_sha256: str = ""
    """How many byte pairs the published `tiktoken.model` holds, and its hash."""

    def spelled(self, control: int) -> str:
        return self.names.get(control) or self.reserved_name.format(id=control)


KIMI_NAMES = {
    163584: "[BOS]",
    163585: "[EOS]",
    163586: "<|im_end|>",
    163587: "<|im_user|>",
    163588: "<|im_assistant|>",
    163590: "<|start_header_id|>",
    163591: "<|end_header_id|>",
    163593: "[EOT]",
    163594: "<|im_system|>",
    163595: "<|tool_calls_section_begin|>",
    163596: "<|tool_calls_section_end|>",
    163597: "<|tool_call_begin|>",
    163598: "<|tool_call_argument_begin|>",
    163599: "<|tool_call_end|>",
    163601: "<|im_middle|>",
    163602: "<|media_begin|>",
    163603: "<|media_content|>",
    163604: "<|media_end|>",
    163605: "<|media_pad|>",
    163606: "<think>",
    163607: "</think>",
    163838: "[UNK]",
    163839: "[PAD]",
}
KIMI_NESTS = {163595: Nest(closes=163596), 163597: Nest(closes=163599, inside=163595, parts=163598)}

PUBLISHED: Mapping[str, Published] = {
    "kimi-k2.5": Published(
        vocabulary_size=163840,
        controls=range(163584, 163840),
        names=KIMI_NAMES,
        reserved_name="<|reserved_token_{id}|>",
        ends=frozenset({163586}),
        opens_thinking=163606,
        closes_thinking=163607,
        opened_by_prompt=True,
        nests=KIMI_NESTS,
        prompt_begins=frozenset({163587, 163588, 163594}),
        prompt_ends=(163588, 163601, 163606),
        ranks=163584,
        ranks_sha256="b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103",
    ),
}
