"""What open calls will cost, and what one more call will cost: a pessimistic forecast, pure and without SQL.

Short answers end first. While thousands of calls are open, the ended ones are the short ones, and their mean is far
too low. So an open call is no missing value here: it says "longer than this", and the forecast is a life table
(Kaplan and Meier 1958, doi 10.1080/01621459.1958.10501452) over the seconds that calls take, in which each ended
call leaves its tokens behind. Four things keep it on the safe side:

1. What outlives every ended call costs `max_tokens`, and so do a few invented calls that never end. As long as
   nothing has ended, the forecast is the worst case.
2. It asks for room for `z` standard deviations of the sum of all open calls. These hold both the luck of the calls
   and the error of the table: at each age, how many of the calls end there is a beta-binomial number.
3. The calls opened last speak loudest (`half_life`), so that prompts that grow longer are noticed.
4. A call that ended without tokens, an error, only says that it lived so long. An outage makes nothing cheap.

Between two forecasts each claim reserves `call_tokens`: any number of them stays within what a forecast made right
after them would ask for. What a settled call gives back must wait for the next forecast: the last one has taken it
off the call already, and room given twice is the cap passed. `benchmarks/admission.py` simulates whole runs and chose
the defaults.
"""

from dataclasses import dataclass
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from eagle3gen.errors import InvariantBroken

Floats = NDArray[np.float64]

PSEUDO = 3
"""Invented calls that never end: they keep a handful of early answers from closing the tail."""
Z = 2.25
"""Standard deviations asked for above the expectation."""
HALF_LIFE = 750
"""A call weighs half of one that was opened when so many more had been opened and ended."""
SETTLED_MAX = 12 * HALF_LIFE
"""Ended calls worth reading, the last opened: older ones weigh less than 1/4,096 each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """The calls of one dataset with one `max_tokens`, at one moment.

    The three `settled` arrays have one entry per ended call, in any order.
    Raises InvariantBroken when their lengths differ.
    """

    settled_seconds: Floats
    """From opened to ended."""
    settled_ages: Floats
    """From opened to now, in seconds: which calls are the younger ones."""
    settled_tokens: Floats
    """What each costs the cap; 0 for one that failed and was not billed."""
    open_seconds: Floats
    """From opened to now, for calls that have not ended."""
    max_tokens: int
    """The most that one of these calls can cost."""

    def __post_init__(self) -> None:
        lengths = {len(self.settled_seconds), len(self.settled_ages), len(self.settled_tokens)}
        if len(lengths) > 1:
            raise InvariantBroken(f"the arrays of settled calls have the lengths {sorted(lengths)}, not one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a cap must have room for, in completion tokens."""

    open_tokens: int
    """All open calls together; never above `max_tokens` each."""
    call_tokens: int
    """One more call; from 1 to `max_tokens`."""


@dataclass(frozen=True, slots=True)
class _LifeTable:
    """What is known of calls by their age. Events are the ends of billed calls, by age; arrays of one per event.

    `alive` and `value` have one entry more: index k is the time between event k-1 and event k.
    """

    ages: Floats
    """When the event comes, in seconds after opening."""
    hazard: Floats
    """The share of the calls of that age that ends with it."""
    at_risk: Floats
    """The weight of the calls seen at that age, the invented ones with them."""
    spread: Floats
    """Squared tokens: what the end of a call at this event, or its going on, changes in its value."""
    alive: Floats
    """The share of calls that live so long."""
    value: Floats
    """What a call that has lived so long is expected to cost."""


def forecast(observed: Observed, *, pseudo: float = PSEUDO, z: float = Z, half_life: float = HALF_LIFE) -> Forecast:
    """Forecast the calls of one dataset with one `max_tokens`; several such groups are forecast each and added.

    `pseudo` must be above 0. Sorting is the only work that grows faster than the number of calls.
    """
    table = _life_table(observed, pseudo, half_life)
    most = observed.max_tokens
    worst_tokens = len(observed.open_seconds) * most
    position = np.searchsorted(table.ages, observed.open_seconds, side="right")
    starts = np.bincount(position, minlength=len(table.alive))
    expected = float((starts * table.value).sum())
    # The open calls that will live to see each event, in expectation; and the same for one more call.
    reach = (table.alive * np.cumsum(starts / table.alive))[:-1]
    reach_new = table.alive[:-1]
    # Of `n` calls at an event a beta-binomial number ends: variance n h (1 - h) (1 + n / weight behind h).
    luck = table.hazard * (1 - table.hazard) * table.spread
    error = luck / table.at_risk
    variance = float((luck * reach + error * reach**2).sum())
    asked = expected + z * sqrt(variance)
    if variance == 0 or asked >= worst_tokens:
        return Forecast(open_tokens=worst_tokens, call_tokens=most)
    # The variance of k more calls is a quadratic in k, so the slope of its root lies between these two.
    slope = float((luck * reach_new + 2 * error * reach * reach_new).sum()) / (2 * sqrt(variance))
    slope_far = sqrt(float((error * reach_new**2).sum()))
    call = float(table.value[0]) + z * max(slope, slope_far)
    return Forecast(open_tokens=ceil(asked), call_tokens=max(1, min(most, ceil(call))))


def _life_table(observed: Observed, pseudo: float, half_life: float) -> _LifeTable:
    most = observed.max_tokens
    # Clocks of several machines may disagree by a little, and a bill may be dearer than the worst case.
    seconds = np.maximum(observed.settled_seconds, 0.0)
    tokens = np.minimum(observed.settled_tokens, most).astype(np.float64)
    younger = np.sort(observed.settled_ages)
    weight = np.exp2(-np.searchsorted(younger, observed.settled_ages) / half_life)
    weight_open = np.exp2(-np.searchsorted(younger, observed.open_seconds) / half_life)
    billed = tokens > 0
    order = np.lexsort((weight[billed], tokens[billed], seconds[billed]))
    ages, tokens, event_weight = seconds[billed][order], tokens[billed][order], weight[billed][order]
    # Calls that left the table without an event: still open, or failed.
    unended = _weight_from(
        np.concatenate([observed.open_seconds, seconds[~billed]]), np.concatenate([weight_open, weight[~billed]]), ages
    )
    at_risk = np.cumsum(event_weight[::-1])[::-1] + unended + pseudo
    hazard = event_weight / at_risk
    alive = np.concatenate([[1.0], np.cumprod(1 - hazard)])
    # From the end backwards: tokens of the events still to come, each by the share of calls that ends with it.
    to_come = np.concatenate([np.cumsum((alive[:-1] * hazard * tokens)[::-1])[::-1], [0.0]])
    value = (to_come + alive[-1] * most) / alive
    return _LifeTable(ages, hazard, at_risk, (tokens - value[1:]) ** 2, alive, value)


def _weight_from(ages: Floats, weights: Floats, moments: Floats) -> Floats:
    """For each moment, the weight of the calls whose age is not below it."""
    order = np.lexsort((weights, ages))
    below = np.concatenate([[0.0], np.cumsum(weights[order])])
    found: Floats = below[-1] - below[np.searchsorted(ages[order], moments)]
    return found
