"""Prompts are loaded in their order, each once."""

import asyncio
import dataclasses

import pytest
from sqlalchemy import text

from eagle3gen.ledger.loading import Loaded, load_prompts
from eagle3gen.records import Queue

from .conftest import fill, prompt_rows


async def load(ledger, dataset_id, rows) -> Loaded:
    async with ledger.begin() as conn:
        return await load_prompts(conn, dataset_id, rows)


async def column(ledger, name: str) -> list:
    async with ledger.begin() as conn:
        return list((await conn.execute(text(f"SELECT {name} FROM prompts ORDER BY id"))).scalars())


async def test_prompts_keep_the_order_of_their_file(ledger) -> None:
    dataset_id = await fill(ledger, 0)
    rows = prompt_rows(300)
    assert await load(ledger, dataset_id, rows[::-1]) == Loaded(added=300, duplicates=0)
    assert await column(ledger, "payload") == [row.payload for row in rows[::-1]]


async def test_what_the_dataset_holds_is_left_as_it_is(ledger) -> None:
    dataset_id = await fill(ledger, 3)
    changed = [dataclasses.replace(row, max_tokens=999) for row in prompt_rows(5)]
    assert await load(ledger, dataset_id, changed) == Loaded(added=2, duplicates=3)
    assert await column(ledger, "max_tokens") == [100, 100, 100, 999, 999]


async def test_a_prompt_that_stands_twice_in_a_file_is_one(ledger) -> None:
    dataset_id = await fill(ledger, 0)
    assert await load(ledger, dataset_id, prompt_rows(2) * 2) == Loaded(added=2, duplicates=2)


async def test_two_datasets_may_hold_the_same_prompt(ledger) -> None:
    await fill(ledger, 2, name="a")
    await fill(ledger, 2, name="b")
    assert len(await column(ledger, "key")) == 4


async def test_several_chunks_may_share_a_transaction(ledger) -> None:
    dataset_id = await fill(ledger, 0)
    async with ledger.begin() as conn:
        first = await load_prompts(conn, dataset_id, prompt_rows(2))
        second = await load_prompts(conn, dataset_id, prompt_rows(2, start=2))
    assert first == second == Loaded(added=2, duplicates=0)


async def test_two_who_load_the_same_file_at_once_load_each_prompt_once(ledger) -> None:
    dataset_id = await fill(ledger, 0)
    loaded = await asyncio.gather(*(load(ledger, dataset_id, prompt_rows(500)) for _ in range(3)))
    assert sum(each.added for each in loaded) == 500


@pytest.mark.parametrize("source", ["a\0b", "a\udcffb.jsonl line 1"])
async def test_a_source_that_is_no_text_does_not_stop_its_file(ledger, source) -> None:
    dataset_id = await fill(ledger, 0)
    rows = [dataclasses.replace(prompt_rows(1)[0], source=source)]
    assert (await load(ledger, dataset_id, rows)).added == 1


async def test_a_failed_load_leaves_nothing(ledger) -> None:
    dataset_id = await fill(ledger, 0)
    rows = [*prompt_rows(3), dataclasses.replace(prompt_rows(1, start=3)[0], max_tokens=-1)]
    with pytest.raises(Exception, match="ck_prompts_max_tokens"):
        await load(ledger, dataset_id, rows)
    assert await column(ledger, "id") == []


async def test_loading_does_not_keep_the_writer_waiting(ledger) -> None:
    """New rows refer to their dataset; a claim that locks it at the same time must not wait for them."""
    from eagle3gen.ledger.datasets import lock_datasets

    dataset_id = await fill(ledger, 0)
    async with ledger.begin() as loading:
        await load_prompts(loading, dataset_id, prompt_rows(3, queue=Queue.LONG))
        async with asyncio.timeout(5), ledger.begin() as claiming:
            await lock_datasets(claiming, [dataset_id])
