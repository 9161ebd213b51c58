"""The forecast as a law: between what is certain and the worst case, and never cheaper for knowing less."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.errors import InvariantBroken
from eagle3gen.ledger.forecast import SETTLED_MAX, Forecast, Observed, forecast

MAX_TOKENS = 10_240

seconds = st.floats(0.01, 900)
settled_calls = st.tuples(seconds, st.floats(0, 5_000), st.integers(0, MAX_TOKENS))
answered_calls = st.tuples(seconds, st.floats(0, 5_000), st.integers(1, MAX_TOKENS))


def observed(settled=(), open_seconds=(), max_tokens=MAX_TOKENS) -> Observed:
    """`settled` has (seconds, seconds since the end, tokens) of each ended call."""
    rows = np.array(settled, dtype=float).reshape(-1, 3)
    return Observed(
        settled_seconds=rows[:, 0], settled_ages=rows[:, 0] + rows[:, 1], settled_tokens=rows[:, 2],
        open_seconds=np.array(open_seconds, dtype=float), max_tokens=max_tokens,
    )  # fmt: skip


def growing(calls):
    """The same calls, with the tokens dealt out so that a longer call costs no less."""
    ordered, tokens = sorted(calls), sorted(call[2] for call in calls)
    return [(took, ago, cost) for (took, ago, _), cost in zip(ordered, tokens, strict=True)]


many = st.lists(settled_calls, max_size=60)
answered = st.lists(answered_calls, min_size=1, max_size=60)
waiting = st.lists(st.floats(0, 1_000), max_size=60)


# The bounds


@given(many, waiting)
def test_open_calls_never_cost_more_than_max_tokens_each(settled, open_seconds) -> None:
    assert 0 <= forecast(observed(settled, open_seconds)).open_tokens <= MAX_TOKENS * len(open_seconds)


@given(many, waiting, st.integers(1, 20_000))
def test_one_more_call_costs_from_one_token_to_max_tokens(settled, open_seconds, max_tokens) -> None:
    assert 1 <= forecast(observed(settled, open_seconds, max_tokens)).call_tokens <= max_tokens


@given(answered, waiting, st.sampled_from([0.0, 2.0]))
def test_no_open_call_is_worth_less_than_the_cheapest_answer_ever_seen(settled, open_seconds, z) -> None:
    least = min(tokens for _, _, tokens in settled)
    assert forecast(observed(settled, open_seconds), z=z).open_tokens >= least * len(open_seconds)


@given(many)
def test_nothing_open_costs_nothing(settled) -> None:
    assert forecast(observed(settled)).open_tokens == 0


# Ignorance is the worst case


@given(waiting)
def test_before_anything_has_ended_every_call_costs_max_tokens(open_seconds) -> None:
    worst = Forecast(open_tokens=MAX_TOKENS * len(open_seconds), call_tokens=MAX_TOKENS)
    assert forecast(observed((), open_seconds)) == worst


@given(st.lists(st.tuples(seconds, seconds, st.just(0)), min_size=1, max_size=40), waiting)
def test_failed_calls_alone_teach_nothing(failed, open_seconds) -> None:
    assert forecast(observed(failed, open_seconds)) == forecast(observed((), open_seconds))


@given(answered, st.integers(1, 40), st.floats(1, 500))
def test_calls_that_outlive_every_answer_cost_max_tokens(settled, calls, more) -> None:
    longest = max(took for took, _, _ in settled)
    assert forecast(observed(settled, [longest + more] * calls), z=0).open_tokens == MAX_TOKENS * calls


@given(answered, waiting, st.integers(0, 59), st.floats(0, 500))
def test_where_longer_calls_cost_more_a_call_is_never_worth_less_for_running_on(settled, open_seconds, n, more) -> None:
    """The expectation itself, without weights: both are told apart from what they are compared with."""
    calls = growing(settled)
    later = [age + more * (i == n) for i, age in enumerate(open_seconds)]
    now = forecast(observed(calls, open_seconds), z=0, half_life=math.inf).open_tokens
    assert forecast(observed(calls, later), z=0, half_life=math.inf).open_tokens >= now - 1


@given(answered, waiting, st.lists(st.tuples(seconds, seconds, st.just(0)), max_size=20))
def test_failures_make_nothing_cheaper(settled, open_seconds, failed) -> None:
    calls = growing(settled)
    without = forecast(observed(calls, open_seconds), z=0, half_life=math.inf)
    beside = forecast(observed([*calls, *failed], open_seconds), z=0, half_life=math.inf)
    assert beside.open_tokens >= without.open_tokens - 1
    assert beside.call_tokens >= without.call_tokens - 1


@given(answered, waiting, st.floats(0.1, 50), st.floats(0, 50))
def test_more_invented_calls_make_nothing_cheaper(settled, open_seconds, pseudo, more) -> None:
    calls = observed(growing(settled), open_seconds)
    few, many_more = forecast(calls, z=0, pseudo=pseudo), forecast(calls, z=0, pseudo=pseudo + more)
    assert many_more.open_tokens >= few.open_tokens - 1
    assert many_more.call_tokens >= few.call_tokens - 1


@given(many, waiting, st.floats(0, 5), st.floats(0, 5))
def test_more_caution_makes_nothing_cheaper(settled, open_seconds, z, more) -> None:
    calls = observed(settled, open_seconds)
    bold, careful = forecast(calls, z=z), forecast(calls, z=z + more)
    assert careful.open_tokens >= bold.open_tokens
    assert careful.call_tokens >= bold.call_tokens


# Claims between two forecasts


@given(answered, waiting, st.integers(1, 500), st.floats(0, 4), st.sampled_from([20.0, 500.0, math.inf]))
def test_a_batch_of_claims_stays_within_what_they_reserve(settled, open_seconds, claims, z, half_life) -> None:
    """Claims pay `call_tokens` each; the forecast made right after them must not ask for more."""
    before = forecast(observed(settled, open_seconds), z=z, half_life=half_life)
    after = forecast(observed(settled, [*open_seconds, *[0.0] * claims]), z=z, half_life=half_life)
    assert after.open_tokens <= before.open_tokens + claims * before.call_tokens + 1


# The same question has the same answer


@given(many, waiting, st.randoms(use_true_random=False))
def test_the_order_of_the_calls_does_not_matter(settled, open_seconds, random) -> None:
    shuffled, shuffled_open = random.sample(settled, len(settled)), random.sample(open_seconds, len(open_seconds))
    assert forecast(observed(shuffled, shuffled_open)) == forecast(observed(settled, open_seconds))


@given(many, waiting)
def test_a_forecast_changes_nothing_and_repeats_itself(settled, open_seconds) -> None:
    calls = observed(settled, open_seconds)
    for name in ("settled_seconds", "settled_ages", "settled_tokens", "open_seconds"):
        getattr(calls, name).flags.writeable = False
    assert forecast(calls) == forecast(calls)


@given(st.lists(settled_calls, min_size=1, max_size=20), waiting)
def test_tokens_may_come_as_integers(settled, open_seconds) -> None:
    calls = observed(settled, open_seconds)
    whole = Observed(
        settled_seconds=calls.settled_seconds, settled_ages=calls.settled_ages,
        settled_tokens=calls.settled_tokens.astype(np.int64), open_seconds=calls.open_seconds, max_tokens=MAX_TOKENS,
    )  # fmt: skip
    assert forecast(whole) == forecast(calls)


# The edges


def test_no_calls_at_all_cost_nothing_open_and_one_worst_case_next() -> None:
    assert forecast(observed()) == Forecast(open_tokens=0, call_tokens=MAX_TOKENS)


@given(
    st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12), st.integers(0, 10**15)), min_size=1, max_size=30),
    st.lists(st.floats(0, 1e12), min_size=1, max_size=30),
)
def test_huge_numbers_stay_within_the_bounds(settled, open_seconds) -> None:
    found = forecast(observed(settled, open_seconds, max_tokens=10**9))
    assert 0 < found.open_tokens <= 10**9 * len(open_seconds)
    assert 1 <= found.call_tokens <= 10**9


def test_clocks_that_disagree_a_little_do_no_harm() -> None:
    found = forecast(observed([(-0.5, 10, 100), (2, 10, 200)] * 20, [-0.1, 0.0, 1.0]))
    assert 300 <= found.open_tokens <= 3 * MAX_TOKENS


def test_a_bill_above_the_worst_case_counts_as_the_worst_case() -> None:
    dear, worst = [(5, 1, 3 * MAX_TOKENS)] * 50, [(5, 1, MAX_TOKENS)] * 50
    assert forecast(observed(dear, [1.0] * 5)) == forecast(observed(worst, [1.0] * 5))


def test_thousands_of_old_calls_do_not_drown_the_table() -> None:
    """Weights of very old calls are as good as nothing, and must not divide by it."""
    calls = [(1 + n % 7, n, 50 * (1 + n % 7)) for n in range(20_000)]
    found = forecast(observed(calls, [0.0] * 2_500), half_life=5)
    assert 2_500 * 50 <= found.open_tokens <= 2_500 * MAX_TOKENS


def test_calls_older_than_those_worth_reading_change_next_to_nothing() -> None:
    rng = np.random.default_rng(5)
    took = rng.lognormal(3.5, 0.8, 2 * SETTLED_MAX)
    calls = [(s, 10.0 * n, min(MAX_TOKENS, 50 * s)) for n, s in enumerate(took)]
    every, read = observed(calls, [5.0] * 1_000), observed(calls[:SETTLED_MAX], [5.0] * 1_000)
    assert forecast(read).open_tokens == pytest.approx(forecast(every).open_tokens, rel=1e-3)


def test_settled_arrays_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvariantBroken, match="lengths"):
        Observed(
            settled_seconds=np.zeros(2), settled_ages=np.zeros(2), settled_tokens=np.zeros(3),
            open_seconds=np.zeros(0), max_tokens=1,
        )  # fmt: skip
