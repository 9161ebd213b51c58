"""What the key has used and what is left of it, by the endpoint's own count."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.usage import read_money


@dataclass(frozen=True, slots=True)
class Account:
    """The state of a key, in USD."""

    usage: Decimal
    """Everything that the key was ever charged for, under BYOK with the upstream's bills."""
    left: Decimal | None
    """What can still be spent: the smaller of the key's own limit and the account's credits; None when unlimited."""


async def read_account(endpoint: Endpoint) -> Account | None:
    """How the key stands, or None where the endpoint does not say. Raises ServiceUnreachable.

    Source: OpenRouter's `GET /key` and `GET /credits`; the latter is refused to keys that do not manage the account,
    and then only the key's own limit is known.
    """
    status, key = await endpoint.get("/key")
    if status != 200:
        return None
    status, balance = await endpoint.get("/credits")
    return account_from(_data(key), _data(balance) if status == 200 else {})


def account_from(key: Mapping[str, Any], balance: Mapping[str, Any]) -> Account | None:
    """The account of both replies' `data`; None when not even the usage is told."""
    usage = read_money(key.get("usage"))
    if usage is None:
        return None
    left = [_signed(key.get("limit_remaining"))]
    bought, used = read_money(balance.get("total_credits")), read_money(balance.get("total_usage"))
    if bought is not None and used is not None:
        left.append(bought - used)
    known = [amount for amount in left if amount is not None]
    upstream = read_money(key.get("byok_usage")) or Decimal(0)
    if upstream and key.get("include_byok_in_limit") is not True:
        # The hosts send their bills elsewhere, so neither limit nor credits end a run.
        known = []
    return Account(usage + upstream, min(known, default=None))


def _signed(value: Any) -> Decimal | None:
    """An amount that may be below nothing: a limit can be overdrawn by what was in flight."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool) and value < 0:
        owed = read_money(-value)
        return None if owed is None else -owed
    return read_money(value)


def _data(reply: Any) -> Mapping[str, Any]:
    data = reply.get("data") if isinstance(reply, Mapping) else None
    return data if isinstance(data, Mapping) else {}
