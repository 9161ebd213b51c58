"""Datasets are added once, keep their settings, and take new caps."""

import asyncio

import pytest

from eagle3gen.errors import InputError
from eagle3gen.ledger.datasets import add_dataset, datasets, lock_datasets, set_state
from eagle3gen.ledger.states import DatasetState

from .conftest import spec


async def add(ledger, made) -> int:
    async with ledger.begin() as conn:
        return await add_dataset(conn, made)


async def all_of(ledger):
    async with ledger.begin() as conn:
        return await datasets(conn)


async def test_a_new_dataset_is_open_and_has_spent_nothing(ledger) -> None:
    dataset_id = await add(ledger, spec(cap_tokens=500))
    (found,) = await all_of(ledger)
    assert (found.id, found.state, found.left.tokens, found.cost_usd) == (dataset_id, DatasetState.OPEN, 500, 0)
    assert found.sampling == {"temperature": 1}


async def test_the_same_dataset_again_is_the_same_row(ledger) -> None:
    first = await add(ledger, spec())
    assert await add(ledger, spec()) == first
    assert len(await all_of(ledger)) == 1


async def test_two_who_add_the_same_dataset_at_once_get_the_same_row(ledger) -> None:
    ids = await asyncio.gather(*(add(ledger, spec()) for _ in range(4)))
    assert len(set(ids)) == 1


@pytest.mark.parametrize(("cap", "expected"), [(900, 900), (10, 10), (None, 500)])
async def test_a_new_cap_is_taken_and_no_cap_leaves_it(ledger, cap, expected) -> None:
    await add(ledger, spec(cap_tokens=500))
    await add(ledger, spec(cap_tokens=cap))
    assert (await all_of(ledger))[0].cap_tokens == expected


async def test_a_tokenizer_may_move_but_not_change(ledger) -> None:
    await add(ledger, spec())
    await add(ledger, spec(tokenizer="/elsewhere"))
    assert (await all_of(ledger))[0].tokenizer == "/elsewhere"
    with pytest.raises(InputError, match="tokenizer_sha256 is abc, not xyz"):
        await add(ledger, spec(tokenizer_sha256="xyz"))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("model", "other"), ("endpoint_url", "http://127.0.0.1/v2"), ("sampling", {"temperature": 0.5})],
)
async def test_what_answers_were_made_with_may_not_change(ledger, setting, value) -> None:
    await add(ledger, spec(cap_tokens=500))
    with pytest.raises(InputError, match=f"{setting} is"):
        await add(ledger, spec(**{setting: value}, cap_tokens=900))
    assert (await all_of(ledger))[0].cap_tokens == 500


async def test_only_the_named_datasets_change_their_state(ledger) -> None:
    for name in "abc":
        await add(ledger, spec(name))
    async with ledger.begin() as conn:
        await set_state(conn, ["a", "c"], DatasetState.PAUSED, "402")
    assert [(d.state, d.state_reason) for d in await all_of(ledger)] == [
        (DatasetState.PAUSED, "402"),
        (DatasetState.OPEN, ""),
        (DatasetState.PAUSED, "402"),
    ]


async def test_states_are_set_in_the_order_in_which_everybody_locks(ledger) -> None:
    """Whoever holds the first dataset and wants the second does not deadlock with a change of both."""
    first, second = await add(ledger, spec("z")), await add(ledger, spec("a"))

    async def both() -> None:
        async with ledger.begin() as conn:
            await set_state(conn, ["a", "z"], DatasetState.STOPPED, "")

    async with ledger.begin() as conn:
        await lock_datasets(conn, [first])
        waiting = asyncio.create_task(both())
        await asyncio.sleep(0.1)
        await lock_datasets(conn, [second])
    await waiting
    assert {d.state for d in await all_of(ledger)} == {DatasetState.STOPPED}
