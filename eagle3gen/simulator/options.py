"""What a simulator is told at its start."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A company that serves the model."""

    name: str
    tag: str
    quantization: str
    prompt_usd_per_million: Decimal
    completion_usd_per_million: Decimal

    def cost(self, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """USD of one call, exact."""
        prompt = self.prompt_usd_per_million * prompt_tokens / MILLION
        return prompt + self.completion_usd_per_million * completion_tokens / MILLION


HOSTS = (
    Host(
        name="Moonshot AI",
        tag="moonshotai/int4",
        quantization="int4",
        prompt_usd_per_million=Decimal("0.60"),
        completion_usd_per_million=Decimal("3.00"),
    ),
    Host(
        name="Inceptron",
        tag="inceptron/int4",
        quantization="int4",
        prompt_usd_per_million=Decimal("0.44"),
        completion_usd_per_million=Decimal("2.20"),
    ),
    Host(
        name="Chutes",
        tag="chutes/int4",
        quantization="int4",
        prompt_usd_per_million=Decimal("0.44"),
        completion_usd_per_million=Decimal("2.00"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The knobs. Same seed and same requests, same answers."""

    port: int = 0
    seed: int = 0
    latency_seconds: float = 2.0
    """Mean."""
    latency_spread: float = 0.3
    """Each call takes the mean, more or less by up to this share of it."""
    pulse_seconds: float = 2.0
    """Time between the blanks that are sent while a call is open."""
    mean_tokens: int = 600
    spread: float = 0.75
    """Sigma of the lognormal distribution of answer lengths."""
    tool_share: float = 0.6
    """Chance that an answer calls tools when tools were sent."""
    fail_share: float = 0.0
    """Share of calls that meet a passing error, unbilled."""
    tokenizer: Path
    truth: Path | None = None
    api_key: str | None = None
    """When set, another key is answered with 401."""
    models: tuple[str, ...] = ()
    """When set, another model is answered with 400."""
    hosts: tuple[Host, ...] = HOSTS
    generation_delay_seconds: float = 3.0
    """How long a generation's record answers 404 after the call."""
