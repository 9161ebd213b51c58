"""What is still to come, as laws and by hand."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.flow.report.projection import (
    NOTHING_LEFT,
    PSEUDO_ANSWERS,
    Cap,
    Fit,
    Known,
    Tokens,
    fit,
    project,
    project_all,
)  # fmt: skip

from .report_values import figures, host, pace, queue


def own(*hosts):
    return lambda q: Known(queues=[q], hosts=[h.figures for h in hosts], borrowed=False)


LEFT = {"waiting": 30, "worst_tokens": 30_000}


def test_nothing_is_left_when_every_prompt_has_ended() -> None:
    assert project([queue()], own(), None, figures()) == NOTHING_LEFT


def test_the_mean_is_that_of_the_answers_of_the_queue() -> None:
    found = project([queue(**LEFT)], own(), pace(), figures())
    assert found.prompts == 30
    assert found.tokens.mean == 3000
    assert found.usd.mean == Decimal("0.003")
    assert found.hours.mean == pytest.approx(3000 / 10 / 3600)


def test_failed_attempts_will_cost_as_they_did() -> None:
    assert project([queue(spent_tokens=3000, **LEFT)], own(), pace(), figures()).tokens.mean == 4500


def test_the_pessimistic_end_counts_unseen_answers_at_their_limit() -> None:
    found = project([queue(**LEFT)], own(), pace(), figures()).tokens
    long_mean = (2000 + PSEUDO_ANSWERS * 1000) / (20 + PSEUDO_ANSWERS)
    assert found.pessimistic > 30 * long_mean


def test_an_open_call_is_expected_to_run_to_its_limit() -> None:
    few = project([queue(waiting=30, worst_tokens=40_000)], own(), pace(), figures()).tokens
    more = project([queue(waiting=20, in_flight=10, worst_tokens=40_000)], own(), pace(), figures()).tokens
    assert more.mean == few.mean
    assert more.pessimistic > few.pessimistic


def test_without_an_answer_nothing_is_known_and_it_says_so() -> None:
    found = project([queue(answers=0, length_sum=0, **LEFT)], own(), pace(), figures())
    assert (found.tokens, found.usd, found.hours) == (None, None, None)
    assert "No answer of this model" in found.unknown[0]


def test_without_a_price_only_the_cost_is_unknown() -> None:
    found = project([queue(priced_tokens=0, priced_usd=Decimal(0), **LEFT)], own(), pace(), figures())
    assert found.tokens is not None
    assert found.usd is None
    assert found.unknown == ("No cost was told yet, so none can be projected",)


@pytest.mark.parametrize("speed", [None, pace(0)])
def test_without_a_pace_only_the_time_is_unknown(speed) -> None:
    found = project([queue(**LEFT)], own(), speed, figures())
    assert found.hours is None
    assert found.usd is not None
    assert "time to go is unknown" in found.unknown[0]


def test_the_dearest_host_of_weight_prices_the_pessimistic_end() -> None:
    dear = host(priced_tokens=1000, priced_usd=Decimal("0.009"))
    rare = host(priced_tokens=10, priced_usd=Decimal(1))
    found = project([queue(**LEFT)], own(dear, rare), pace(), figures())
    assert found.usd.pessimistic == (found.tokens.pessimistic * Decimal("0.000009")).quantize(Decimal("0.000001"))


def test_the_last_call_takes_as_long_as_a_call_takes() -> None:
    slow = figures(latency_p50=3600.0, latency_p95=7200.0)
    found = project([queue(waiting=1, worst_tokens=1000)], own(), pace(), slow)
    assert found.hours.mean == 1.0
    assert found.hours.pessimistic > 2.0


def test_all_together_are_the_sum_at_the_pace_of_all() -> None:
    one = project([queue(**LEFT)], own(), None, figures())
    found = project_all([one, one, NOTHING_LEFT], pace(60), figures())
    assert found.prompts == 60
    assert found.tokens == Tokens(mean=6000, pessimistic=2 * one.tokens.pessimistic)
    assert found.usd.mean == 2 * one.usd.mean
    assert found.hours.mean == pytest.approx(100 / 3600)


def test_all_together_are_unknown_when_one_is() -> None:
    unknown = project([queue(answers=0, length_sum=0, **LEFT)], own(), None, figures())
    found = project_all([project([queue(**LEFT)], own(), None, figures()), unknown], pace(), figures())
    assert found.prompts == 60
    assert found.tokens is None


def test_what_was_borrowed_is_said() -> None:
    def like_others(_):
        return Known(queues=[queue()], hosts=[], borrowed=True)

    found = project([queue(answers=0, length_sum=0, **LEFT)], like_others, None, figures())
    assert found.borrowed
    assert found.tokens.mean == 3000


@pytest.mark.parametrize(
    ("cap", "fits"),
    [(Cap(), None), (Cap(tokens=100_000), Fit.YES), (Cap(tokens=5_000), Fit.PERHAPS), (Cap(tokens=4_999), Fit.NO),
     (Cap(tokens=100_000, usd=Decimal("0.0079")), Fit.NO), (Cap(usd=Decimal("0.008")), Fit.PERHAPS),
     (Cap(usd=Decimal(9)), Fit.YES)],
)  # fmt: skip
def test_the_rest_is_held_against_the_cap(cap, fits) -> None:
    projection = project([queue(**LEFT)], own(), pace(), figures())
    assert fit(cap, figures(), projection) is fits


def test_held_tokens_take_room_under_the_cap() -> None:
    projection = project([queue(**LEFT)], own(), pace(), figures())
    assert fit(Cap(tokens=100_000), figures(held_tokens=99_000), projection) is Fit.NO


def test_a_full_cap_matters_no_more_when_nothing_is_left() -> None:
    assert fit(Cap(tokens=1), figures(), NOTHING_LEFT) is None


@given(
    waiting=st.integers(0, 5000),
    in_flight=st.integers(0, 2000),
    lengths=st.lists(st.integers(1, 1000), min_size=1, max_size=50),
    failed=st.integers(0, 10_000),
)
def test_a_range_is_ordered_and_never_above_the_worst_case(waiting, in_flight, lengths, failed) -> None:
    spent = sum(lengths) + failed
    one = queue(
        waiting=waiting, in_flight=in_flight, worst_tokens=1000 * (waiting + in_flight), answers=len(lengths),
        length_sum=sum(lengths), length_squares=sum(n * n for n in lengths), spent_tokens=spent, priced_tokens=spent,
        priced_usd=Decimal(spent) / 1_000_000,
    )  # fmt: skip
    found = project([one], own(), pace(), figures())
    assert 0 <= found.tokens.mean <= found.tokens.pessimistic
    assert found.tokens.pessimistic <= 1000 * (waiting + in_flight) * spent / sum(lengths) + 1
    assert found.usd.mean <= found.usd.pessimistic
    assert found.hours.mean <= found.hours.pessimistic


def test_more_is_known_the_narrower_the_range_gets() -> None:
    def width(times: int) -> int:
        known = queue(
            answers=20 * times,
            length_sum=2000 * times,
            length_squares=300_000 * times,
            spent_tokens=2000 * times,
            **LEFT,
        )
        found = project([known], own(), None, figures()).tokens
        return found.pessimistic - found.mean

    assert width(1) > width(10) > width(1000)
