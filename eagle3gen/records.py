"""The records that pass from room to room: the words of the glossary (ARCHITECTURE.md) as frozen types.

A *prompt* goes in as a `Conversation`, the endpoint answers with a `Completion`, and the tokens room makes
of it a `Sample` with its `Verdict`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]


def usd(amount: Decimal) -> str:
    """An amount as every JSON shows it: all its digits, no exponent, no idle zeros."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


class Queue(StrEnum):
    """The two worker pools; each has its own concurrency, max_tokens and deadline."""

    SHORT = "short"
    LONG = "long"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One prompt in OpenAI chat form: what is sent to the endpoint, unchanged."""

    messages: Sequence[Json]
    tools: Sequence[Json] = ()
    source: str = ""
    """Where it was read: `file:line`, for messages to the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call the model made; `arguments` is the text it wrote, never re-serialised."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The bill of one call. `None` means the endpoint did not say, which is never the same as 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: Decimal | None = None
    """What the call cost the user in USD: `usage.cost`, plus the upstream cost under BYOK."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The dearest that a call may cost under the routing: USD per token, and per request."""

    prompt_usd: Decimal
    completion_usd: Decimal
    request_usd: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The parsed answer of an endpoint. Text fields are exactly as received, never stripped."""

    generation_id: str | None
    model: str | None
    host: str | None
    finish_reason: str | None
    native_finish_reason: str | None = None
    stop_reason: str | None = None
    """vLLM and SGLang: the stop string or token id that ended the answer; None when it was the model's own end."""
    reasoning: str | None = None
    hidden_reasoning: bool = False
    """Whether reasoning was encrypted, summarised or not shown whole: then its tokens cannot be rebuilt."""
    content: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    prompt_token_ids: tuple[int, ...] | None = None
    """What the server read, where it says so (vLLM, SGLang)."""
    output_token_ids: tuple[int, ...] | None = None
    """What the model emitted, where the server says so."""
    output_token_bytes: tuple[bytes, ...] | None = None
    """The bytes of each emitted token, where logprobs tell them; a piece of a character may come as U+FFFD."""


class Verdict(StrEnum):
    """How far the rebuilt ids are proved."""

    EXACT_IDS = "exact/ids"
    EXACT_LOGPROBS = "exact/logprobs"
    EXACT_COUNT = "exact/count"
    REPAIRED = "repaired"
    AMBIGUOUS = "ambiguous"
    OFF_BY_K = "off_by_k"
    MISMATCH = "mismatch"
    LOSSY_TEXT = "lossy_text"
    TRUNCATED = "truncated"
    UNDERIVED = "underived"

    @property
    def trainable(self) -> bool:
        """Whether an export takes such a sample unless told otherwise."""
        return self in _TRAINABLE


_TRAINABLE = frozenset({Verdict.EXACT_IDS, Verdict.EXACT_LOGPROBS, Verdict.EXACT_COUNT, Verdict.REPAIRED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A completion as token ids, with what is known about their truth."""

    prompt_ids: Sequence[int]
    output_ids: Sequence[int]
    verdict: Verdict
    difference: int | None = None
    """Billed completion tokens minus rebuilt ones, in tokens; None when the bill is missing."""
    prompt_difference: int | None = None
    """Billed prompt tokens minus `len(prompt_ids)`."""
    hypothesis: str = "base"
    """Which reading of the text the ids follow."""
    reason: str = ""
    """One sentence on why the verdict is not exact; empty when it is."""
    tokenizer_sha256: str = ""
