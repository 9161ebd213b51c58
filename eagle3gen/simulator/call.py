"""One call that a host was asked to answer."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from eagle3gen.simulator.account import Key
from eagle3gen.simulator.asked import Asked
from eagle3gen.simulator.faults import ERRORS, TRANSPORT
from eagle3gen.simulator.host import Host, Price
from eagle3gen.simulator.http import Request
from eagle3gen.simulator.voice import Answer

DATED = "-0127"
"""OpenRouter answers with the dated name of the model."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that was read: what it says, and which one it is."""

    request: Request
    key: Key
    id: str
    """The generation's."""
    begun: float
    """Seconds since 1970."""
    asked: Asked
    prompt_tokens: int
    digest: bytes
    """Of the body."""
    conversation: bytes
    """A digest of messages and tools."""
    times: int
    """How often this very body has come, with this time."""
    rng: random.Random
    dialect: str = "openrouter"
    prompt_ids: Sequence[int] | None = None
    """Only for a client that wants them."""


@dataclass(frozen=True, slots=True)
class Call:
    """An ask with its host and its answer."""

    ask: Ask
    host: Host
    faults: frozenset[str]
    answer: Answer
    cached_tokens: int
    charged_share: float | None = None
    """Under the client's own key at the host: the share of the price that is charged as a fee. None: all of it."""

    @property
    def end(self) -> str | None:
        """The fault that this call ends with in place of an answer."""
        return next((name for name in self.faults if name in TRANSPORT or name in ERRORS), None)

    @property
    def model(self) -> str:
        """The name of the model that the reply tells."""
        name = self.ask.asked.model
        return name if name.endswith(DATED) else name + DATED

    @property
    def price(self) -> Price:
        """The host's price of the whole answer."""
        return self.host.price(self.ask.prompt_tokens, self.answer.billed, self.cached_tokens)
