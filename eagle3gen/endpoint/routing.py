"""Which hosts may serve a dataset: the `provider` object of OpenRouter's requests, checked before it is sent.

https://openrouter.ai/docs/features/provider-routing: unknown keys are refused there, with an error for every prompt.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal, InvalidOperation
from typing import Any, Self

from eagle3gen.errors import InputError

QUANTIZATIONS = (
    *("int4", "int8", "fp4", "mxfp4", "nvfp4", "fp6"),
    *("fp8", "mxfp8", "fp16", "bf16", "fp32", "unknown"),
)
SORTS = ("price", "throughput", "latency")
PARTITIONS = ("model", "none")
DATA_COLLECTION = ("allow", "deny")
PRICES = ("prompt", "completion", "request", "image", "audio")
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9._-]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """What a dataset asks of its hosts; what is not set is not sent. Raises InputError for what cannot be asked.

    True pinning is `only` (or `order`) with `allow_fallbacks=False`: `order` alone still falls back to other hosts.
    """

    order: Sequence[str] = ()
    """Slugs in order of preference: `moonshotai` is every variant of a host, `moonshotai/int4` is one endpoint."""
    only: Sequence[str] = ()
    ignore: Sequence[str] = ()
    allow_fallbacks: bool | None = None
    require_parameters: bool | None = None
    """Only hosts that know every parameter; others drop in silence what they do not know."""
    quantizations: Sequence[str] = ()
    max_price: Mapping[str, Decimal] = field(default_factory=dict)
    """USD per million tokens of `prompt` and `completion`; a hard limit."""
    data_collection: str | None = None
    zdr: bool | None = None
    """Only hosts that retain no data."""
    enforce_distillable_text: bool | None = None
    """Only models whose authors allow training on their answers."""
    sort: str | Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("order", "only", "ignore"):
            object.__setattr__(self, name, _slugs(name, getattr(self, name)))
        for name in ("allow_fallbacks", "require_parameters", "zdr", "enforce_distillable_text"):
            if not isinstance(getattr(self, name), bool | None):
                raise InputError(f"routing option {name} must be true or false, not {getattr(self, name)!r}")
        quantizations = _strings("quantizations", self.quantizations)
        for quantization in quantizations:
            _one_of("quantizations", quantization, QUANTIZATIONS)
        object.__setattr__(self, "quantizations", quantizations)
        object.__setattr__(self, "max_price", _prices(self.max_price))
        if self.data_collection is not None:
            _one_of("data_collection", self.data_collection, DATA_COLLECTION)
        _check_sort(self.sort)
        if both := set(self.only) & set(self.ignore):
            raise InputError(f"routing both asks for and ignores {', '.join(sorted(both))}; take it out of one list")

    @classmethod
    def read(cls, options: Mapping[str, Any]) -> Self:
        """From the keys of a file or a command line. Raises InputError, with the nearest name for one unknown."""
        known = [f.name for f in fields(cls)]
        for name in options:
            if name not in known:
                raise InputError(f"routing option {name} is not known{_meant(str(name), known)}")
        return cls(**options)

    def provider(self) -> dict[str, Any]:
        """The `provider` object; empty if nothing is asked. Prices are strings, so that no digit is lost."""
        asked: dict[str, Any] = {}
        for f in fields(self):
            value: Any = getattr(self, f.name)
            if f.name == "max_price":
                value = {name: format(price, "f") for name, price in self.max_price.items()}
            if value or value is False:
                asked[f.name] = list(value) if isinstance(value, tuple) else value
        return asked


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _strings(name: str, values: Any) -> tuple[str, ...]:
    if not _is_list(values) or not all(isinstance(value, str) for value in values):
        raise InputError(f"routing option {name} must be a list of strings, not {values!r}")
    return tuple(values)


def _slugs(name: str, values: Any) -> tuple[str, ...]:
    slugs = _strings(name, values)
    for slug in slugs:
        if not SLUG.fullmatch(slug):
            raise InputError(f"routing option {name} holds {slug!r}: hosts go by their slug, such as moonshotai/int4")
    if len(set(slugs)) != len(slugs):
        raise InputError(f"routing option {name} names a host twice; name it once")
    return slugs


def _prices(prices: Any) -> dict[str, Decimal]:
    if not isinstance(prices, Mapping):
        raise InputError(f"routing option max_price must be an object such as {{'completion': '3.00'}}, not {prices!r}")
    found = {}
    for name, price in prices.items():
        _one_of("max_price", name, PRICES)
        try:
            # Through its text: the decimal that was written, not the nearest binary number.
            amount = Decimal(str(price))
        except InvalidOperation:
            amount = Decimal("NaN")
        if isinstance(price, bool) or not amount.is_finite() or amount < 0:
            raise InputError(f"routing option max_price.{name} must be USD per million tokens, not {price!r}")
        found[name] = amount
    return found


def _check_sort(sort: Any) -> None:
    if sort is None:
        return
    if isinstance(sort, Mapping):
        for name in sort:
            _one_of("sort", name, ("by", "partition"))
        _one_of("sort.by", sort.get("by"), SORTS)
        if sort.get("partition") is not None:
            _one_of("sort.partition", sort["partition"], PARTITIONS)
    else:
        _one_of("sort", sort, SORTS)


def _one_of(name: str, value: Any, known: Sequence[str]) -> None:
    if value not in known:
        hint = _meant(str(value), known)
        raise InputError(f"routing option {name} cannot be {value!r}{hint or '; use one of ' + ', '.join(known)}")


def _meant(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""
