"""Base URLs: checked, and balanced where there are several."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from eagle3gen.errors import ConfigurationError

REST_SECONDS = 30.0
"""How long a base URL to which no connection could be made is left alone."""


@dataclass(slots=True, eq=False)
class Address:
    """One base URL, and how it fares."""

    url: str
    name: str
    """Host and port, for messages and scores."""
    is_openrouter: bool
    calls: int = 0
    """Open now."""
    rests_until: float = 0.0
    """On the monotonic clock."""

    def rest(self) -> None:
        """No connection could be made."""
        self.rests_until = time.monotonic() + REST_SECONDS


def addresses(urls: str | Sequence[str]) -> tuple[Address, ...]:
    """One base URL, or several, also in one string with commas. Raises ConfigurationError."""
    given = urls.split(",") if isinstance(urls, str) else urls
    found = tuple(_address(url.strip().rstrip("/")) for url in given if url.strip() or len(given) == 1)
    if len({address.is_openrouter for address in found}) != 1:
        raise ConfigurationError(f"the endpoint {urls} mixes OpenRouter with other servers; check --endpoint-url")
    return found


def choose(among: Sequence[Address]) -> Address:
    """The one with the least open calls that does not rest; if all rest, the one that has rested longest."""
    now = time.monotonic()
    awake = [address for address in among if address.rests_until <= now]
    return min(awake, key=lambda a: a.calls) if awake else min(among, key=lambda a: a.rests_until)


def _address(url: str) -> Address:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"the endpoint {url} is no http or https address; check --endpoint-url")
    host = parts.hostname or ""
    name = f"{host}:{parts.port}" if parts.port else host
    return Address(url, name, host == "openrouter.ai" or host.endswith(".openrouter.ai"))
