"""How many calls a host takes in a minute, as it is written in a knob."""

from functools import lru_cache
from typing import Any, TypeAlias

from eagle3gen.simulator.knobs import COUNT, BadKnob, Kind, read_words

EACH = ""
Rates: TypeAlias = tuple[tuple[str, int], ...]
"""Host (or EACH) and calls a minute."""


def read_rates(value: Any) -> Rates:
    """From `HOST=N`, or `N` for each host. Raises BadKnob."""
    if isinstance(value, tuple) and all(isinstance(row, tuple) for row in value):
        return value
    rows = []
    for text in read_words(value if isinstance(value, list | tuple) else [str(value)]):
        host, _, number = text.rpartition("=")
        try:
            rows.append((host, COUNT.read(number)))
        except BadKnob as error:
            raise BadKnob(f"{text!r} is not written as HOST=N or N") from error
    return tuple(rows)


@lru_cache(maxsize=256)
def rate_of(rates: Rates, host: str) -> int | None:
    """Calls a minute at a host; None: as many as come."""
    named = dict(rates)
    return named.get(host, named.get(EACH))


RATES = Kind("host=n", read_rates, repeated=True)
