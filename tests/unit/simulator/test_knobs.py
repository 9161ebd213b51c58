"""How the values of knobs are written."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator import knobs
from eagle3gen.simulator.faults import FAULTS, met, read_shares
from eagle3gen.simulator.knobs import BadKnob, changed
from eagle3gen.simulator.options import KNOBS, Options


@pytest.mark.parametrize(
    ("kind", "told", "value"),
    [
        (knobs.SHARE, "0.5", 0.5),
        (knobs.SHARE, 1, 1.0),
        (knobs.SECONDS, "3", 3.0),
        (knobs.TOKENS, "600", 600),
        (knobs.USD, "5.00", Decimal("5.00")),
        (knobs.USD, 0.1, Decimal("0.1")),
        (knobs.USD, None, None),
        (knobs.FLAG, True, True),
        (knobs.TEXT, "x", "x"),
        (knobs.WORDS, "x", ("x",)),
        (knobs.WORDS, ["x", "y"], ("x", "y")),
    ],
)
def test_a_value_is_read_from_text_and_from_json(kind, told, value) -> None:
    assert kind.read(told) == value


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (knobs.SHARE, 1.1),
        (knobs.SHARE, "x"),
        (knobs.SHARE, True),
        (knobs.SHARE, None),
        (knobs.SHARE, float("nan")),
        (knobs.SECONDS, -1),
        (knobs.SECONDS, float("inf")),
        (knobs.TOKENS, 7),
        (knobs.TOKENS, 8.5),
        (knobs.PORT, 70_000),
        (knobs.USD, -1),
        (knobs.USD, "NaN"),
        (knobs.USD, True),
        (knobs.FLAG, "yes"),
        (knobs.TEXT, 3),
        (knobs.WORDS, [3]),
        (knobs.one_of("word", "a", "b"), "c"),
    ],
)
def test_another_value_is_refused(kind, told) -> None:
    with pytest.raises(BadKnob):
        kind.read(told)


def test_knobs_are_changed_by_the_names_of_their_options() -> None:
    assert changed(KNOBS, {"latency": 3, "fail-share": 0.5}) == {"latency_seconds": 3.0, "fail_share": 0.5}


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ([], "object"),
        ({"nothing": 1}, "there is no knob nothing"),
        ({"seed": 1}, "at the start only"),
        ({"latency": -1}, "latency: -1 is not a number"),
        ({"fault": "count_drift"}, "FAULT=SHARE"),
    ],
)
def test_a_wrong_knob_is_named(told, says) -> None:
    with pytest.raises(BadKnob, match=says):
        changed(KNOBS, told)


def test_every_knob_reads_its_own_default(tmp_path) -> None:
    options = Options(tokenizer=tmp_path)
    for name, knob in KNOBS.items():
        assert knob.kind.read(getattr(options, name)) == getattr(options, name)


def test_every_knob_has_its_own_flag_and_says_what_it_is() -> None:
    assert len({knob.flag for knob in KNOBS.values()}) == len(KNOBS)
    assert all(knob.says.endswith(".") for knob in KNOBS.values())


def test_shares_of_faults_are_for_all_hosts_or_for_one() -> None:
    assert read_shares(["count_drift=0.5", "Moonshot AI:no_cost=1"]) == (
        ("all", "count_drift", 0.5),
        ("Moonshot AI", "no_cost", 1.0),
    )


@pytest.mark.parametrize("told", ["x=1", "Chutes:x=1", "no_cost", "no_cost=2", "no_cost=x", "no_cost="])
def test_a_fault_that_is_wrongly_written_is_refused(told) -> None:
    with pytest.raises(BadKnob):
        read_shares(told)


def draws(shares, host: str = "A", count: int = 400) -> list[frozenset[str]]:
    import random

    return [met(read_shares(shares), host, random.Random(n)) for n in range(count)]


def test_a_host_has_its_own_share_of_a_fault() -> None:
    shares = ["no_cost=1", "A:no_cost=0", "A:no_usage=1"]
    assert set(draws(shares, "A")) == {frozenset({"no_usage"})}
    assert set(draws(shares, "B")) == {frozenset({"no_cost"})}


@given(st.sampled_from(sorted(FAULTS)), st.sampled_from([0.1, 0.5, 0.9]))
def test_a_fault_is_met_about_as_often_as_its_share_says(name, share) -> None:
    hits = sum(name in hit for hit in draws([f"{name}={share}"]))
    assert abs(hits / 400 - share) < 0.1


def test_faults_are_drawn_each_by_itself() -> None:
    seen = set(draws(["no_cost=0.5", "count_drift=0.5"]))
    assert seen == {
        frozenset(),
        frozenset({"no_cost"}),
        frozenset({"count_drift"}),
        frozenset({"no_cost", "count_drift"}),
    }
