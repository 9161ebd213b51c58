"""Whose money it is: the credits of the account, and the limits of its keys.

Checked before a call and taken after it, as OpenRouter does: what is in flight is never cut, so that a balance can
become negative.
"""

import datetime as dt
import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from eagle3gen.simulator.host import MILLION, Host
from eagle3gen.simulator.options import Options
from eagle3gen.simulator.refusals import Refused

CREDITS_PAGE = "https://openrouter.ai/settings/credits"
KEYS_PAGE = "https://openrouter.ai/settings/keys"


@dataclass(slots=True)
class Key:
    """A key and what it has spent."""

    label: str
    days: dict[dt.date, Decimal] = field(default_factory=dict)
    """Charged, by day (UTC)."""
    byok: Decimal = Decimal(0)
    """What hosts took from the client itself."""
    window: int = 0
    in_window: Decimal = Decimal(0)

    @property
    def usage(self) -> Decimal:
        return sum(self.days.values(), Decimal(0))

    def since(self, day: dt.date) -> Decimal:
        return sum((amount for at, amount in self.days.items() if at >= day), Decimal(0))


@dataclass(slots=True)
class Account:
    """One account with its keys."""

    added: Decimal = Decimal(0)
    """Topped up while running."""
    used: Decimal = Decimal(0)
    keys: dict[str, Key] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def key(self, secret: str) -> Key:
        """The key that a secret is; the secret itself is not kept."""
        label = _label(secret)
        return self.keys.setdefault(label, Key(label))

    def credits(self, options: Options) -> Decimal | None:
        """All that was ever paid in; None: without end."""
        return None if options.credits is None else options.credits + self.added

    def limit_left(self, key: Key, options: Options) -> Decimal | None:
        """What a key may still spend; None: without end."""
        self._turn(key, options)
        return None if options.key_limit is None else options.key_limit - key.in_window

    def _turn(self, key: Key, options: Options) -> None:
        """Begin the limit of a key anew when it is time."""
        seconds = options.key_limit_reset_seconds
        window = int((self.clock() - self.started) / seconds) if seconds else 0
        if window != key.window:
            key.window, key.in_window = window, Decimal(0)

    def check(self, key: Key, options: Options, hosts: Sequence[Host], prompt_tokens: int, limit: int) -> None:
        """Raises Refused (402, 403) for a call that could cost more than there is."""
        left = self.limit_left(key, options)
        if left is not None and left <= 0:
            raise Refused(403, f"Key limit exceeded (total limit). Manage it using {KEYS_PAGE}")
        paid_in = self.credits(options)
        balance = None if paid_in is None else paid_in - self.used
        if balance is not None and balance <= 0:
            raise Refused(402, f"Insufficient credits. Add more using {CREDITS_PAGE}")
        if options.byok:
            return
        for amount, page, what in (
            (balance, CREDITS_PAGE, "upgrade to a paid account"),
            (left, KEYS_PAGE, "create a key with a higher total limit"),
        ):
            if amount is not None and (most := affordable(amount, hosts, prompt_tokens, limit)) < limit:
                message = (
                    f"This request requires more credits, or fewer max_tokens. You requested up to {limit} tokens, "
                    f"but can only afford {most}. To increase, visit {page} and {what}"
                )
                raise Refused(402, message, {"provider_name": None})

    def charge(self, key: Key, options: Options, charged: Decimal, byok: Decimal) -> None:
        """Take the cost of a call that has ended."""
        self._turn(key, options)
        self.used += charged
        today = dt.datetime.now(dt.UTC).date()
        key.days[today] = key.days.get(today, Decimal(0)) + charged
        key.in_window += charged
        key.byok += byok


def affordable(amount: Decimal, hosts: Sequence[Host], prompt_tokens: int, limit: int) -> int:
    """How many completion tokens an amount pays after the prompt, at the cheapest of the hosts; `limit` at most."""
    most = 0
    for host in hosts:
        left = (amount - host.price(prompt_tokens, 0).total) * MILLION
        if left >= host.completion_usd_per_million * limit:
            return limit
        if left > 0:
            most = max(most, int(left // host.completion_usd_per_million))
    return most


def _label(secret: str) -> str:
    """A name for a key that does not give it away, as OpenRouter shows it."""
    if not secret:
        return "anonymous"
    if len(secret) >= 40:
        return f"{secret[:12]}...{secret[-3:]}"
    return f"key-{hashlib.sha256(secret.encode()).hexdigest()[:8]}"
