"""Whole runs under a cap, in simulated time: how far each way of admitting passes the cap, and how long it takes.

    make bench-admission                          100 seeds, some minutes on 2 cores
    python -m benchmarks.admission --seeds 20     a first look
    python -m benchmarks.admission --only stress  the default where the world changes in mid-run, or forecasts are late

A cap of 10 M completion tokens, at most 2,000 calls in flight, up to 10,240 tokens each with a mean of 2,957, about
50 tokens/s per call. Claims come in group commits, ten a second, of up to 500. A forecast is made once a second of
what the ledger said at that moment, and is in force a second later: it is one to two seconds old. Both are the
product's own functions, `forecast` and `admit`. Nothing in flight is ever cancelled.

What a settlement gives back makes no room by itself: it goes to the reserve, and the next forecast corrects that.
Otherwise, what the forecast already took off a call is given back twice, for as long as the forecast is old; the
last table shows what this does.
"""

import argparse
import heapq
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from math import ceil, erf, exp, inf, log, sqrt
from multiprocessing import Pool

import numpy as np

from eagle3gen.ledger.admission import Room, admit
from eagle3gen.ledger.forecast import HALF_LIFE, PSEUDO, Forecast, Observed, Z, forecast
from eagle3gen.ledger.money import UNCAPPED, Amount, Cap

CAP = 10_000_000
MAX_TOKENS = 10_240
MEAN_TOKENS = 2_957
SLOTS = 2_000
SPREADS = (0.75, 1.0)
CALLS = 9_000
"""More than any run opens."""
TICKS_PER_SECOND = 10
COMMIT_CLAIMS_MAX = 500
QUIET_SECONDS = 3
"""A run ends when nothing is open and no forecast has let anybody in for so long."""

Estimate = Callable[[Observed], Forecast]


@dataclass(frozen=True, slots=True)
class World:
    """What the calls will do, in the order in which they are opened. Arrays of one entry per call."""

    tokens: np.ndarray
    seconds: np.ndarray
    turn_seconds: float = inf
    """From this moment on the provider is another."""
    slowdown_open: float = 1.0
    """What the turn does to the seconds left of calls in flight,"""
    slowdown_new: float = 1.0
    """and to those of calls opened later."""
    outage_seconds: tuple[float, float] = (inf, inf)
    """In this time every other call opened fails after 2 s, without a bill."""
    burst_seconds: float = 0.0
    """Claims come only so often; 0 for all the time."""


STRESSES = {
    "calm": "nothing changes",
    "growing": "answers grow evenly, from 25% below to 25% above the mean, over 3,400 calls",
    "longer": "answers are half as long again from the 1,700th call on",
    "tail": "one call in ten runs to max_tokens",
    "slower": "after 100 s every call is half as fast, in flight or new",
    "faster": "after 100 s every call is a third faster, in flight or new",
    "new host": "calls opened after 100 s are twice as fast",
    "outage": "from 60 to 120 s every other call fails after 2 s",
    "bursts": "claims come once in 20 s",
}


def mean_of_clipped(mu: float, spread: float) -> float:
    """The mean of a lognormal that is clipped at MAX_TOKENS."""
    edge = (log(MAX_TOKENS) - mu) / spread
    below, above = 0.5 * (1 + erf((edge - spread) / sqrt(2))), 0.5 * (1 - erf(edge / sqrt(2)))
    return exp(mu + spread**2 / 2) * below + MAX_TOKENS * above


def lognormal_mu(spread: float) -> float:
    """The mu with which the clipped mean is MEAN_TOKENS."""
    low, high = 0.0, 12.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if mean_of_clipped(middle, spread) < MEAN_TOKENS else (low, middle)
    return low


def make_world(seed: int, spread: float, stress: str = "calm") -> World:
    """The calls of one seed; the same ones for every policy."""
    rng = np.random.default_rng(seed)
    tokens = np.exp(lognormal_mu(spread) + spread * rng.standard_normal(CALLS))
    rate = 50 * rng.uniform(0.7, 1.3, CALLS)
    number = np.arange(CALLS)
    if stress == "growing":
        tokens *= 0.75 + 0.5 * np.minimum(number / 3_400, 1)
    if stress == "longer":
        tokens[1_700:] *= 1.5
    if stress == "tail":
        tokens[rng.random(CALLS) < 0.1] = MAX_TOKENS
    tokens = np.clip(np.round(tokens), 1, MAX_TOKENS).astype(int)
    turns = {"slower": (100.0, 2.0, 2.0), "faster": (100.0, 0.75, 0.75), "new host": (100.0, 1.0, 0.5)}
    return World(
        tokens, tokens / rate, *turns.get(stress, (inf, 1.0, 1.0)),
        outage_seconds=(60.0, 120.0) if stress == "outage" else (inf, inf),
        burst_seconds=20.0 if stress == "bursts" else 0.0,
    )  # fmt: skip


@dataclass(slots=True)
class Books:
    """The counters of one dataset, moved as the ledger moves them."""

    cap_tokens: int
    call_tokens: int
    """What a new claim reserves."""
    spent_tokens: int = 0
    open_tokens: int = 0
    reserve_tokens: int = 0
    """What the forecast adds to the claims that are open, and what settled calls gave back since it was made."""

    @property
    def headroom_tokens(self) -> int:
        return self.cap_tokens - self.spent_tokens - self.open_tokens - self.reserve_tokens

    def settle(self, cost: int, hold: int, *, makes_room: bool) -> None:
        """`makes_room`: the simpler rule, by which what a call did not need is free at once."""
        self.spent_tokens += cost
        self.open_tokens -= hold
        if not makes_room:
            self.reserve_tokens += hold - cost


@dataclass(frozen=True, slots=True)
class Result:
    """How one run ended."""

    seconds: float
    over: float
    """Tokens over the cap, as a share of it; negative for tokens unused."""
    calls: int
    in_flight_most: int


@dataclass(slots=True)
class Run:
    """One dataset from its first claim to its last answer."""

    world: World
    books: Books
    estimate: Estimate | None
    forecast_seconds: int = 1
    """How often a forecast is made. It is in force when the next one is being made."""
    makes_room: bool = False
    """As of `Books.settle`. Without a forecast, always."""
    now: float = 0.0
    opened: np.ndarray = field(default_factory=lambda: np.zeros(CALLS))
    ended: np.ndarray = field(default_factory=lambda: np.zeros(CALLS))
    cost: np.ndarray = field(default_factory=lambda: np.zeros(CALLS, int))
    hold: np.ndarray = field(default_factory=lambda: np.zeros(CALLS, int))
    calls: int = 0
    open: set[int] = field(default_factory=set)
    settled: list[int] = field(default_factory=list)
    ends: list[tuple[float, int]] = field(default_factory=list)
    made: tuple[Forecast, int] | None = None
    """The forecast that is not in force yet, and what it corrects the reserve by."""

    def play(self, calls_max: int = CALLS) -> Result:
        """`calls_max`: stop claiming after so many."""
        tick, quiet, last_end, most = 0, 0, 0.0, 0
        quiet_max = (QUIET_SECONDS * self.forecast_seconds + self.world.burst_seconds) * TICKS_PER_SECOND
        while quiet < quiet_max:
            self.now = tick / TICKS_PER_SECOND
            self._turn(tick)
            if self._settle():
                last_end = self.now
            if self.estimate is not None and tick % (self.forecast_seconds * TICKS_PER_SECOND) == 0:
                self._forecast(self.estimate)
            claimed = self._claim(min(COMMIT_CLAIMS_MAX, calls_max - self.calls))
            most = max(most, len(self.open))
            quiet = 0 if self.open or claimed else quiet + 1
            tick += 1
        return Result(last_end, self.books.spent_tokens / CAP - 1, self.calls, most)

    def _turn(self, tick: int) -> None:
        if self.world.turn_seconds * TICKS_PER_SECOND == tick:
            for call in self.open:
                self.ended[call] = self.now + (self.ended[call] - self.now) * self.world.slowdown_open
            self.ends = [(self.ended[call], call) for call in self.open]
            heapq.heapify(self.ends)

    def _settle(self) -> bool:
        before = len(self.settled)
        while self.ends and self.ends[0][0] <= self.now:
            _, call = heapq.heappop(self.ends)
            makes_room = self.makes_room or self.estimate is None
            self.books.settle(int(self.cost[call]), int(self.hold[call]), makes_room=makes_room)
            self.open.discard(call)
            self.settled.append(call)
        return len(self.settled) > before

    def _forecast(self, estimate: Estimate) -> None:
        if self.made is not None:
            made, correction = self.made
            self.books.reserve_tokens += correction
            self.books.call_tokens = made.call_tokens
        settled, still_open = np.array(self.settled, int), np.fromiter(self.open, int)
        observed = Observed(
            settled_seconds=self.ended[settled] - self.opened[settled],
            settled_ages=self.now - self.opened[settled],
            settled_tokens=self.cost[settled],
            open_seconds=self.now - self.opened[still_open],
            max_tokens=MAX_TOKENS,
        )
        found = estimate(observed)
        self.made = found, found.open_tokens - self.books.open_tokens - self.books.reserve_tokens

    def _claim(self, wishes: int) -> int:
        if self.world.burst_seconds and self.now % self.world.burst_seconds > 0.5:
            return 0
        headroom, price = self.books.headroom_tokens, self.books.call_tokens
        # The rest would be refused: the ledger's dispatch does not ring for them either.
        wishes = min(wishes, SLOTS - len(self.open), max(0, headroom // price) + 1)
        wanted = ((call, 1, Amount(price)) for call in range(self.calls, self.calls + wishes))
        admitted, _ = admit({1: Room(open=True, left=Cap(headroom))}, UNCAPPED, wanted)
        for call in admitted:
            self._open(call, price)
        self.calls += len(admitted)
        return len(admitted)

    def _open(self, call: int, price: int) -> None:
        world, seconds = self.world, self.world.seconds[call]
        self.cost[call] = world.tokens[call]
        if self.now >= world.turn_seconds:
            seconds *= world.slowdown_new
        if call % 2 and world.outage_seconds[0] <= self.now < world.outage_seconds[1]:
            seconds, self.cost[call] = 2.0, 0
        self.opened[call], self.ended[call], self.hold[call] = self.now, self.now + seconds, price
        self.books.open_tokens += price
        self.open.add(call)
        heapq.heappush(self.ends, (self.ended[call], call))


def naive_mean(observed: Observed, *, z: float = 3.0) -> Forecast:
    """Every call costs the mean of the settled ones and `z` standard errors: the fault to avoid."""
    tokens, calls = observed.settled_tokens, len(observed.open_seconds)
    if len(tokens) < 20:
        return Forecast(open_tokens=calls * MAX_TOKENS, call_tokens=MAX_TOKENS)
    call = min(MAX_TOKENS, ceil(tokens.mean() + z * tokens.std() / sqrt(len(tokens))))
    return Forecast(open_tokens=calls * call, call_tokens=call)


def kaplan_meier(observed: Observed, *, pseudo: int, z: float = 3.0) -> Forecast:
    """The plain estimator: every call weighs the same, and the table's own error is left out."""
    if len(observed.settled_tokens) == 0:
        return Forecast(open_tokens=len(observed.open_seconds) * MAX_TOKENS, call_tokens=MAX_TOKENS)
    order = np.argsort(observed.settled_seconds)
    ages, tokens = observed.settled_seconds[order], observed.settled_tokens[order]
    waiting = np.sort(observed.open_seconds)
    at_risk = np.arange(len(ages), 0, -1) + len(waiting) - np.searchsorted(waiting, ages) + pseudo
    alive = np.concatenate([[1.0], np.cumprod(1 - 1 / at_risk)])
    mass = alive[:-1] / at_risk

    def moment(power: int) -> np.ndarray:
        to_come = np.concatenate([np.cumsum((mass * tokens**power)[::-1])[::-1], [0.0]])
        if alive[-1] == 0:
            to_come[-1], alive[-1] = MAX_TOKENS**power, 1.0
            return to_come / alive
        return (to_come + alive[-1] * float(MAX_TOKENS) ** power) / alive

    value, square = moment(1), moment(2)
    position = np.searchsorted(ages, observed.open_seconds, side="right")
    variance = np.maximum(square - value**2, 0)[position].sum()
    most = len(observed.open_seconds) * MAX_TOKENS
    return Forecast(
        open_tokens=min(most, ceil(value[position].sum() + z * sqrt(variance))),
        call_tokens=min(MAX_TOKENS, ceil(value[0])),
    )


def over_lengths(observed: Observed) -> Forecast:
    """A life table over answer lengths, where an open call has as many tokens as its age suggests."""
    rate = observed.settled_tokens.sum() / max(1e-9, observed.settled_seconds.sum())
    by_length = Observed(
        settled_seconds=observed.settled_tokens / max(1e-9, rate),
        settled_ages=observed.settled_ages, settled_tokens=observed.settled_tokens,
        open_seconds=observed.open_seconds, max_tokens=MAX_TOKENS,
    )  # fmt: skip
    return kaplan_meier(by_length, pseudo=0)


def ours(**changes: float) -> tuple[str, Estimate]:
    """The product's forecast with other numbers than the default."""
    values = {"pseudo": PSEUDO, "z": Z, "half_life": HALF_LIFE} | changes
    return "forecast " + " ".join(f"{name}={value:g}" for name, value in values.items()), partial(forecast, **values)


DEFAULT, DEFAULT_ESTIMATE = ours()
FRONTIER: dict[str, Estimate | None] = {
    "strict": None,
    "free": None,
    "mean of settled + 3 sigma": naive_mean,
    "Kaplan-Meier over lengths": over_lengths,
    "Kaplan-Meier, 3 invented": partial(kaplan_meier, pseudo=3),
    **dict([(DEFAULT, DEFAULT_ESTIMATE), ours(z=1.5), ours(z=2.5), ours(half_life=250), ours(half_life=inf)]),
}
LATE = {
    f"every {seconds} s, room at {moment}": (seconds, makes_room)
    for seconds in (1, 5, 20)
    for moment, makes_room in (("the next forecast", False), ("the settlement", True))
}
"""The default, where forecasts are rare, with both ways to settle."""


def play(policy: str, spread: float, stress: str, seed: int) -> Result:
    """One run."""
    world = make_world(seed, spread, stress)
    if policy == "free":
        calls = play("strict", spread, stress, seed).calls
        return Run(world, Books(10 * CAP, 1), None).play(calls)
    seconds, makes_room = LATE.get(policy, (1, False))
    estimate = FRONTIER.get(policy, DEFAULT_ESTIMATE)
    return Run(world, Books(CAP, MAX_TOKENS), estimate, seconds, makes_room).play()


HEAD = f"{'policy':44}{'seconds':>8}{'/ strict':>9}{'over p50':>10}{'p99':>9}{'worst':>9}{'unused':>9}{'in flight':>10}"


def row(label: str, results: Iterable[Result], strict_seconds: float | None) -> tuple[str, float]:
    """A line of the table and its median of seconds; `over` and `unused` (the worst) in % of the cap."""
    found = list(results)
    seconds = float(np.median([r.seconds for r in found]))
    over = 100 * np.array([r.over for r in found])
    in_flight = np.median([r.in_flight_most for r in found])
    ratio = seconds / (strict_seconds or seconds)
    numbers = f"{np.median(over):>+10.3f}{np.quantile(over, 0.99):>+9.3f}{over.max():>+9.3f}"
    return f"{label:44}{seconds:>8,.0f}{ratio:>9.2f}{numbers}{max(0, -over.min()):>9.3f}{in_flight:>10,.0f}", seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--stress-seeds", type=int, default=None, help="a fourth of the seeds unless told")
    parser.add_argument("--only", choices=["frontier", "stress"])
    args = parser.parse_args()
    few = args.stress_seeds or max(1, args.seeds // 4)
    frontier = [("calm", [p for p in FRONTIER if p != "strict"], args.seeds)]
    stress = [(name, [DEFAULT], few) for name in STRESSES if name != "calm"] + [("calm", list(LATE), few)]
    tables = {"frontier": frontier, "stress": stress}.get(args.only, frontier + stress)
    started = time.monotonic()
    with Pool(2) as pool:
        for world, policies, seeds in tables:
            for spread in SPREADS:
                print(f"\n{world}: {STRESSES[world]}; spread {spread}, seeds 0 to {seeds - 1}\n{HEAD}")
                strict_seconds = None
                for policy in ["strict", *policies]:
                    results = pool.map(partial(play, policy, spread, world), range(seeds), chunksize=1)
                    line, seconds = row(policy, results, strict_seconds)
                    strict_seconds = strict_seconds or seconds
                    print(line, flush=True)
    print(f"\ndefault: {DEFAULT}; {time.monotonic() - started:,.0f} s")


if __name__ == "__main__":
    main()
