"""What a model may cost under the routing: the dearest of the prices that the endpoint lists."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.usage import read_money
from eagle3gen.records import Prices

COMPLETION = ("completion", "internal_reasoning")
"""Some models price reasoning apart; it is billed among the completion tokens."""


async def read_prices(endpoint: Endpoint, model: str) -> Prices | None:
    """The dearest listed prices of a model, or None where the endpoint lists none.

    Raises ServiceUnreachable. Source: OpenRouter's `GET /models/{author}/{slug}/endpoints`, prices in USD per token.
    """
    slug = model.partition(":")[0].removeprefix("~")
    status, data = await endpoint.get(f"/models/{slug}/endpoints")
    return dearest(data) if status == 200 else None


def dearest(listing: Any) -> Prices | None:
    """The dearest price of each kind over all hosts; None when a host's price is missing, since it may be any."""
    data = listing.get("data") if isinstance(listing, Mapping) else None
    hosts = data.get("endpoints") if isinstance(data, Mapping) else None
    if not isinstance(hosts, list) or not hosts:
        return None
    prompts, completions, requests = [], [], [Decimal(0)]
    for host in hosts:
        pricing = host.get("pricing") if isinstance(host, Mapping) else None
        prompt = list(_listed(pricing, ("prompt",)))
        completion = list(_listed(pricing, COMPLETION))
        if not prompt or not completion:
            return None
        prompts += prompt
        completions += completion
        requests += _listed(pricing, ("request",))
    return Prices(prompt_usd=max(prompts), completion_usd=max(completions), request_usd=max(requests))


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
