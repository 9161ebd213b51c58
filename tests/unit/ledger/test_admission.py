"""Admission, as a law: whatever comes in whatever order, no cap is passed."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.ledger.admission import Room, admit
from eagle3gen.ledger.money import UNCAPPED, ZERO, Amount, Cap

usd = st.decimals(min_value="-1", max_value="50", places=6)
caps = st.builds(Cap, st.none() | st.integers(-1000, 50_000), st.none() | usd)
rooms = st.dictionaries(
    st.integers(1, 4),
    st.builds(Room, open=st.booleans(), left=caps, slots=st.none() | st.integers(0, 20)),
    min_size=1,
)
holds = st.builds(Amount, st.integers(1, 16_384), st.decimals(min_value=0, max_value=1, places=9))


@st.composite
def cases(draw):
    known = draw(rooms)
    wanted = draw(st.lists(st.tuples(st.sampled_from(sorted(known)), holds), max_size=60))
    return known, draw(caps), [(n, dataset, hold) for n, (dataset, hold) in enumerate(wanted)]


def total(wanted, admitted, dataset=None) -> Amount:
    return sum((hold for n, d, hold in wanted if n in admitted and dataset in {d, None}), start=ZERO)


def kept(cap: Cap, sum_of_holds: Amount) -> bool:
    tokens = cap.tokens is None or sum_of_holds.tokens <= max(0, cap.tokens)
    return tokens and (cap.usd is None or sum_of_holds.usd <= max(Decimal(0), cap.usd))


@given(cases())
def test_the_sum_of_admitted_holds_never_exceeds_what_is_left_of_any_cap(case) -> None:
    known, plan_left, wanted = case
    admitted, _ = admit(known, plan_left, wanted)
    assert kept(plan_left, total(wanted, admitted))
    assert all(kept(room.left, total(wanted, admitted, dataset)) for dataset, room in known.items())


@given(cases())
def test_everyone_is_admitted_or_refused_exactly_once(case) -> None:
    known, plan_left, wanted = case
    admitted, refused = admit(known, plan_left, wanted)
    assert sorted(admitted + refused) == [n for n, _, _ in wanted]


@given(cases())
def test_a_closed_dataset_admits_nobody(case) -> None:
    known, plan_left, wanted = case
    admitted, _ = admit(known, plan_left, wanted)
    assert all(known[d].open for n, d, _ in wanted if n in admitted)


@given(cases())
def test_a_canary_that_is_out_is_never_larger_than_its_slots(case) -> None:
    known, plan_left, wanted = case
    admitted, _ = admit(known, plan_left, wanted)
    for dataset, room in known.items():
        assert room.slots is None or len([n for n, d, _ in wanted if n in admitted and d == dataset]) <= room.slots


@given(cases())
def test_nobody_is_refused_who_would_still_fit(case) -> None:
    """Whoever was refused does not fit into what is left after all admissions."""
    known, plan_left, wanted = case
    admitted, refused = admit(known, plan_left, wanted)
    plan_rest = plan_left.left(total(wanted, admitted))
    for n, dataset, hold in wanted:
        room = known[dataset]
        rest = room.left.left(total(wanted, admitted, dataset)).narrower(plan_rest)
        full = room.slots is not None and len([1 for m, d, _ in wanted if m in admitted and d == dataset]) == room.slots
        assert n not in refused or not room.open or full or not rest.admits(hold)


def test_first_come_is_first_served() -> None:
    wanted = [("a", 1, Amount(6)), ("b", 1, Amount(6)), ("c", 1, Amount(4))]
    assert admit({1: Room(open=True, left=Cap(10))}, UNCAPPED, wanted) == (["a", "c"], ["b"])


def test_the_plans_cap_is_spent_once_by_all_datasets() -> None:
    known = {1: Room(open=True), 2: Room(open=True)}
    wanted = [("a", 1, Amount(6)), ("b", 2, Amount(6))]
    assert admit(known, Cap(10), wanted) == (["a"], ["b"])
