"""What comes from the environment, and the defaults of the two queues. Read once, then passed in."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from eagle3gen.errors import ConfigurationError
from eagle3gen.records import Queue

OPENROUTER_URL = "https://openrouter.ai/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDefaults:
    """Concurrency per worker process, tokens per answer, and seconds until a call is given up."""

    concurrency: int
    max_tokens: int
    deadline_seconds: float
    transport: str
    """How answers are sent: `plain`, `stream`, or `auto`: as a stream unless the endpoint refuses to."""
    no_progress_seconds: float = 300.0
    """The longest silence of a stream."""


QUEUE_DEFAULTS = {
    Queue.SHORT: QueueDefaults(concurrency=2000, max_tokens=10_240, deadline_seconds=900.0, transport="plain"),
    Queue.LONG: QueueDefaults(concurrency=500, max_tokens=16_384, deadline_seconds=1800.0, transport="auto"),
}


class Settings(BaseSettings):
    """The environment of a process. Secrets are `SecretStr`: they print as stars."""

    model_config = SettingsConfigDict(env_prefix="EAGLE3GEN_", extra="ignore", populate_by_name=True)

    def __init__(self, **values: Any) -> None:
        """Raises ConfigurationError for a variable that cannot be read."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            name = f"EAGLE3GEN_{first['loc'][0]}".upper()
            raise ConfigurationError(f"the environment variable {name} cannot be read: {first['msg']}") from None

    database_url: str | None = Field(None, validation_alias=AliasChoices("DATABASE_URL", "EAGLE3GEN_DATABASE_URL"))
    redis_url: str | None = Field(None, validation_alias=AliasChoices("REDIS_URL", "EAGLE3GEN_REDIS_URL"))
    api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("OPENROUTER_API_KEY", "EAGLE3GEN_API_KEY"))
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"] = "INFO"
    probe_tokenizers: bool = True
    """False only in tests of what catches a wrong tokenizer after the probe."""
    transport: Literal["plain", "stream", "auto"] | None = None
    """How this worker's answers are sent; None is the queue's own way."""
    maintenance_seconds: float = Field(2.0, gt=0)
    """How often each worker tries to dispatch, re-ring and sweep."""
    worker_timeout_seconds: float = Field(15.0, gt=0)
    """A worker without a heartbeat for this long is dead: its open attempts become held."""
    ring_again_seconds: float = Field(10.0, gt=0)
    """A prompt queued for longer than this while the broker holds fewer messages is rung again."""
