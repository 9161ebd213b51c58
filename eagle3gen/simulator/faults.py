"""What may go wrong with a call: names, groups, and who meets what."""

import random
from functools import lru_cache
from typing import Any, TypeAlias

from eagle3gen.simulator.knobs import SHARE, BadKnob, Kind, read_words

TOKENS = {
    "leaked_markers": "the markers of a tool call stand in the content as text; the ids are the real control ids",
    "all_in_reasoning": "the model never leaves its thinking: the answer is in reasoning, finish stop",
    "quoted_controls": "the text speaks of control strings; their ids are ordinary ones",
    "no_finish": "finish_reason is null",
    "stripped_blank": "the blank before reasoning and content is lost",
    "count_drift": "the billed count is wrong by 1 to 3",
}
"""The text or the counts of an answer are not what was emitted."""
BOOKS = {
    "no_cost": "usage has no cost",
    "no_usage": "there is no usage",
    "no_record": "the record of the generation never appears",
}
"""Nothing is wrong with the answer, but less is told of its bill."""
FAULTS = TOKENS | BOOKS
GROUPS = {"tokens": tuple(TOKENS), "books": tuple(BOOKS)}
ALL = "all"

Shares: TypeAlias = tuple[tuple[str, str, float], ...]
"""How often each fault is met: host (or `all`), fault, share. A later row beats an earlier one."""


def read_shares(value: Any) -> Shares:
    """From `FAULT=SHARE` and `HOST:FAULT=SHARE`. Raises BadKnob."""
    return tuple(map(_read_share, read_words(value)))


def _read_share(text: str) -> tuple[str, str, float]:
    left, equals, number = text.rpartition("=")
    host, colon, name = left.rpartition(":")
    if not equals:
        raise BadKnob(f"{text!r} is not written as FAULT=SHARE or HOST:FAULT=SHARE")
    return (host if colon else ALL, *checked(name, number))


def checked(name: str, share: Any) -> tuple[str, float]:
    """A fault that is known and its share. Raises BadKnob."""
    if name not in FAULTS:
        raise BadKnob(f"there is no fault {name!r}; there are {', '.join(FAULTS)}")
    return name, SHARE.read(share)


SHARES = Kind("fault=share", read_shares, repeated=True)


def met(shares: Shares, host: str, rng: random.Random) -> frozenset[str]:
    """The faults that one call meets at a host; each is drawn by itself."""
    return frozenset(name for name, share in _of(shares, host) if rng.random() < share)


@lru_cache(maxsize=256)
def _of(shares: Shares, host: str) -> tuple[tuple[str, float], ...]:
    """Every fault with its share at a host, in an order that depends on nothing else."""
    named = {name: share for at, name, share in shares if at == ALL}
    named |= {name: share for at, name, share in shares if at == host}
    return tuple((name, named[name]) for name in FAULTS if name in named)
