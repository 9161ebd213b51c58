"""What the forecast is for: the faults of simpler ones, each shown, and each avoided."""

from math import ceil, sqrt

import numpy as np
import pytest

from eagle3gen.ledger.forecast import Observed, forecast

MAX_TOKENS = 10_240


def snapshot(tokens, rates, opened, now, max_tokens=MAX_TOKENS) -> tuple[Observed, int]:
    """What is seen at a moment of calls opened at their times, and what the open ones will really cost."""
    took = tokens / rates
    settled, still_open = opened + took <= now, (opened <= now) & (opened + took > now)
    seen = Observed(
        settled_seconds=took[settled], settled_ages=now - opened[settled], settled_tokens=tokens[settled],
        open_seconds=now - opened[still_open], max_tokens=max_tokens,
    )  # fmt: skip
    return seen, int(tokens[still_open].sum())


def lognormal(seed, calls, spread=1.0, mu=7.6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    tokens = np.clip(np.round(rng.lognormal(mu, spread, calls)), 1, MAX_TOKENS)
    return tokens, 50 * rng.uniform(0.7, 1.3, calls)


def test_the_table_of_one_answer_is_what_pen_and_paper_say() -> None:
    """One answer of 100 tokens at 10 s, one invented call: half of the calls cost 100 and half cost 1,000."""
    one = Observed(
        settled_seconds=np.array([10.0]), settled_ages=np.array([30.0]), settled_tokens=np.array([100.0]),
        open_seconds=np.array([0.0]), max_tokens=1_000,
    )  # fmt: skip
    plain = forecast(one, pseudo=1, z=0)
    assert (plain.open_tokens, plain.call_tokens) == (550, 550)
    # Luck is 1/2 * 1/2 * 900^2; the table's error, of a weight of 2, adds half of that.
    careful = forecast(one, pseudo=1, z=0.5)
    assert careful.open_tokens == ceil(550 + 0.5 * sqrt(202_500 * 1.5))


def test_a_call_still_open_says_that_calls_are_longer() -> None:
    """One answer at 10 s, one call open for 5 s: it has not lived to 10 s, and says nothing of it. At 20 s it does."""

    def call_tokens(age: float) -> int:
        seen = Observed(
            settled_seconds=np.array([10.0]), settled_ages=np.array([30.0]), settled_tokens=np.array([100.0]),
            open_seconds=np.array([age, 0.0]), max_tokens=1_000,
        )  # fmt: skip
        return forecast(seen, pseudo=1, z=0, half_life=np.inf).call_tokens

    assert call_tokens(5) == 550
    assert call_tokens(20) == pytest.approx(700, abs=1)


@pytest.mark.parametrize("now", [10, 30, 60])
def test_short_answers_that_end_first_do_not_mislead(now) -> None:
    """The mean of what has settled would be wrong by half; the forecast has room for the truth."""
    tokens, rates = lognormal(1, 2_000)
    seen, truth = snapshot(tokens, rates, np.zeros(2_000), float(now))
    assert seen.settled_tokens.mean() * len(seen.open_seconds) < truth / 2
    assert forecast(seen).open_tokens >= truth


def test_room_for_the_truth_is_left_in_nearly_every_snapshot() -> None:
    """300 snapshots of fleets with some hundred calls open: it fails in a few of a hundred at the very most."""
    misses = 0
    for seed in range(300):
        rng = np.random.default_rng([seed, 7])
        tokens, rates = lognormal(seed, 1_500, spread=rng.choice([0.5, 0.75, 1.0]))
        seen, truth = snapshot(tokens, rates, np.sort(rng.uniform(0, 300, 1_500)), rng.uniform(20, 350))
        misses += forecast(seen).open_tokens < truth
    assert misses <= 9


def test_the_forecast_is_of_use_once_the_tail_has_been_seen() -> None:
    """With 2,000 calls open and as many known, it asks for little more than the truth, not for the worst case."""
    tokens, rates = lognormal(2, 6_000, spread=0.75)
    seen, truth = snapshot(tokens, rates, np.arange(6_000) / 20, 300.0)
    assert truth < forecast(seen).open_tokens < 1.35 * truth
    assert forecast(seen).call_tokens < 1.35 * tokens.mean()


def test_answers_that_grow_longer_are_noticed() -> None:
    """The later 3,000 of 7,000 calls are twice as long: what counts is what the youngest calls say."""
    tokens, rates = lognormal(3, 7_000, spread=0.5, mu=7.2)
    tokens = np.minimum(np.where(np.arange(7_000) < 4_000, tokens, 2 * tokens), MAX_TOKENS)
    seen, truth = snapshot(tokens, rates, np.arange(7_000) / 20, 350.0)
    assert forecast(seen, half_life=np.inf, z=0).call_tokens < 0.85 * tokens[4_000:].mean()
    assert forecast(seen, z=0).call_tokens > 0.93 * tokens[4_000:].mean()
    assert forecast(seen).open_tokens > truth


def test_a_provider_that_slows_down_makes_calls_dearer_never_cheaper() -> None:
    """Calls outlive what is known of calls, so nobody can say that they will end soon."""
    tokens, rates = lognormal(4, 3_000, spread=0.75)
    opened = np.arange(3_000) / 20
    before, _ = snapshot(tokens, rates, opened, 150.0)
    slowed = np.where(opened < 75, rates, rates / 3)
    after, truth = snapshot(tokens, slowed, opened, 150.0)
    assert forecast(after).call_tokens > forecast(before).call_tokens
    assert forecast(after).open_tokens >= truth


def test_an_outage_makes_nothing_cheap() -> None:
    """Half of the calls fail at once and cost nothing: the others are not worth less for it."""
    tokens, rates = lognormal(5, 2_000)
    seen, truth = snapshot(tokens, rates, np.arange(2_000) / 20, 100.0)
    failed = np.full(1_000, 2.0)
    outage = Observed(
        settled_seconds=np.concatenate([seen.settled_seconds, failed]),
        settled_ages=np.concatenate([seen.settled_ages, np.linspace(2, 30, 1_000)]),
        settled_tokens=np.concatenate([seen.settled_tokens, np.zeros(1_000)]),
        open_seconds=seen.open_seconds, max_tokens=MAX_TOKENS,
    )  # fmt: skip
    assert forecast(outage).open_tokens >= truth
    assert forecast(outage).call_tokens >= 0.98 * forecast(seen).call_tokens


def test_calls_that_run_into_max_tokens_are_not_averaged_away() -> None:
    """One in ten never stops by itself: calls that have outlived the rest are worth max_tokens, nearly."""
    rng = np.random.default_rng(6)
    tokens = np.where(rng.random(4_000) < 0.1, MAX_TOKENS, np.round(rng.lognormal(6.5, 0.4, 4_000)))
    seen, truth = snapshot(tokens, np.full(4_000, 50.0), np.arange(4_000) / 10, 400.0)
    old = Observed(
        settled_seconds=seen.settled_seconds, settled_ages=seen.settled_ages, settled_tokens=seen.settled_tokens,
        open_seconds=np.full(100, 90.0), max_tokens=MAX_TOKENS,
    )  # fmt: skip
    assert forecast(old, z=0).open_tokens > 0.98 * 100 * MAX_TOKENS
    assert forecast(seen).open_tokens >= truth


def test_a_resumed_dataset_begins_with_the_worst_case() -> None:
    """With nothing open there is no sum to be sure of; the next forecast, a second later, knows better."""
    tokens, rates = lognormal(8, 2_000)
    seen, _ = snapshot(tokens, rates, np.arange(2_000) / 20, 10_000.0)
    assert forecast(seen).call_tokens == MAX_TOKENS
    started = Observed(
        settled_seconds=seen.settled_seconds, settled_ages=seen.settled_ages + 1, settled_tokens=seen.settled_tokens,
        open_seconds=np.full(200, 1.0), max_tokens=MAX_TOKENS,
    )  # fmt: skip
    assert forecast(started).call_tokens < MAX_TOKENS / 2
