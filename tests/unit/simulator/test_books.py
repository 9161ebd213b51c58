"""The simulator's bill, its truth file, and the numbers in its replies."""

import asyncio
import contextlib
import json
from array import array
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator import bill as room
from eagle3gen.simulator import replies
from eagle3gen.simulator.bill import Bill
from eagle3gen.simulator.options import HOSTS
from eagle3gen.simulator.voice import Answer


def line(name: str, tokens: int = 3) -> dict:
    return {"generation_id": name, "completion_ids": array("I", range(tokens)), "prompt_tokens": 2,
            "completion_tokens": tokens}  # fmt: skip


def rows(path) -> list[dict]:
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


@contextlib.asynccontextmanager
async def kept(bill: Bill):
    bill.open_truth()
    ended = asyncio.Event()
    task = asyncio.create_task(bill.keep_truth(ended))
    yield task
    ended.set()
    await task


def test_the_bill_adds_up_what_was_answered_and_what_is_open() -> None:
    bill = Bill(None)
    for _ in range(3):
        bill.begin()
    bill.charge(line("a", 3), Decimal("0.1"), {})
    bill.charge(line("b", 4), Decimal("0.00000002"), {})
    told = bill.as_json()
    assert (told["calls"], told["open"], told["open_max"], told["errors"]) == (2, 1, 3, 0)
    assert (told["prompt_tokens"], told["completion_tokens"], told["cost_usd"]) == (4, 7, "0.10000002")
    bill.fail()
    assert (bill.open, bill.errors, bill.calls) == (0, 1, 2)


def test_old_records_make_room_for_new_ones(monkeypatch) -> None:
    monkeypatch.setattr(room, "RECORDS_KEPT", 2)
    bill = Bill(None)
    for name in "abc":
        bill.charge(line(name), Decimal(0), {"host": name})
    assert list(bill.records) == ["b", "c"]


async def test_a_line_can_be_read_soon_after_its_answer(tmp_path) -> None:
    bill = Bill(tmp_path / "truth")
    async with kept(bill):
        bill.charge(line("a"), Decimal(0), {})
        for _ in range(40):
            if found := rows(tmp_path / "truth"):
                break
            await asyncio.sleep(0.05)
    (row,) = found
    assert row == {"generation_id": "a", "completion_ids": [0, 1, 2], "prompt_tokens": 2, "completion_tokens": 3}


async def test_every_line_is_written_before_the_end(tmp_path) -> None:
    """Also the lines that came while the last ones were being written."""
    bill = Bill(tmp_path / "truth")
    async with kept(bill):
        for number in range(2000):
            bill.charge(line(str(number), 500), Decimal(0), {})
            if number % 100 == 0:
                await asyncio.sleep(0.01)
    assert [row["generation_id"] for row in rows(tmp_path / "truth")] == [str(n) for n in range(2000)]


async def test_a_new_simulator_begins_its_truth_anew(tmp_path) -> None:
    (tmp_path / "truth").write_text("of an earlier run")
    async with kept(Bill(tmp_path / "truth")):
        pass
    assert (tmp_path / "truth").read_text() == ""


async def test_truth_that_cannot_be_written_ends_the_simulator(tmp_path) -> None:
    with pytest.raises(OSError, match="truth"):
        Bill(tmp_path / "nowhere" / "truth").open_truth()
    bill = Bill(tmp_path / "full")
    (tmp_path / "full").symlink_to("/dev/full")
    bill.open_truth()
    bill.charge(line("a"), Decimal(0), {})
    with pytest.raises(OSError, match="No space left"):
        await bill.keep_truth(asyncio.Event())


async def test_without_a_truth_file_nothing_is_kept() -> None:
    bill = Bill(None)
    async with kept(bill):
        bill.charge(line("a"), Decimal(0), {})
    assert bill._lines == []


tokens = st.integers(0, 10**6)


@given(tokens, tokens, st.sampled_from(HOSTS))
def test_the_cost_in_a_reply_is_exact_and_the_sum_of_its_parts(prompt, completion, host) -> None:
    """Price times tokens, to the last digit, however small."""
    answer = Answer(array("I", bytes(4 * completion)), " r", " c", [], "stop", 1)
    cost = host.cost(prompt, completion)
    body = replies.completion("gen-1", 1, "a/b", host, answer, prompt, cost)
    usage = json.loads(body, parse_float=Decimal)["usage"]
    details = usage["cost_details"]
    parts = [Decimal(details[f"upstream_inference_{name}_cost"]) for name in ("prompt", "completions")]
    assert Decimal(usage["cost"]) == cost == sum(parts) == Decimal(details["upstream_inference_cost"])
    assert cost * 1_000_000 == host.prompt_usd_per_million * prompt + host.completion_usd_per_million * completion
    assert usage["total_tokens"] == prompt + completion


@pytest.mark.parametrize(("asked", "told"), [("a/b", "a/b-0127"), ("a/b-0127", "a/b-0127")])
def test_the_dated_name_of_the_model_is_told(asked, told) -> None:
    body = replies.completion("gen-1", 1, asked, HOSTS[0], Answer(array("I"), "", None, [], "stop", 1), 1, Decimal(0))
    assert orjson.loads(body)["model"] == told


@pytest.mark.parametrize(("finish", "content"), [("length", ""), ("tool_calls", None)])
def test_an_answer_without_content_says_nothing_or_null(finish, content) -> None:
    answer = Answer(array("I"), " r", None, [], finish, 1)
    body = orjson.loads(replies.completion("gen-1", 1, "m", HOSTS[0], answer, 1, Decimal(0)))
    assert body["choices"][0]["message"]["content"] == content


def test_an_error_has_its_code_its_sentence_and_what_else_is_known() -> None:
    told = orjson.loads(replies.error(429, "slow down", provider_name="Chutes"))["error"]
    assert told == {"code": 429, "message": "slow down", "metadata": {"provider_name": "Chutes"}}
    assert "metadata" not in orjson.loads(replies.error(401, "no"))["error"]
