"""The companies that serve the model, and what they take for it."""

from dataclasses import dataclass
from decimal import Decimal

MILLION = Decimal(1_000_000)
PARAMETERS = (
    "max_tokens", "temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "seed", "stop", "tools", "tool_choice", "reasoning", "include_reasoning",
    "response_format", "structured_outputs",
)  # fmt: skip
"""What a host understands unless it is said otherwise."""


@dataclass(frozen=True, slots=True)
class Price:
    """What one call costs, in USD, exact."""

    prompt: Decimal
    completion: Decimal
    discount: Decimal = Decimal(0)
    """How much less the prompt costs because some of it was in the host's cache."""

    @property
    def total(self) -> Decimal:
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A company that serves the model."""

    name: str
    tag: str
    """How routing calls it: `host/variant`. Its part before the slash stands for all variants of a host."""
    quantization: str
    prompt_usd_per_million: Decimal
    completion_usd_per_million: Decimal
    cached_usd_per_million: Decimal | None = None
    """Of prompt tokens that are in the cache; None: they cost the same."""
    context_length: int = 262_144
    max_completion_tokens: int = 262_144
    parameters: tuple[str, ...] = PARAMETERS
    cancels: bool = True
    """Whether it stops, and bills, when the client of a stream goes."""

    @property
    def slug(self) -> str:
        return self.tag.split("/")[0]

    def price(self, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> Price:
        """Of one call; `cached_tokens` are some of its prompt tokens."""
        full, cached = self.prompt_usd_per_million, self.cached_usd_per_million
        discount = Decimal(0) if cached is None else (full - cached) * cached_tokens / MILLION
        return Price(
            prompt=full * prompt_tokens / MILLION - discount,
            completion=self.completion_usd_per_million * completion_tokens / MILLION,
            discount=discount,
        )


def _host(name: str, tag: str, prompt: str, completion: str, cached: str | None, longest: int) -> Host:
    return Host(
        name=name,
        tag=tag,
        quantization=tag.split("/")[1],
        prompt_usd_per_million=Decimal(prompt),
        completion_usd_per_million=Decimal(completion),
        cached_usd_per_million=None if cached is None else Decimal(cached),
        max_completion_tokens=longest,
    )


HOSTS = (
    _host("Moonshot AI", "moonshotai/int4", "0.60", "3.00", "0.10", 262_144),
    _host("Inceptron", "inceptron/int4", "0.44", "2.20", None, 65_536),
    _host("Chutes", "chutes/int4", "0.44", "2.00", "0.22", 65_535),
)
