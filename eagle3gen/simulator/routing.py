"""Which hosts may answer a call, and which of them does.

As documented by OpenRouter: hard wishes leave hosts out; without `order` and `sort` a host is drawn by the inverse
square of its price, and the others are its fallbacks.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from eagle3gen.simulator.asked import Asked
from eagle3gen.simulator.host import Host
from eagle3gen.simulator.refusals import Refused
from eagle3gen.simulator.wishes import Wishes

MORE = "To learn more about provider routing, visit: https://openrouter.ai/docs/guides/routing/provider-selection"


def candidates(hosts: Sequence[Host], asked: Asked, prompt_tokens: int = 0) -> list[Host]:
    """The hosts that may answer. Raises Refused: 404 when a wish leaves none, 400 when all are too short."""
    wishes = asked.wishes
    left = _named(hosts, wishes)
    needs: list[tuple[str, Callable[[Host], bool]]] = [
        ("that support tool use", lambda host: not asked.tools or "tools" in host.parameters),
        ("that can handle the requested parameters", lambda host: _understands(host, asked)),
        (
            "matching the requested quantizations",
            lambda host: host.quantization in (wishes.quantizations or {host.quantization}),
        ),
        ("matching your max price", lambda host: _affordable(host, wishes)),
    ]
    for what, fits in needs:
        fitting = [host for host in left if fits(host)]
        if not fitting:
            raise Refused(404, f"No endpoints found {what}. {MORE}", _sets(hosts, (host.slug for host in left)))
        left = fitting
    wanted = prompt_tokens + (asked.limit if asked.limit_told else 1)
    if long := [host for host in left if host.context_length >= wanted]:
        return long
    raise _too_long(max(host.context_length for host in left), prompt_tokens, wanted)


def in_turn(hosts: Sequence[Host], wishes: Wishes, rng: random.Random) -> list[Host]:
    """The same hosts in the order in which they are asked: the first, and its fallbacks."""
    draw = rng.random()
    if wishes.order:
        return sorted(hosts, key=lambda host: (_place(host, wishes.order), _dearness(host)))
    if wishes.sort == "price":
        return sorted(hosts, key=_dearness)
    if wishes.sort is not None:
        return list(hosts)
    weights = [1 / float(_dearness(host) ** 2 or 1) for host in hosts]
    point, first = draw * sum(weights), hosts[-1]
    for host, weight in zip(hosts, weights, strict=True):
        point -= weight
        if point < 0:
            first = host
            break
    return [first, *sorted((host for host in hosts if host is not first), key=_dearness)]


def _too_long(longest: int, prompt_tokens: int, wanted: int) -> Refused:
    message = (
        f"This endpoint's maximum context length is {longest} tokens. However, you requested about {wanted} tokens "
        f"({prompt_tokens} of text input, {wanted - prompt_tokens} in the output). "
        "Please reduce the length of either one."
    )
    return Refused(400, message, {"error_type": "context_length_exceeded"})


def _named(hosts: Sequence[Host], wishes: Wishes) -> list[Host]:
    """The hosts that the names in a call leave."""
    only = wishes.only or (wishes.order if not wishes.allow_fallbacks else ())
    allowed = [host for host in hosts if not only or _is_among(host, only)]
    if wishes.order and not wishes.allow_fallbacks:
        allowed = [host for host in allowed if _is_among(host, wishes.order)]
    if not allowed:
        sets = _sets(hosts, only)
        raise Refused(404, "No allowed providers are available for the selected model.", sets)
    left = [host for host in allowed if not _is_among(host, wishes.ignore)]
    if not left:
        raise Refused(404, f"All providers have been ignored. {MORE}", _sets(hosts, wishes.ignore))
    return left


def _sets(hosts: Iterable[Host], requested: Iterable[str]) -> dict[str, list[str]]:
    available = list(dict.fromkeys(host.slug for host in hosts))
    return {"available_providers": available, "requested_providers": list(dict.fromkeys(requested))}


def _is_among(host: Host, names: Sequence[str]) -> bool:
    return _place(host, names) < len(names)


def _place(host: Host, names: Sequence[str]) -> int:
    """Where a host stands in a list of slugs; display names are still taken too."""
    called = {host.slug, host.tag, host.name.lower()}
    return next((place for place, name in enumerate(names) if name.lower() in called), len(names))


def _understands(host: Host, asked: Asked) -> bool:
    if asked.limit_told and asked.limit > host.max_completion_tokens:
        return False
    return not asked.wishes.require_parameters or asked.parameters <= set(host.parameters)


def _has_quantization(host: Host, wishes: Wishes) -> bool:
    return not wishes.quantizations or host.quantization in wishes.quantizations


def _affordable(host: Host, wishes: Wishes) -> bool:
    prompt, completion = wishes.prompt_usd_max, wishes.completion_usd_max
    return (prompt is None or host.prompt_usd_per_million <= prompt) and (
        completion is None or host.completion_usd_per_million <= completion
    )


def _dearness(host: Host) -> Decimal:
    return host.completion_usd_per_million
