"""Ticks are round, few, and reach around what is drawn."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.flow.report.axes import nice_step, ticks, time_label, time_ticks

START = datetime(2026, 3, 1, 9, 17, 23, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        (10, [0, 2, 4, 6, 8, 10]),
        (0.9, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (1_234_567, [0, 250_000, 500_000, 750_000, 1_000_000, 1_250_000]),
    ],
)
def test_ticks_are_round_numbers(top, expected) -> None:
    assert ticks(top) == pytest.approx(expected)


def test_nothing_to_draw_still_has_an_axis() -> None:
    assert ticks(0) == [0.0, 1.0]


def test_things_that_come_in_pieces_have_whole_ticks() -> None:
    assert ticks(2, whole=True) == [0, 1, 2]
    assert ticks(11, whole=True) == [0, 3, 6, 9, 12]


@given(st.floats(1e-9, 1e12), st.booleans())
def test_ticks_reach_the_top_and_are_few(top, whole) -> None:
    found = ticks(top, whole=whole)
    assert found[0] == 0
    assert found[-1] >= top * (1 - 1e-6)
    assert len(found) <= 6
    assert found[-1] <= max(1, 2.6 * top)


@given(st.floats(1e-9, 1e12), st.integers(1, 10))
def test_a_step_is_a_round_number(top, most) -> None:
    step = nice_step(top, most)
    assert step * most >= top * (1 - 1e-6)
    while step < 1:
        step *= 10
    while step >= 10:
        step /= 10
    assert any(step == pytest.approx(nice) for nice in (1, 2, 2.5, 5, 10))


@given(st.timedeltas(timedelta(seconds=1), timedelta(days=900)))
def test_moments_lie_within_the_span_and_their_labels_differ(span) -> None:
    found = time_ticks(START, START + span)
    assert all(START <= at <= START + span for at in found)
    assert len(found) <= 6
    labels = [time_label(at, span) for at in found]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("span", "label"),
    [
        (timedelta(seconds=50), "09:17:23"),
        (timedelta(hours=3), "09:17"),
        (timedelta(days=2), "01 Mar 09:17"),
        (timedelta(days=20), "01 Mar"),
    ],
)
def test_a_label_tells_as_much_as_the_span_needs(span, label) -> None:
    assert time_label(START, span) == label


def test_moments_are_round() -> None:
    found = time_ticks(START, START + timedelta(minutes=40))
    assert [f"{at:%H:%M:%S}" for at in found] == ["09:20:00", "09:30:00", "09:40:00", "09:50:00"]


def test_long_labels_are_fewer() -> None:
    assert len(time_ticks(START, START + timedelta(days=2))) <= 4
