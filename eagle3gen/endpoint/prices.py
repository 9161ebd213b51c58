"""What a model may cost under the routing: the dearest of the prices that the endpoint lists."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.routing import Routing
from eagle3gen.endpoint.usage import read_money
from eagle3gen.errors import ConfigurationError
from eagle3gen.records import Prices

MILLION = Decimal(1_000_000)
COMPLETION = ("completion", "internal_reasoning")
"""Some models price reasoning apart; it is billed among the completion tokens."""


async def read_prices(endpoint: Endpoint, model: str, routing: Routing) -> Prices | None:
    """The dearest listed prices of a model under the routing, or None where the endpoint lists none.

    Raises ServiceUnreachable, and ConfigurationError when no host matches the routing.
    Source: OpenRouter's `GET /models/{author}/{slug}/endpoints`, prices in USD per token.
    """
    status, data = await endpoint.get(listing_path(model))
    return dearest(data, routing) if status == 200 else None


def dearest(listing: Any, routing: Routing) -> Prices | None:
    """The dearest price of each kind over the hosts that the routing allows.

    None when such a host's price is missing, since it may be any. Raises ConfigurationError when no host matches.
    """
    hosts = listed_hosts(listing)
    if not hosts:
        return None
    allowed = [host for host in hosts if allows(routing, host)]
    if not allowed:
        named = ", ".join(f"{_text(h, 'tag')} ({_text(h, 'quantization')})" for h in hosts)
        raise ConfigurationError(f"no host of the model matches the routing; it is served by {named}")
    found = [_prices(host) for host in allowed]
    if any(prices is None for prices in found):
        return None
    known = [prices for prices in found if prices is not None]
    return Prices(
        prompt_usd=max(p.prompt_usd for p in known),
        completion_usd=max(p.completion_usd for p in known),
        request_usd=max(p.request_usd for p in known),
    )


def listing_path(model: str) -> str:
    """Where the hosts of a model are listed; variants such as `:nitro` share its list."""
    return f"/models/{model.partition(':')[0].removeprefix('~')}/endpoints"


def listed_hosts(listing: Any) -> list[Any]:
    """The hosts of a listing; empty for anything else."""
    data = listing.get("data") if isinstance(listing, Mapping) else None
    hosts = data.get("endpoints") if isinstance(data, Mapping) else None
    return hosts if isinstance(hosts, list) else []


def allows(routing: Routing, host: Any) -> bool:
    """Whether a listed host may be chosen. A base slug stands for all variants of a host."""
    tag, prices = _text(host, "tag"), _prices(host)
    pinned = routing.only or (routing.order if routing.allow_fallbacks is False else ())
    too_dear = prices is not None and any(
        limit is not None and price * MILLION > limit
        for price, limit in (
            (prices.prompt_usd, routing.max_price.get("prompt")),
            (prices.completion_usd, routing.max_price.get("completion")),
        )
    )
    return not (
        (pinned and not _names(pinned, tag))
        or _names(routing.ignore, tag)
        or (routing.quantizations and _text(host, "quantization") not in routing.quantizations)
        or too_dear
    )


def _names(slugs: Sequence[str], tag: str) -> bool:
    return tag in slugs or tag.partition("/")[0] in slugs


def _text(host: Any, name: str) -> str:
    value = host.get(name) if isinstance(host, Mapping) else None
    return value if isinstance(value, str) else "unknown"


def _prices(host: Any) -> Prices | None:
    pricing = host.get("pricing") if isinstance(host, Mapping) else None
    prompt, completion = list(_listed(pricing, ("prompt",))), list(_listed(pricing, COMPLETION))
    if not prompt or not completion:
        return None
    requests = [Decimal(0), *_listed(pricing, ("request",))]
    return Prices(prompt_usd=max(prompt), completion_usd=max(completion), request_usd=max(requests))


def _listed(pricing: Any, names: tuple[str, ...]) -> Iterator[Decimal]:
    """All prices of these names, also those of `overrides`, which hold for long prompts."""
    if isinstance(pricing, list):
        for part in pricing:
            yield from _listed(part, names)
    if isinstance(pricing, Mapping):
        for name in names:
            if (price := read_money(pricing.get(name))) is not None:
                yield price
        yield from _listed(pricing.get("overrides"), names)
