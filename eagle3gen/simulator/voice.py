"""Answers made from known ids.

A library of text segments is encoded once. Segments are joined where a token cannot reach over the joint (after a line
break, before a line that is not blank), so an answer is a concatenation of texts and of ids at the same time.
"""

import json
import random
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from eagle3gen.simulator.arguments import fitting
from eagle3gen.simulator.segments import segments
from eagle3gen.simulator.tokenizer import Vocabulary

CORPUS = Path(__file__).parent.parent / "tokens" / "builtin" / "corpus.txt"
BREAKS = ("\n\n", "\n")
PROVED = 100
ENDING_SHARE = 0.1
"""How many texts end with a line break."""
REASONING_SHARE = (0.3, 0.8)
TOOL_CALLS_MAX = 3
BEGINS = {
    "</think>": "content",
    "<|tool_call_begin|>": "call",
    "<|tool_call_argument_begin|>": "arguments",
}
"""What ordinary ids are that follow a control id."""
QUOTES = (
    "The turn ends at <|im_end|>, and `</think>` closes the thinking.",
    'In Python: `stop = ["<|im_end|>", "<|tool_calls_section_begin|>"]`.',
    "A template writes <|im_user|>user<|im_middle|> before the text.",
    "</think> can be written as text, and so can <think>.",
    "<|tool_call_begin|>functions.example:0<|tool_call_argument_begin|>{}<|tool_call_end|> is how a call looks.",
)
"""What a model writes about control strings: ordinary ids, though the text looks otherwise."""
INVENTED = (
    {
        "function": {
            "name": "search",
            "parameters": {"properties": {"query": {"type": "string"}}, "required": ["query"]},
        }
    },
)
"""What a model calls that was sent no tools."""


Ids: TypeAlias = "array[int]"
"""Ids as four bytes each: thousands of open answers are held, and joining them is a copy."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text with its ids."""

    text: str
    ids: Ids


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call with the ids of its two texts."""

    id: Piece
    name: str
    arguments: Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What was emitted, and the same as a server shows it."""

    ids: Ids
    reasoning: str | None
    content: str | None
    calls: list[ToolCall]
    finish: str | None
    reasoning_tokens: int
    billed: int
    """How many tokens the host says it emitted."""
    null: bool = False
    """Whether a content that is not there is null where hosts mostly write an empty text."""
    hidden: tuple[str, str, str] | None = None
    """What stands in reasoning_details in place of the text: type, field, value."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of an answer before its limit is known."""

    reasoning: Piece
    content: Piece | None
    calls: list[ToolCall]
    closes: bool
    """Whether the model leaves its thinking by `</think>`."""


class Voice:
    """Makes answers for one vocabulary."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._control = vocabulary.controls
        self._lowest = min(self._control.values())
        self._begins = {self._control[control]: name for control, name in BEGINS.items()}
        library = [*re.split(r"\n\n(?=\S)", CORPUS.read_text("utf-8").strip()), *segments()]
        if any(control in text for text in library for control in self._control):
            raise RuntimeError("the library of segments spells a control string")
        self._first = [self._piece(" " + s) for s in library]
        self._middle = [[self._piece(s + b) for s in library] for b in BREAKS]
        self._first_broken = [[self._piece(" " + s + b) for s in library] for b in BREAKS]
        self._last = [self._piece(s) for s in library]
        self._quotes = [self._piece(f" {quote}{BREAKS[0]}") for quote in QUOTES]
        self._prove()

    def _piece(self, text: str) -> Piece:
        return Piece(text, _ids(self._vocabulary.encode(text)))

    def _prove(self) -> None:
        """Joined ids must be the ids of the joined text, or the truth would be none."""
        rng = random.Random(0)  # noqa: S311  not for secrets
        for _ in range(PROVED):
            piece = self.speak(rng, rng.randint(1, 600))
            if (
                self._vocabulary.encode(piece.text) != piece.ids.tolist()
                or self._vocabulary.text(piece.ids) != piece.text
            ):
                raise RuntimeError("the library of segments has an unsafe joint")

    def speak(self, rng: random.Random, tokens: int, *, quoting: bool = False) -> Piece:
        """A text of about so many tokens, beginning with a blank as Kimi does; perhaps one that quotes controls."""
        count, chance = len(self._last), rng.random
        if quoting:
            first = rng.choice(self._quotes)
        else:
            at = int(chance() * count)
            if tokens <= len(self._first[at].ids):
                return self._first[at]
            first = self._first_broken[int(chance() * len(BREAKS))][at]
        texts, ids = [first.text], first.ids[:]
        while True:
            at, broken = int(chance() * count), self._middle[int(chance() * len(BREAKS))]
            last = len(ids) + len(self._last[at].ids) >= tokens
            piece = self._last[at] if last and chance() >= ENDING_SHARE else broken[at]
            texts.append(piece.text)
            ids += piece.ids
            if last:
                return Piece("".join(texts), ids)

    def answer(
        self,
        rng: random.Random,
        tokens: int,
        limit: int,
        tools: Sequence[Any] = (),
        earlier_calls: int = 0,
        faults: frozenset[str] = frozenset(),
    ) -> Answer:
        """About `tokens` tokens, cut at `limit`; with tools it calls one to three of them."""
        draft = self._draft(rng, tokens, tools, earlier_calls, faults)
        ids = draft.reasoning.ids + (self._mark("</think>") if draft.closes else _ids())
        if draft.content:
            ids += draft.content.ids
        ids += self._section(draft.calls) + self._mark("<|im_end|>")
        thought = len(draft.reasoning.ids) + draft.closes
        if len(ids) > limit:
            return self._cut(ids[:limit], draft, thought)
        return Answer(
            ids=ids,
            reasoning=draft.reasoning.text,
            content=draft.content.text if draft.content else None,
            calls=draft.calls,
            finish="tool_calls" if draft.calls else "stop",
            reasoning_tokens=thought,
            billed=len(ids),
        )

    def _draft(
        self, rng: random.Random, tokens: int, tools: Sequence[Any], earlier_calls: int, faults: frozenset[str]
    ) -> Draft:
        share = rng.uniform(*REASONING_SHARE)
        quoting = "quoted_controls" in faults and rng.choice(["reasoning", "content"])
        if faults & {"all_in_reasoning", "null_content"}:
            return Draft(self.speak(rng, tokens, quoting=bool(quoting)), None, [], closes=False)
        reasoning = self.speak(rng, max(1, int(tokens * share)), quoting=quoting == "reasoning")
        rest = max(1, tokens - len(reasoning.ids))
        content: Piece | None = self.speak(rng, rest, quoting=quoting == "content")
        calls: list[ToolCall] = []
        closes = not faults & {"implicit_close", "leaked_in_reasoning"}
        if faults & {"leaked_markers", "leaked_in_reasoning"} and not tools:
            tools = INVENTED
        if tools:
            speaks = (rng.random() < 0.3 or quoting == "content") and closes and "empty_content" not in faults
            content = content if speaks else None
            calls = self._calls(rng, tools, earlier_calls)
        return Draft(reasoning, content, calls, closes)

    def _cut(self, ids: Ids, draft: Draft, thought: int) -> Answer:
        """What a server shows of an answer that met its limit: the text so far, and only whole calls."""
        inside = min(len(ids), len(draft.reasoning.ids))
        said: str | None = None
        whole: list[ToolCall] = []
        after = ids[thought:]
        if after and draft.content is not None:
            said = self._vocabulary.text(after[: len(draft.content.ids)])
        used = 1 + (len(draft.content.ids) if draft.content else 0)  # with the section's begin
        for call in draft.calls:
            used += len(self._call_ids(call))
            if len(after) >= used:
                whole.append(call)
        return Answer(
            ids=ids,
            reasoning=self._vocabulary.text(ids[:inside]),
            content=said,
            calls=whole,
            finish="length",
            reasoning_tokens=min(len(ids), thought),
            billed=len(ids),
        )

    def spelled(self, ids: Ids) -> str:
        """The text of ids, control strings spelled out and the end token left out."""
        return self._vocabulary.spelled(ids[:-1] if ids and ids[-1] == self._control["<|im_end|>"] else ids)

    def text(self, ids: Ids) -> str:
        """The text of ordinary ids."""
        return self._vocabulary.text(ids)

    def pieces(self, ids: Ids, size: int) -> list[tuple[str, int]]:
        """The same, `size` ids at a time."""
        return self._vocabulary.pieces(ids, size)

    def runs(self, ids: Ids) -> dict[str, list[tuple[int, Ids]]]:
        """The runs of ordinary ids by what they are, each with the place where it begins."""
        runs: dict[str, list[tuple[int, Ids]]] = {name: [] for name in ("reasoning", *self._begins.values())}
        name, start = "reasoning", 0
        for at, number in enumerate(ids):
            if number >= self._lowest:
                if name:
                    runs[name].append((start, ids[start:at]))
                name, start = self._begins.get(number, ""), at + 1
        if name:
            runs[name].append((start, ids[start:]))
        return runs

    def after_thinking(self, ids: Ids) -> Ids:
        """The ids behind `</think>`."""
        close = self._control["</think>"]
        return ids[ids.index(close) + 1 :] if close in ids else _ids()

    def _section(self, calls: Sequence[ToolCall]) -> Ids:
        if not calls:
            return _ids()
        section = self._mark("<|tool_calls_section_begin|>")
        for call in calls:
            section += self._call_ids(call)
        return section + self._mark("<|tool_calls_section_end|>")

    def _call_ids(self, call: ToolCall) -> Ids:
        named = self._mark("<|tool_call_begin|>") + call.id.ids
        filled = self._mark("<|tool_call_argument_begin|>") + call.arguments.ids
        return named + filled + self._mark("<|tool_call_end|>")

    def _mark(self, control: str) -> Ids:
        return _ids([self._control[control]])

    def _calls(self, rng: random.Random, tools: Sequence[Any], earlier: int) -> list[ToolCall]:
        made = []
        for index in range(earlier, earlier + rng.randint(1, TOOL_CALLS_MAX)):
            function = rng.choice(tools)["function"]
            parameters = function.get("parameters") or {}
            arguments = {
                name: fitting(rng, schema)
                for name, schema in (parameters.get("properties") or {}).items()
                if name in (parameters.get("required") or ()) or rng.random() < 0.5
            }
            separators = rng.choice([(",", ":"), (", ", ": ")])
            spelled = json.dumps(arguments, ensure_ascii=False, separators=separators)
            name = function["name"]
            made.append(ToolCall(self._piece(f"functions.{name}:{index}"), name, self._piece(spelled)))
        return made


def _ids(ids: Sequence[int] = ()) -> Ids:
    return array("I", ids)
