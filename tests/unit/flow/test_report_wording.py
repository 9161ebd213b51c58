"""Numbers as people read them; the unknown is never shown as 0."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.flow.report import wording as w
from eagle3gen.flow.report.projection import Fit, Hours, Projection, Tokens, Usd
from eagle3gen.ledger.money import Cap

from .report_values import figures, host, part


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (7, "7"), (999, "999"), (1000, "1k"), (1250, "1.25k"), (10_240, "10.2k"), (4_760_000, "4.76M"),
     (24_000_000, "24M"), (3 * 10**9, "3G"), (0.25, "0.25"), (999_999, "1M"), (999_600, "1M")],
)  # fmt: skip
def test_a_short_number_has_three_digits(value, words) -> None:
    assert w.short(value) == words


@pytest.mark.parametrize(
    ("amount", "words"),
    [(None, "?"), (Decimal(0), "$0"), (Decimal("0.00012"), "$0.0001"), (Decimal("12.34567"), "$12.3457"),
     (Decimal("1234.567"), "$1,234.57")],
)  # fmt: skip
def test_money_is_as_exact_as_is_useful(amount, words) -> None:
    assert w.money(amount) == words


def test_a_small_cost_is_not_shown_as_nothing() -> None:
    assert w.money(Decimal("0.00000012")) == "<$0.0001"


def test_a_plus_says_that_some_prices_are_missing() -> None:
    assert w.cost(figures(unpriced_attempts=1)) == "$0.0050+"
    assert w.cost(figures(cost_usd=None, unpriced_attempts=1)) == "?"
    assert w.tokens(figures(uncounted_attempts=1)) == "2,000+"
    assert w.tokens(figures(completion_tokens=None, uncounted_attempts=1)) == "?"


@pytest.mark.parametrize(
    ("part_of", "whole", "words"),
    [(0, 0, "–"), (0, 5, "0.0%"), (1, 100_000, "<0.1%"), (99_999, 100_000, ">99.9%"), (5, 5, "100.0%"),
     (1, 3, "33.3%")],
)  # fmt: skip
def test_a_share_is_exact_at_its_ends(part_of, whole, words) -> None:
    assert w.share(part_of, whole) == words


@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_only_all_is_shown_as_all_and_only_nothing_as_nothing(part_of, more) -> None:
    assert w.share(part_of, part_of + more) not in {"100.0%", "0.0%"}


@pytest.mark.parametrize(
    ("hours", "words"),
    [(0.01, "36 s"), (0.5, "30 min"), (1.04, "62 min"), (5.25, "5.2 h"), (100, "4.2 days")],
)
def test_a_duration_is_in_the_unit_that_people_use(hours, words) -> None:
    assert w.duration(hours) == words


@pytest.mark.parametrize(
    ("amount", "words"), [(0, "$0"), (2, "$2"), (2.5, "$2.50"), (0.005, "$0.005"), (0.01, "$0.01"), (2500, "$2.5k")]
)
def test_a_tick_in_usd_looks_like_money(amount, words) -> None:
    assert w.dollars(amount) == words


def test_a_moment_is_in_utc() -> None:
    assert w.moment(datetime(2026, 3, 1, 2, 30, tzinfo=timezone(timedelta(hours=5)))) == "2026-02-28 21:30 UTC"


def test_a_host_that_nobody_named_is_not_blank() -> None:
    unnamed = host(None, None)
    assert (w.host_name(unnamed), w.model_name(unnamed)) == ("host not told", "model not told")


def test_a_refusal_without_a_model_does_not_make_every_row_name_its_model() -> None:
    hosts = [host("a", "m-1"), host("b", None)]
    assert [w.label(h, hosts) for h in hosts] == ["a", "b"]


def test_a_projection_is_a_range_or_a_question_mark() -> None:
    todo = Projection(
        prompts=3, tokens=Tokens(mean=1200, pessimistic=3_400_000),
        usd=Usd(mean=Decimal(1), pessimistic=Decimal("2.5")), hours=Hours(mean=0.5, pessimistic=3),
    )  # fmt: skip
    assert (w.tokens_to_go(todo), w.usd_to_go(todo), w.time_to_go(todo)) == ("1.2k–3.4M", "$1.00–$2.50", "30 min–3.0 h")
    unknown = Projection(prompts=3, tokens=None, usd=None, hours=None)
    assert (w.tokens_to_go(unknown), w.usd_to_go(unknown), w.time_to_go(unknown)) == ("?", "?", "?")


def test_a_rest_that_does_not_fit_is_said() -> None:
    todo = Projection(prompts=3, tokens=None, usd=None, hours=None, fits_cap=Fit.NO)
    assert "does not fit under the cap:" in w.projection_notes(part(projection=todo))[0]
    assert "of at least one dataset" in w.projection_notes(part(None, projection=todo))[0]


def test_notes_tell_what_the_sums_hold_and_what_they_miss() -> None:
    f = figures(failed_attempts=2, failed_tokens=30, failed_usd=None, held_attempts=1, held_tokens=100, open_attempts=1,
                open_tokens=50, uncounted_attempts=1, unpriced_attempts=3)  # fmt: skip
    first, *rest = w.notes(part(figures=f))
    assert first == "2 billed attempts brought no answer: 30 tokens and an unknown cost, in the sums above"
    assert len(rest) == 4
    assert w.notes(part()) == []


@pytest.mark.parametrize(
    ("cap", "value", "words"),
    [(Cap(), "–", "no cap"), (Cap(tokens=10_000), "7,900", "of 10k tokens, 100 held or open"),
     (Cap(usd=Decimal(1)), "$0.9950", "of $1.0000"),
     (Cap(tokens=10_000, usd=Decimal(1)), "7,900", "of 10k tokens, 100 held or open; $0.9950 of $1.0000")],
)  # fmt: skip
def test_what_is_left_of_a_cap_is_shown_beside_it(cap, value, words) -> None:
    one = part(cap=cap, figures=figures(held_tokens=100))
    assert (w.left(one), w.left_words(one)) == (value, words)
