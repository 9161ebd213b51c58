"""The simulator's own bill: what it charged, whether or not somebody was still listening."""

from collections import Counter
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

from eagle3gen.simulator.generation import Generation
from eagle3gen.simulator.numbers import plain

ZERO = Decimal(0)


@dataclass(slots=True)
class Tally:
    """Calls and money: of all, of one key, or of one host."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """Billed, as is the money."""
    emitted_tokens: int = 0
    cost_usd: Decimal = ZERO
    byok_usd: Decimal = ZERO
    """What hosts took from the client itself, beside `cost_usd`."""
    open: int = 0
    open_max: int = 0
    errors: int = 0
    disconnected: int = 0
    """Calls whose client had gone when the answer was ready."""
    disconnected_tokens: int = 0
    disconnected_usd: Decimal = ZERO

    def begin(self) -> None:
        self.open += 1
        self.open_max = max(self.open_max, self.open)

    def fail(self) -> None:
        self.open -= 1
        self.errors += 1

    def charge(self, generation: Generation) -> None:
        self.open -= 1
        self.calls += 1
        self.prompt_tokens += generation.prompt_tokens
        self.completion_tokens += generation.completion_tokens
        self.emitted_tokens += generation.emitted_tokens
        self.cost_usd += generation.cost_usd
        self.byok_usd += generation.byok_usd
        if generation.cancelled:
            self.disconnected += 1
            self.disconnected_tokens += generation.completion_tokens
            self.disconnected_usd += generation.cost_usd

    def as_json(self) -> dict[str, Any]:
        """Money as text."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: plain(value) if isinstance(value, Decimal) else value for name, value in values.items()}


@dataclass(slots=True)
class Bill:
    """Everything that was asked and charged."""

    total: Tally = field(default_factory=Tally)
    by_key: dict[str, Tally] = field(default_factory=dict)
    by_host: dict[str, Tally] = field(default_factory=dict)
    doubled: int = 0
    """Answers to a conversation that had been answered before."""
    edge: int = 0
    """Requests that the edge turned away."""
    _answered: Counter[bytes] = field(default_factory=Counter)

    def begin(self, key: str) -> None:
        """A call has come in with a key."""
        self.total.begin()
        self.by_key.setdefault(key, Tally()).begin()

    def send(self, host: str) -> None:
        """A call has been given to a host."""
        self.by_host.setdefault(host, Tally()).begin()

    def charge(self, generation: Generation) -> None:
        """A call has been answered."""
        for tally in (self.total, self.by_key[generation.key], self.by_host[generation.host]):
            tally.charge(generation)
        self.doubled += generation.conversation in self._answered
        self._answered[generation.conversation] += 1

    def fail(self, key: str, host: str | None = None) -> None:
        """A call has ended in an unbilled error."""
        self.total.fail()
        self.by_key[key].fail()
        if host is not None:
            self.by_host[host].fail()

    def as_json(self) -> dict[str, Any]:
        return {
            **self.total.as_json(),
            "doubled": self.doubled,
            "edge": self.edge,
            "by_key": {name: tally.as_json() for name, tally in self.by_key.items()},
            "by_host": {name: tally.as_json() for name, tally in self.by_host.items()},
        }
