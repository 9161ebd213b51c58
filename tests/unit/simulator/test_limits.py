"""How much is let in."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator.errors import Failure
from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.limits import Limits
from eagle3gen.simulator.options import Options
from eagle3gen.simulator.rates import read_rates


class Clock:
    """A time that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limits(clock) -> Limits:
    return Limits(clock=clock)


def options(**knobs) -> Options:
    return Options(tokenizer=Path(), **knobs)


def test_without_limits_all_are_let_in(limits) -> None:
    free = options()
    for _ in range(5000):
        assert limits.at_edge(free) is None
        assert limits.for_key(free, "k") is None
        assert limits.first_free(free, HOSTS, fallbacks=False) is HOSTS[0]
        assert limits.in_pool(free, HOSTS[0], 5000) is None


def test_a_key_has_so_many_calls_in_a_minute(limits, clock) -> None:
    knobs = options(rate_limit=3)
    clock.now = 960.0
    assert [limits.for_key(knobs, "k") is None for _ in range(5)] == [True] * 3 + [False] * 2
    assert limits.for_key(knobs, "another") is None
    clock.now += 60
    assert limits.for_key(knobs, "k") is None


def test_the_platform_says_in_ms_when_the_next_may_come(limits, clock) -> None:
    knobs = options(rate_limit=1)
    clock.now = 960.0 + 20
    limits.for_key(knobs, "k")
    failure = limits.for_key(knobs, "k")
    assert failure.status == json.loads(failure.body)["error"]["code"] == 429
    assert failure.headers["X-RateLimit-Limit"] == "1"
    assert len(failure.headers["X-RateLimit-Reset"]) == 13


@pytest.mark.parametrize(("seconds", "busy"), [(0, False), (4.9, False), (5, True), (7.9, True), (8, False)])
def test_there_is_a_time_in_which_everything_is_429(limits, clock, seconds, busy) -> None:
    clock.now += seconds
    failure = limits.for_key(options(busy_after_seconds=5.0, busy_seconds=3.0), "k")
    assert (failure is not None) is busy
    if busy:
        assert (failure.status, int(failure.headers["Retry-After"]) in range(1, 4)) == (429, True)


def test_the_busy_time_begins_when_the_knobs_were_turned(limits, clock) -> None:
    clock.now += 100
    assert limits.for_key(options(busy_seconds=3.0), "k") is None
    limits.turned = clock.now
    assert limits.for_key(options(busy_seconds=3.0), "k") is not None


def test_a_host_takes_a_burst_and_then_its_rate(limits, clock) -> None:
    knobs, hosts = options(host_rate=read_rates("Moonshot AI=600")), HOSTS[:1]
    taken = [not isinstance(limits.first_free(knobs, hosts, fallbacks=True), Failure) for _ in range(12)]
    assert taken == [True] * 10 + [False] * 2
    clock.now += 0.2
    taken = [not isinstance(limits.first_free(knobs, hosts, fallbacks=True), Failure) for _ in range(4)]
    assert taken == [True] * 2 + [False] * 2


@given(st.lists(st.floats(0, 3), max_size=60), st.integers(1, 600))
def test_a_host_never_takes_more_than_its_burst_and_its_rate(waits, rate) -> None:
    clock = Clock()
    limits, knobs = Limits(clock=clock), options(host_rate=read_rates(str(rate)))
    taken = 0
    for wait in waits:
        clock.now += wait
        taken += not isinstance(limits.first_free(knobs, HOSTS[:1], fallbacks=True), Failure)
    assert taken <= max(1, rate / 60) + sum(waits) * rate / 60 + 1e-6


def test_a_host_that_is_full_is_passed_over_when_fallbacks_are_allowed(limits) -> None:
    knobs = options(host_rate=read_rates("Moonshot AI=0"))
    assert limits.first_free(knobs, HOSTS, fallbacks=True) is HOSTS[1]
    refused = limits.first_free(knobs, HOSTS, fallbacks=False)
    error = json.loads(refused.body)["error"]
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert (error["message"], error["metadata"]["provider_name"]) == ("Provider returned error", "Moonshot AI")


def test_when_all_hosts_are_full_the_first_is_named(limits) -> None:
    refused = limits.first_free(options(host_rate=read_rates("0")), HOSTS, fallbacks=True)
    assert json.loads(refused.body)["error"]["metadata"]["provider_name"] == "Moonshot AI"


def test_a_shared_pool_has_so_many_places(limits) -> None:
    knobs = options(pool=10)
    assert limits.in_pool(knobs, HOSTS[0], 9) is None
    refused = limits.in_pool(knobs, HOSTS[0], 10)
    metadata = json.loads(refused.body)["error"]["metadata"]
    assert (refused.status, metadata["limit_source"]) == (429, "upstream_provider_shared_pool")
    assert "Retry-After" not in refused.headers


def test_the_edge_protects_itself_against_a_burst_for_a_while(limits, clock) -> None:
    knobs = options(edge_burst=5, edge_seconds=10.0)
    assert [limits.at_edge(knobs) is None for _ in range(7)] == [True] * 5 + [False] * 2
    clock.now += 9
    refused = limits.at_edge(knobs)
    assert (refused.status, refused.body) == (429, b"error code: 1015")
    assert refused.headers["Content-Type"].startswith("text/plain")
    clock.now += 2
    assert limits.at_edge(knobs) is None


def test_the_edge_counts_by_the_second(limits, clock) -> None:
    knobs = options(edge_burst=5)
    for _ in range(10):
        assert limits.at_edge(knobs) is None
        clock.now += 0.3
