"""What is known of a call that has ended, and the records that can be looked up."""

import datetime as dt
import time
from collections import deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from eagle3gen.simulator.refusals import Refused

RECORDS_KEPT = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One call that was charged."""

    id: str
    key: str
    host: str
    model: str
    conversation: bytes
    """A digest of what was asked, whatever the sampling."""
    begun: float
    """Seconds since 1970, as is the next."""
    ended: float
    streamed: bool
    cancelled: bool
    """Whether the client had gone."""
    finish: str | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    """Billed."""
    emitted_tokens: int
    """Of which ids exist; a host may count wrongly."""
    reasoning_tokens: int
    cost_usd: Decimal
    """Charged to the account."""
    upstream_usd: Decimal
    """The host's price."""
    discount_usd: Decimal
    is_byok: bool
    hidden: bool
    """Whether its record never appears."""
    shy: bool
    """Whether the first look at its record is answered 429."""

    @property
    def byok_usd(self) -> Decimal:
        """What the host took from the client itself."""
        return self.upstream_usd if self.is_byok else Decimal(0)


@dataclass(slots=True)
class Records:
    """The latest generations, by their id."""

    _by_id: dict[str, Generation] = field(default_factory=dict)
    _order: deque[str] = field(default_factory=deque)
    _looked_at: set[str] = field(default_factory=set)

    def add(self, generation: Generation) -> None:
        self._by_id[generation.id] = generation
        self._order.append(generation.id)
        if len(self._order) > RECORDS_KEPT:
            self._by_id.pop(self._order.popleft(), None)

    def find(self, generation_id: str, delay_seconds: float) -> Generation:
        """A generation whose record has appeared: `delay_seconds` after its end, or never. Raises Refused."""
        found = self._by_id.get(generation_id)
        if found is None or found.hidden or time.time() - found.ended < delay_seconds:
            raise Refused(404, f"Generation {generation_id} not found")
        if found.shy and generation_id not in self._looked_at:
            self._looked_at.add(generation_id)
            raise Refused(429, "Rate limit exceeded", headers={"Retry-After": "1"})
        return found


def as_record(generation: Generation) -> dict[str, Any]:
    """The `data` of GET /generation."""
    took = round(1000 * (generation.ended - generation.begun))
    return {
        "id": generation.id,
        "request_id": generation.id.replace("gen-", "req-", 1),
        "upstream_id": None,
        "created_at": dt.datetime.fromtimestamp(generation.begun, dt.UTC).isoformat(),
        "model": generation.model,
        "provider_name": generation.host,
        "provider_responses": [{"provider_name": generation.host, "status": 200, "latency": took}],
        "api_type": "completions",
        "streamed": generation.streamed,
        "cancelled": generation.cancelled,
        "finish_reason": generation.finish,
        "native_finish_reason": generation.finish,
        # These once counted with another tokenizer; they differ only for other models.
        "tokens_prompt": generation.prompt_tokens,
        "tokens_completion": generation.completion_tokens,
        "native_tokens_prompt": generation.prompt_tokens,
        "native_tokens_completion": generation.completion_tokens,
        "native_tokens_reasoning": generation.reasoning_tokens,
        "native_tokens_cached": generation.cached_tokens,
        "total_cost": generation.cost_usd,
        "usage": generation.cost_usd,
        "upstream_inference_cost": generation.upstream_usd,
        "cache_discount": generation.discount_usd if generation.cached_tokens else None,
        "is_byok": generation.is_byok,
        "latency": took,
        "generation_time": took,
        "moderation_latency": None,
        "service_tier": None,
        "session_id": None,
    }
