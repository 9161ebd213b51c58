"""The breaker's rules, as laws over the latest answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.errors import InputError
from eagle3gen.ledger.health import GOOD, Breaker, Fault, Trip, count_faults, push, trip

faults = st.lists(st.none() | st.sampled_from(Fault), max_size=60)


@given(faults, faults, st.integers(1, 50))
def test_the_window_holds_the_latest_answers_only(before, after, window) -> None:
    recent = push(push("", before, window), after, window)
    assert recent == push("", before + after, window)
    assert len(recent) <= window


@given(faults)
def test_a_breaker_opens_exactly_when_a_share_is_passed(answers) -> None:
    breaker, recent = Breaker(), push("", answers, 200)
    passed = {f for f in Fault if answers.count(f) > breaker.share(f) * len(answers)}
    tripped = trip(recent, breaker, 1)
    assert (tripped.fault in passed) if passed else tripped is None


@given(faults.filter(lambda a: len(a) < 20))
def test_too_few_answers_say_nothing(answers) -> None:
    assert trip(push("", answers, 200), Breaker(), 20) is None


def test_good_answers_never_open_it_even_with_shares_of_nothing() -> None:
    strict = Breaker(verdict=0, structure=0, reasoning=0, permanent=0)
    assert trip(GOOD * 200, strict, 1) is None
    assert trip(GOOD * 199 + "p", strict, 1).fault is Fault.PERMANENT


def test_a_share_of_one_switches_a_fault_off() -> None:
    assert trip("v" * 200, Breaker(verdict=1), 1) is None


def test_every_fault_has_a_letter_of_its_own() -> None:
    assert len({fault.value[0] for fault in Fault} | {GOOD}) == len(Fault) + 1
    assert count_faults("vv.s") == {"verdict": 2, "structure": 1, "reasoning": 0, "permanent": 0, "lost": 0}


def test_the_reason_names_count_share_examples_and_the_last_words() -> None:
    said = Trip(Fault.REASONING, 9, 20, 0.4).sentence([3, 5], "all in the reasoning")
    assert said == (
        "breaker: 9 of the last 20 answers stood wholly in the reasoning (more than 40%), for instance prompts 3, 5:"
        " all in the reasoning"
    )


def test_what_is_not_named_keeps_its_default() -> None:
    assert Breaker.read("window=50, verdict=0.5") == Breaker(window=50, verdict=0.5)
    assert Breaker(**Breaker.read("minimum=3").as_json()) == Breaker(minimum=3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("verdicts=0.3", "the breaker knows no 'verdicts'; it knows window, minimum, verdict"),
        ("verdict=much", "the breaker's verdict is no number: 'much'"),
        ("verdict=1.5", "a share between 0 and 1"),
        ("verdict=nan", "a share between 0 and 1"),
        ("window=5", "minimum <= window"),
        ("minimum=0", "1 <= minimum"),
        ("window", "is no number"),
    ],
)
def test_a_breaker_that_cannot_be_read_is_told_in_one_sentence(text, said) -> None:
    with pytest.raises(InputError, match=said):
        Breaker.read(text)
