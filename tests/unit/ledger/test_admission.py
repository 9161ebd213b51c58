"""Strict admission, as a law: whatever comes in whatever order, no cap is passed."""

from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.ledger.admission import Room, admit

rooms = st.dictionaries(
    st.integers(1, 4),
    st.builds(Room, open=st.booleans(), headroom_tokens=st.one_of(st.none(), st.integers(-1000, 50_000))),
    min_size=1,
)


@st.composite
def cases(draw):
    known = draw(rooms)
    wanted = draw(st.lists(st.tuples(st.sampled_from(sorted(known)), st.integers(1, 16_384)), max_size=60))
    return known, [(n, dataset, hold) for n, (dataset, hold) in enumerate(wanted)]


@given(cases())
def test_the_sum_of_admitted_holds_never_exceeds_the_headroom(case) -> None:
    known, wanted = case
    admitted, _ = admit(known, wanted)
    for dataset, room in known.items():
        total = sum(hold for n, d, hold in wanted if n in admitted and d == dataset)
        assert room.headroom_tokens is None or total <= max(0, room.headroom_tokens)


@given(cases())
def test_everyone_is_admitted_or_refused_exactly_once(case) -> None:
    known, wanted = case
    admitted, refused = admit(known, wanted)
    assert sorted(admitted + refused) == [n for n, _, _ in wanted]


@given(cases())
def test_a_closed_dataset_admits_nobody(case) -> None:
    known, wanted = case
    admitted, _ = admit(known, wanted)
    assert all(known[d].open for n, d, _ in wanted if n in admitted)


@given(cases())
def test_nobody_is_refused_who_would_still_fit(case) -> None:
    """What is left after all admissions is less than any refused hold of an open dataset."""
    known, wanted = case
    admitted, refused = admit(known, wanted)
    for dataset, room in known.items():
        if not room.open:
            continue
        if room.headroom_tokens is None:
            assert not [n for n, d, _ in wanted if d == dataset and n in refused]
            continue
        left = room.headroom_tokens - sum(h for n, d, h in wanted if n in admitted and d == dataset)
        assert all(hold > left for n, d, hold in wanted if n in refused and d == dataset)


def test_first_come_is_first_served() -> None:
    admitted, refused = admit({1: Room(open=True, headroom_tokens=10)}, [("a", 1, 6), ("b", 1, 6), ("c", 1, 4)])
    assert admitted == ["a", "c"]
    assert refused == ["b"]
