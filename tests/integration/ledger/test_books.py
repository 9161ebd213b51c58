"""The audit of the books names every way in which they can be wrong, and no right one."""

import pytest
from sqlalchemy import text

from eagle3gen.ledger.books import audit_books
from eagle3gen.ledger.states import Outcome, PromptState
from eagle3gen.records import Usage

from .conftest import answered, fill, lose, queued


async def audit_after(ledger, *statements: str) -> list[str]:
    async with ledger.begin() as conn:
        for statement in statements:
            await conn.execute(text(statement))
        return await audit_books(conn)


@pytest.fixture
async def busy(ledger, writer):
    """Two settled, one released, one held, one corrected, one without a bill, one open."""
    ids = await queued(ledger, await fill(ledger, 7))
    corrected = await writer.claim(ids[0])
    await lose(ledger, writer)
    await writer.settle(answered(corrected, 9))
    for prompt_id in ids[1:3]:
        await writer.settle(answered(await writer.claim(prompt_id), 10))
    for prompt_id, outcome in ((ids[3], Outcome.RELEASED), (ids[4], Outcome.HELD)):
        ending = answered(await writer.claim(prompt_id), outcome=outcome, prompt_state=PromptState.FAILED, stored=None)
        await writer.settle(ending)
    await writer.settle(answered(await writer.claim(ids[5]), usage=Usage()))
    await writer.claim(ids[6])
    return ledger


async def test_books_of_every_kind_of_ending_balance(busy) -> None:
    assert await audit_after(busy) == []


async def test_an_empty_ledger_and_an_empty_dataset_balance(ledger) -> None:
    assert await audit_after(ledger) == []
    await fill(ledger, 0)
    assert await audit_after(ledger) == []


@pytest.mark.parametrize(
    ("counter", "true"),
    [
        ("spent_tokens", "29"),
        ("held_tokens", "200"),
        ("open_tokens", "100"),
        ("cost_usd", "0.003"),
        ("unpriced_attempts", "1"),
    ],
)
async def test_a_counter_that_is_off_is_named_with_what_its_rows_say(busy, counter, true) -> None:
    (finding,) = await audit_after(busy, f"UPDATE datasets SET {counter} = {counter} + 1")
    assert finding.startswith(f"set: {counter} says ")
    assert finding.endswith(f"add up to {true}")


OPEN = "attempts a WHERE NOT EXISTS (SELECT FROM resolutions r WHERE r.attempt_id = a.id)"
STRAYS = {
    "a prompt is in flight without an open attempt (1)": (
        "UPDATE prompts SET state = 'in_flight' WHERE id = (SELECT min(id) FROM prompts WHERE state = 'failed')"
    ),
    "an open attempt's prompt is not in flight (1)": "UPDATE prompts SET state = 'pending' WHERE state = 'in_flight'",
    "a done or rejected prompt has no sample (2)": "UPDATE prompts SET state = 'done' WHERE state = 'failed'",
    "a sample belongs to a prompt that is not answered (4)": "UPDATE prompts SET state = 'failed' WHERE state = 'done'",
    "a sample's attempt was made for another prompt, or its bill is not on the books (1)": (
        f"UPDATE samples SET attempt_id = (SELECT id FROM {OPEN})"
        " WHERE prompt_id = (SELECT max(prompt_id) FROM samples)"
    ),
    "a prompt has two open attempts (1)": (
        "INSERT INTO attempts (id, prompt_id, dataset_id, worker_id, hold_tokens, worst_tokens)"
        f" SELECT gen_random_uuid(), prompt_id, dataset_id, worker_id, 0, 0 FROM {OPEN}"
    ),
}


@pytest.mark.parametrize("sentence", STRAYS)
async def test_a_stray_row_is_named(busy, sentence) -> None:
    assert await audit_after(busy, STRAYS[sentence]) == [sentence]
