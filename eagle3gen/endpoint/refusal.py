"""Whatever came back that is no answer: what kind it is, what to do about it, and whether it may have been billed."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from eagle3gen.records import Usage

OutcomeWord = Literal[
    "success",
    "truncated",
    "defective",
    "transient",
    "rate_limited",
    "permanent_prompt",
    "permanent_config",
    "fatal_key",
    "budget",
]
"""How one call ended, in one word."""


LIMITS = frozenset({"rate_limited", "host_limited", "edge_limited", "overloaded"})
"""Kinds that ask for less load: of the endpoint itself, of one host, of the network in between, and of a busy host."""


class Decision(StrEnum):
    """What becomes of the prompt."""

    RETRY = "retry"
    FAIL_PROMPT = "fail_prompt"
    PAUSE_DATASET = "pause_dataset"
    PAUSE_KEY = "pause_key"


class Billed(StrEnum):
    """Whether the call costs money."""

    NO = "no"
    YES = "yes"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """No usable answer."""

    kind: str
    """A stable word: `rate_limited`, `deadline`, `moderation`, …"""
    decision: Decision
    billed: Billed
    message: str
    """One sentence for the operator."""
    blames_prompt: bool = True
    """False for an outage or a limit: it would have met any prompt, so it does not count against this one."""
    defective: bool = False
    """Whether the model did answer, in a way that cannot be used."""
    retry_after_seconds: float | None = None
    usage: Usage = field(default_factory=Usage)
    generation_id: str | None = None
    host: str | None = None

    @property
    def pauses_key(self) -> bool:
        return self.decision is Decision.PAUSE_KEY

    @property
    def pauses_dataset(self) -> bool:
        return self.decision is Decision.PAUSE_DATASET

    @property
    def is_limit(self) -> bool:
        """Whether fewer calls at a time would have helped."""
        return self.kind in LIMITS

    @property
    def outcome(self) -> OutcomeWord:
        match self.decision:
            case Decision.PAUSE_KEY:
                return "budget" if self.kind == "out_of_credit" else "fatal_key"
            case Decision.PAUSE_DATASET:
                return "permanent_config"
            case Decision.FAIL_PROMPT:
                return "permanent_prompt"
            case Decision.RETRY if self.defective:
                return "defective"
            case Decision.RETRY:
                return "rate_limited" if self.kind == "rate_limited" else "transient"


def billed_by(usage: Usage, unknown: Billed) -> Billed:
    """What the bill itself says; `unknown` when it says nothing.

    No tokens and no cost is OpenRouter's zero-completion insurance: nothing is charged.
    """
    if usage.cost_usd or usage.completion_tokens:
        return Billed.YES
    return unknown if usage.completion_tokens is None and usage.cost_usd is None else Billed.NO
