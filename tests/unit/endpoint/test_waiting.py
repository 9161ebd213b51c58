"""Waits: they grow, they are spread, and none is without an end."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.endpoint.waiting import WAIT_SECONDS_MAX, backoff_seconds, bounded, outage_seconds, retry_after_seconds

ASKED = st.none() | st.floats(allow_nan=True, allow_infinity=True)


@given(st.integers(0, 10_000), ASKED, st.integers())
def test_every_wait_ends(tries, asked, seed):
    """No number of tries and no wish of an endpoint makes a wait longer than a few minutes."""
    assert 0.0 <= backoff_seconds(tries, asked, random.Random(seed)) <= 1.25 * WAIT_SECONDS_MAX


@given(ASKED, st.integers())
def test_every_wait_of_an_outage_ends(asked, seed):
    """So an endpoint that is back is noticed."""
    assert 0.0 <= outage_seconds(asked, random.Random(seed)) <= 1.25 * WAIT_SECONDS_MAX


@pytest.mark.parametrize(("tries", "low", "high"), [(1, 1, 2), (2, 2, 4), (4, 8, 16), (6, 30, 60), (20, 30, 60)])
def test_a_backoff_doubles_up_to_a_minute(tries, low, high):
    """Between half and all of 2^tries seconds, at most 60."""
    waits = [backoff_seconds(tries, None, random.Random(seed)) for seed in range(200)]
    assert low <= min(waits) < (low + high) / 2 < max(waits) <= high


def test_an_outage_is_asked_about_every_half_minute():
    """Spread between 5 and 30 s, so that thousands of prompts do not come back together."""
    waits = [outage_seconds(None, random.Random(seed)) for seed in range(200)]
    assert 5 <= min(waits) < 10
    assert 25 < max(waits) <= 30


@given(st.floats(0, WAIT_SECONDS_MAX), st.integers(0, 20), st.integers())
def test_a_wish_of_the_endpoint_is_never_undercut(asked, tries, seed):
    """Whoever says when to come back is not asked sooner."""
    rng = random.Random(seed)
    assert backoff_seconds(tries, asked, rng) >= asked
    assert outage_seconds(asked, rng) >= asked


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists))
def test_anything_is_bounded_or_nothing(value):
    """Whatever stands where a wait belongs."""
    seconds = bounded(value)
    assert seconds is None or 0.0 <= seconds <= WAIT_SECONDS_MAX


@given(st.dictionaries(st.sampled_from(["Retry-After", "X-RateLimit-Reset"]), st.text()), st.floats(0, 1e10))
def test_any_header_is_read(headers, now):
    """Headers never raise."""
    seconds = retry_after_seconds(headers, now)
    assert seconds is None or 0.0 <= seconds <= WAIT_SECONDS_MAX


@pytest.mark.parametrize("date", ["Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "1 1 1", ";"])
def test_an_odd_date_is_read(date):
    """Dates at the ends of time never raise."""
    assert retry_after_seconds({"Retry-After": date}, 0.0) in {None, 0.0, 86_400.0}
