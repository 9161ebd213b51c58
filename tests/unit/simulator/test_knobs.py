"""How the values of knobs are written."""

from decimal import Decimal

import pytest

from eagle3gen.simulator import knobs
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
