"""The `provider` object of a call: which hosts its client wants."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from eagle3gen.simulator.knobs import BadKnob, read_usd
from eagle3gen.simulator.refusals import BadRequest

QUANTIZATIONS = frozenset(
    {"int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6", "fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown"}
)
SORTS = frozenset({"price", "throughput", "latency"})
WITHOUT_EFFECT = frozenset(
    {"data_collection", "zdr", "enforce_distillable_text", "preferred_min_throughput", "preferred_max_latency"}
)
"""Known to OpenRouter; here every host keeps to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Wishes about the host. Names are slugs: `host` for all its variants, or `host/variant`."""

    order: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    quantizations: tuple[str, ...] = ()
    allow_fallbacks: bool = True
    require_parameters: bool = False
    sort: str | None = None
    prompt_usd_max: Decimal | None = None
    """Per million tokens, as is the next."""
    completion_usd_max: Decimal | None = None


ANY_HOST = Wishes()


def read_wishes(value: Any) -> Wishes:
    """Read a `provider` object. Raises BadRequest for a key that OpenRouter does not know, as it does itself."""
    if value is None:
        return ANY_HOST
    if not isinstance(value, dict):
        raise BadRequest("provider must be an object")
    known = {"order", "only", "ignore", "quantizations", "allow_fallbacks", "require_parameters", "sort", "max_price"}
    if unknown := sorted(value.keys() - known - WITHOUT_EFFECT):
        raise BadRequest(f"provider: Unrecognized key(s) in object: {', '.join(map(repr, unknown))}")
    quantizations = _names(value, "quantizations")
    if set(quantizations) - QUANTIZATIONS:
        raise BadRequest(f"provider.quantizations: Invalid option: expected one of {sorted(QUANTIZATIONS)}")
    return Wishes(
        order=_names(value, "order"),
        only=_names(value, "only"),
        ignore=_names(value, "ignore"),
        quantizations=quantizations,
        allow_fallbacks=_flag(value, "allow_fallbacks", default=True),
        require_parameters=_flag(value, "require_parameters", default=False),
        sort=_sort(value.get("sort")),
        prompt_usd_max=_most(value, "prompt"),
        completion_usd_max=_most(value, "completion"),
    )


def _names(value: dict[str, Any], field: str) -> tuple[str, ...]:
    names = value.get(field)
    if names is None:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadRequest(f"provider.{field} must be a list of names")
    return tuple(names)


def _flag(value: dict[str, Any], field: str, *, default: bool) -> bool:
    told = value.get(field)
    if told is None:
        return default
    if not isinstance(told, bool):
        raise BadRequest(f"provider.{field} must be true or false")
    return told


def _sort(value: Any) -> str | None:
    by = value.get("by") if isinstance(value, dict) else value
    if by is not None and (not isinstance(by, str) or by not in SORTS):
        raise BadRequest(f"provider.sort: Invalid option: expected one of {sorted(SORTS)}")
    return by


def _most(value: dict[str, Any], part: str) -> Decimal | None:
    prices = value.get("max_price")
    if prices is None:
        return None
    if not isinstance(prices, dict):
        raise BadRequest("provider.max_price must be an object")
    told = prices.get(part)
    try:
        return None if told is None else read_usd(told)
    except BadKnob as error:
        raise BadRequest(f"provider.max_price.{part} must be a price in USD per million tokens") from error
