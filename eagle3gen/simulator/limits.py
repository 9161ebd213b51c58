"""How much is let in: the edge, the platform, the hosts and the pool that they share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from eagle3gen.simulator.errors import EDGE_LIMIT, TEXT, WRAPPED, Failure, reset_headers
from eagle3gen.simulator.host import Host
from eagle3gen.simulator.options import Options
from eagle3gen.simulator.rates import rate_of
from eagle3gen.simulator.refusals import error

BURST_SECONDS = 1.0
"""What a host's bucket holds, in time: a burst of so many seconds passes."""


@dataclass(slots=True)
class Bucket:
    """Tokens that come at a rate; `level` are left at the time `at`."""

    level: float
    at: float


@dataclass(slots=True)
class Limits:
    """What was let in so far."""

    clock: Callable[[], float] = time.monotonic
    turned: float = 0.0
    """When the knobs were turned last."""
    _windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The window in which a key called last, and how often."""
    _buckets: dict[str, Bucket] = field(default_factory=dict)
    _second: int = 0
    _in_second: int = 0
    _edge_until: float = 0.0

    def __post_init__(self) -> None:
        self.turned = self.clock()

    def at_edge(self, options: Options) -> Failure | None:
        """The edge's answer to a client that comes too fast, whatever it wants."""
        if not options.edge_burst:
            return None
        now = self.clock()
        if int(now) != self._second:
            self._second, self._in_second = int(now), 0
        self._in_second += 1
        if self._in_second > options.edge_burst:
            self._edge_until = now + options.edge_seconds
        if now < self._edge_until:
            return Failure(429, EDGE_LIMIT, {"Content-Type": TEXT})
        return None

    def for_key(self, options: Options, key: str) -> Failure | None:
        """The platform's answer to a key that has called too often, or while it is busy."""
        now = self.clock()
        since = now - self.turned - options.busy_after_seconds
        if 0 <= since < options.busy_seconds:
            left = max(1, round(options.busy_seconds - since))
            body = error(429, "Rate limit exceeded: too many requests at the moment")
            return Failure(429, body, {"Retry-After": str(left)})
        if not options.rate_limit:
            return None
        window = int(now / options.rate_window_seconds)
        last, count = self._windows.get(key, (window, 0))
        count = count + 1 if last == window else 1
        self._windows[key] = (window, count)
        if count <= options.rate_limit:
            return None
        left_seconds = (window + 1) * options.rate_window_seconds - now
        body = error(429, "Rate limit exceeded: requests-per-min")
        return Failure(429, body, reset_headers(options.rate_limit, left_seconds))

    def first_free(self, options: Options, hosts: Sequence[Host], *, fallbacks: bool) -> Host | Failure:
        """The first host whose bucket is not empty; without fallbacks only the first of all is asked."""
        for host in hosts if fallbacks else hosts[:1]:
            if self._takes(options, host):
                return host
        body = error(
            429, WRAPPED, provider_name=hosts[0].name, raw=f"{hosts[0].name} is temporarily rate-limited upstream"
        )
        return Failure(429, body, {"Retry-After": "1"})

    def _takes(self, options: Options, host: Host) -> bool:
        rate = rate_of(options.host_rate, host.name)
        if rate is None:
            return True
        now, per_second = self.clock(), rate / 60
        size = max(1.0, per_second * BURST_SECONDS)
        bucket = self._buckets.setdefault(host.name, Bucket(size, now))
        bucket.level = min(size, bucket.level + (now - bucket.at) * per_second)
        bucket.at = now
        if rate == 0 or bucket.level < 1:
            return False
        bucket.level -= 1
        return True

    def in_pool(self, options: Options, host: Host, open_now: int) -> Failure | None:
        """The answer of a pool of which `open_now` places are taken."""
        if not options.pool or open_now < options.pool:
            return None
        metadata = {
            "provider_name": host.name,
            "raw": "The shared pool is exhausted",
            "is_byok": False,
            "limit_source": "upstream_provider_shared_pool",
            "remedy_hint": "retry_later",
        }
        return Failure(429, error(429, WRAPPED, **metadata))
