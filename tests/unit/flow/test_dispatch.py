"""Fair shares of the queues, as laws."""

from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.flow.dispatch import share
from eagle3gen.ledger.demand import Demand
from eagle3gen.ledger.money import Amount, Cap
from eagle3gen.records import Queue


def demand(
    dataset_id: int, due: int, *, queue: Queue = Queue.SHORT, queued: int = 0, hold: int = 100, room=None
) -> Demand:
    return Demand(dataset_id=dataset_id, queue=queue, pending_due=due, queued=queued, hold=Amount(hold), left=Cap(room))


@st.composite
def cases(draw):
    demands = []
    for dataset_id in range(1, draw(st.integers(1, 5)) + 1):
        room = draw(st.none() | st.integers(-500, 30_000))
        demands += [
            demand(
                dataset_id,
                draw(st.integers(0, 500)),
                queue=queue,
                queued=draw(st.integers(0, 50)),
                hold=draw(st.integers(1, 500)),
                room=room,
            )
            for queue in Queue
        ]
    return demands, {queue: draw(st.integers(-50, 400)) for queue in Queue}


@given(cases())
def test_a_queue_gets_no_more_than_its_room(case) -> None:
    demands, room = case
    for queue in Queue:
        assert sum(g.count for g in share(demands, room) if g.queue is queue) <= max(0, room[queue])


@given(cases())
def test_no_dataset_gets_more_than_it_has_due(case) -> None:
    demands, room = case
    due = {(d.dataset_id, d.queue): d.pending_due for d in demands}
    for grant in share(demands, room):
        assert 0 < grant.count <= due[grant.dataset_id, grant.queue]


@given(cases())
def test_what_is_queued_never_wants_more_than_the_cap_admits(case) -> None:
    demands, room = case
    grants = {(g.dataset_id, g.queue): g.count for g in share(demands, room)}
    for dataset_id in {d.dataset_id for d in demands}:
        own = [d for d in demands if d.dataset_id == dataset_id]
        if own[0].left.tokens is None or not any((dataset_id, d.queue) in grants for d in own):
            continue
        wanted = sum((d.queued + grants.get((dataset_id, d.queue), 0)) * d.hold.tokens for d in own)
        assert wanted <= own[0].left.tokens


@given(cases())
def test_no_place_stays_free_while_somebody_could_use_it(case) -> None:
    demands, room = case
    grants = {(g.dataset_id, g.queue): g.count for g in share(demands, room)}
    for queue in Queue:
        free = max(0, room[queue]) - sum(n for (_, q), n in grants.items() if q is queue)
        uncapped = [d for d in demands if d.queue is queue and d.left.tokens is None]
        unserved = sum(d.pending_due - grants.get((d.dataset_id, queue), 0) for d in uncapped)
        assert free == 0 or unserved == 0


def test_equal_hunger_gets_equal_shares() -> None:
    grants = share([demand(1, 1000), demand(2, 1000)], {Queue.SHORT: 100, Queue.LONG: 0})
    assert sorted(g.count for g in grants) == [50, 50]


def test_what_a_small_dataset_leaves_goes_to_the_large_one() -> None:
    grants = share([demand(1, 1000), demand(2, 10)], {Queue.SHORT: 100, Queue.LONG: 0})
    assert {g.dataset_id: g.count for g in grants} == {1: 90, 2: 10}
