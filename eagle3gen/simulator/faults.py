"""What may go wrong with a call: names, groups, and who meets what."""

import random
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from eagle3gen.simulator.knobs import SHARE, BadKnob, Kind, read_words

TRANSPORT = {
    "endless_pulses": "blanks for ever; never billed",
    "closed_early": "blanks, then a clean end without JSON; billed",
    "reset": "blanks, then a reset of the connection; billed",
    "cut_json": "the JSON ends in the middle; billed",
    "outage": "the connection is reset and others are refused for --outage seconds; not billed",
}
PASSING = {
    "status_400_wrapped": "400 of a host: another may answer",
    "status_408": "408 timeout",
    "status_429_text": "429 of a host, raw a text, with Retry-After",
    "status_429_object": "429 of a host, raw an object, newest fields, no Retry-After",
    "status_429_reset": "429 of the platform, X-RateLimit headers in ms",
    "status_429_nested": "429 of the platform, the headers inside metadata",
    "status_429_capacity": "429 with an availability object and no code",
    "status_500": "500 masked",
    "status_502": "502 of a host, raw an object",
    "status_503": "503, no host meets the routing, with Retry-After",
    "status_504": "504 timeout",
    "status_529": "529 overloaded",
    "html_502": "502 of the edge, HTML",
    "html_524": "524 of the edge, HTML",
    "edge_1015": "429 of the edge, text: error code: 1015",
    "inside_error": "200 whose body is an error; in a stream an error event",
    "inside_null_choices": "the same with choices null",
    "inside_empty_choices": "the same with choices []",
    "inside_choice": "200 whose choice has an error, some text and finish error",
}
"""Errors after which the same call may succeed."""
LASTING = {
    "status_400_context": "400, the context is too long",
    "status_401": "401, the key is refused",
    "status_402": "402, no credits",
    "status_403_moderation": "403, the prompt is flagged",
    "status_403_region": "403, the region is refused, with an availability object",
    "status_404": "404, no endpoints",
    "status_413": "413 too large",
    "status_422": "422 not understood",
}
"""Errors that come again, or stop the run."""
TOKENS = {
    "leaked_markers": "the markers of a tool call stand in the content as text; their ids are the control ids",
    "leaked_in_reasoning": "the same in reasoning: the model never left its thinking",
    "implicit_close": "no </think> before the tool section",
    "dropped_close": "</think> is emitted but lost: all text is in reasoning, content null",
    "all_in_reasoning": "the model never leaves its thinking: the answer is in reasoning, finish stop",
    "quoted_controls": "the text speaks of control strings; their ids are ordinary ones",
    "cut_short": "the host stops before the limit, finish length",
    "no_finish": "finish_reason is null",
    "stripped_blank": "the blank before reasoning and content is lost",
    "rewritten_ids": "ids of tool calls are numbered anew",
    "opaque_ids": "ids of tool calls are replaced by random ones",
    "rewritten_arguments": "arguments are JSON of another spacing",
    "empty_content": "content is an empty text beside tool calls, where others write null",
    "null_content": "as all_in_reasoning, but content is null",
    "encrypted_reasoning": "reasoning is encrypted",
    "summarised_reasoning": "reasoning is a summary",
    "wrong_reasoning_tokens": "reasoning_tokens is wrong",
    "count_drift": "the billed count is wrong by 1 to 3",
}
"""The text or the counts of an answer are not what was emitted."""
BOOKS = {
    "no_cost": "usage has no cost",
    "no_usage": "there is no usage",
    "no_record": "the record of the generation never appears",
    "record_429": "the first look at the record of the generation is answered 429",
}
"""Nothing is wrong with the answer, but less is told of its bill."""
ERRORS = PASSING | LASTING
FAULTS = TRANSPORT | ERRORS | TOKENS | BOOKS
GROUPS = {
    "none": (),
    "transport": tuple(TRANSPORT),
    "passing": tuple(PASSING),
    "errors": tuple(ERRORS),
    "tokens": tuple(TOKENS),
    "mixed": tuple(TRANSPORT | PASSING | TOKENS | BOOKS),
}
"""What `--faults` can name. `mixed` holds nothing that stops a run."""
ALL = "all"

Shares: TypeAlias = tuple[tuple[str, str, float], ...]
"""How often each fault is met: host (or `all`), fault, share. A later row beats an earlier one."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A group of which a call meets one, and faults with shares of their own."""

    group: tuple[str, ...] = ()
    shares: Shares = ()


NO_FAULTS = Mix()


def read_shares(value: Any) -> Shares:
    """From `FAULT=SHARE` and `HOST:FAULT=SHARE`. Raises BadKnob."""
    if isinstance(value, tuple) and all(isinstance(row, tuple) for row in value):
        return value
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
        raise BadKnob(f"there is no fault {name!r}; `eagle3gen simulate --help` lists them")
    return name, SHARE.read(share)


def read_mix(value: Any) -> Mix:
    """From the name of a group, a TOML file, or an object that is written as the file. Raises BadKnob.

    The file has a table for each host, and one called `all`, with a share for each fault.
    """
    if isinstance(value, Mix):
        return value
    if isinstance(value, str) and value in GROUPS:
        return Mix(GROUPS[value])
    if isinstance(value, str):
        try:
            value = tomllib.loads(Path(value).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise BadKnob(f"{value} is no group of faults ({', '.join(GROUPS)}) and no TOML file: {error}") from error
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise BadKnob("faults are tables of shares, one for each host or for all")
    return Mix(shares=tuple((host, *checked(*row)) for host, table in value.items() for row in table.items()))


SHARES = Kind("fault=share", read_shares, repeated=True)
MIX = Kind("group|file", read_mix)


def met(mix: Mix, group_share: float, shares: Shares, host: str, rng: random.Random) -> frozenset[str]:
    """The faults that one call meets at a host.

    Each fault with a share of its own is drawn by itself, and one of the group. Of those that end a call only one is
    met, and then no answer is there that could have a fault of its tokens.
    """
    hit = {name for name, share in _of((*mix.shares, *shares), host) if rng.random() < share}
    if mix.group and rng.random() < group_share:
        hit.add(rng.choice(mix.group))
    ends = [name for name in hit if name in ERRORS or name in TRANSPORT]
    if not ends:
        return frozenset(hit)
    end = min(ends, key=tuple(FAULTS).index)
    return frozenset({end} if end in ERRORS else {end, *(hit & BOOKS.keys())})


@lru_cache(maxsize=256)
def _of(shares: Shares, host: str) -> tuple[tuple[str, float], ...]:
    """Every fault with its share at a host, in an order that depends on nothing else."""
    named = {name: share for at, name, share in shares if at == ALL}
    named |= {name: share for at, name, share in shares if at == host}
    return tuple((name, named[name]) for name in FAULTS if name in named)
