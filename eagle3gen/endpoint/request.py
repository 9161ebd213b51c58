"""What is sent to the endpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from eagle3gen.records import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One chat completion. `max_tokens` is always sent: it bounds what the answer can cost."""

    model: str
    messages: Sequence[Json]
    max_tokens: int
    tools: Sequence[Json] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """Sampling parameters, sent as they are."""
    provider: Mapping[str, Any] = field(default_factory=dict)
    """OpenRouter's routing object; empty leaves the choice of the host to the endpoint."""

    def body(self, extra: Mapping[str, Any]) -> bytes:
        """The JSON body; `extra` holds what the endpoint itself wants to be told."""
        fields: dict[str, Any] = {**self.sampling, **extra, "model": self.model, "messages": list(self.messages)}
        if self.provider:
            fields["provider"] = dict(self.provider)
        if self.tools:
            fields["tools"] = list(self.tools)
        return orjson.dumps({**fields, "max_tokens": self.max_tokens})
