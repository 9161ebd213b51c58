"""The simulator's bill, its truth file, and the records that can be looked up."""

import asyncio
import contextlib
import json
import time
from array import array
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator import generation as records_room
from eagle3gen.simulator.bill import Bill
from eagle3gen.simulator.generation import Records, as_record
from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.refusals import Refused
from eagle3gen.simulator.truth import Truth


def line(name: str, tokens: int = 3) -> dict:
    return {"generation_id": name, "completion_ids": array("I", range(tokens))}


def rows(path) -> list[dict]:
    return [json.loads(text) for text in path.read_text("utf-8").splitlines()]


@contextlib.asynccontextmanager
async def kept(truth: Truth):
    truth.open()
    ended = asyncio.Event()
    task = asyncio.create_task(truth.keep(ended))
    yield task
    ended.set()
    await task


def entered(bill: Bill, *generations) -> Bill:
    for one in generations:
        bill.begin(one.key)
        bill.send(one.host)
        bill.charge(one)
    return bill


def test_the_bill_adds_up_what_was_answered_and_what_is_open(generation) -> None:
    bill = Bill()
    bill.begin("key-1")
    bill.begin("key-2")
    entered(bill, generation("a", completion=3), generation("b", completion=4))
    told = bill.as_json()
    assert (told["calls"], told["open"], told["open_max"], told["errors"]) == (2, 2, 3, 0)
    assert (told["prompt_tokens"], told["completion_tokens"], told["cost_usd"]) == (4, 7, "0.0000234")
    bill.fail("key-2")
    assert (bill.total.open, bill.total.errors, bill.total.calls) == (1, 1, 2)


def test_each_key_and_each_host_has_a_bill_of_its_own(generation) -> None:
    first, second = HOSTS[:2]
    bill = entered(Bill(), generation("a", key="k1", host=first), generation("b", key="k2", host=second))
    bill.begin("k1")
    bill.send(first.name)
    told = bill.as_json()
    assert {name: (t["calls"], t["open"]) for name, t in told["by_key"].items()} == {"k1": (1, 1), "k2": (1, 0)}
    assert {name: t["calls"] for name, t in told["by_host"].items()} == {first.name: 1, second.name: 1}
    bill.fail("k1", first.name)
    assert bill.as_json()["by_host"][first.name]["errors"] == bill.as_json()["by_key"]["k1"]["errors"] == 1


amounts = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(HOSTS), st.integers(0, 10**6)), max_size=20)


@given(amounts)
def test_the_parts_of_the_bill_sum_up_to_the_whole(generation, calls) -> None:
    made = [generation(str(n), key=k, host=h, completion=c % 50, prompt=c) for n, (k, h, c) in enumerate(calls)]
    told = entered(Bill(), *made).as_json()
    for part in ("by_key", "by_host"):
        for name in ("calls", "prompt_tokens", "completion_tokens", "open", "errors"):
            assert sum(tally[name] for tally in told[part].values()) == told[name]
        assert sum(Decimal(tally["cost_usd"]) for tally in told[part].values()) == Decimal(told["cost_usd"])
    assert Decimal(told["cost_usd"]) == sum(one.cost_usd for one in made)


def test_a_conversation_that_is_answered_again_is_counted_as_doubled(generation) -> None:
    bill = entered(Bill(), *(generation(str(n), conversation=name) for n, name in enumerate([b"x", b"y", b"x", b"x"])))
    assert bill.as_json()["doubled"] == 2


def test_what_was_paid_for_clients_that_had_gone_is_told_apart(generation) -> None:
    told = entered(Bill(), generation("a", gone=True, completion=5), generation("b", completion=7)).as_json()
    assert (told["disconnected"], told["disconnected_tokens"]) == (1, 5)
    assert Decimal(told["disconnected_usd"]) == generation(completion=5).cost_usd


def test_what_was_emitted_is_told_beside_what_was_billed(generation) -> None:
    told = entered(Bill(), generation(completion=5, billed=7)).as_json()
    assert (told["emitted_tokens"], told["completion_tokens"]) == (5, 7)


def appeared(records: Records, names, delay: float = 0) -> list[str]:
    found = []
    for name in names:
        with contextlib.suppress(Refused):
            found.append(records.find(name, delay).id)
    return found


def test_old_records_make_room_for_new_ones(monkeypatch, generation) -> None:
    monkeypatch.setattr(records_room, "RECORDS_KEPT", 2)
    records = Records()
    for name in "abc":
        records.add(generation(name))
    assert appeared(records, "abc") == ["b", "c"]


def test_a_record_appears_after_its_delay_or_never(generation) -> None:
    records, now = Records(), time.time()
    records.add(generation("young", ended=now))
    records.add(generation("old", ended=now - 60))
    records.add(generation("hidden", ended=now - 60, faults={"no_record"}))
    assert appeared(records, ("young", "old", "hidden", "unknown"), 30) == ["old"]


def test_a_shy_record_is_shown_at_the_second_look(generation) -> None:
    records = Records()
    records.add(generation("shy", faults={"record_429"}))
    with pytest.raises(Refused) as caught:
        records.find("shy", 0)
    assert (caught.value.code, caught.value.headers) == (429, {"Retry-After": "1"})
    assert records.find("shy", 0).id == "shy"


def test_a_record_tells_the_counts_and_the_money(generation) -> None:
    host = HOSTS[0]
    record = as_record(generation(host=host, prompt=100, completion=10, cached=40, finish="length", gone=True))
    assert (record["native_tokens_prompt"], record["native_tokens_completion"]) == (100, 10)
    assert (record["native_tokens_cached"], record["native_tokens_reasoning"]) == (40, 1)
    assert record["total_cost"] == host.price(100, 10, 40).total
    assert record["cache_discount"] == Decimal("0.00002")
    assert (record["model"], record["provider_name"]) == ("a/b-0127", host.name)
    assert (record["finish_reason"], record["cancelled"], record["streamed"]) == ("length", True, False)
    assert record["created_at"].startswith("1970-01-01T00:00:01")


async def test_a_line_can_be_read_soon_after_its_answer(tmp_path) -> None:
    truth = Truth(tmp_path / "truth")
    async with kept(truth):
        truth.add(line("a"))
        for _ in range(40):
            if found := rows(tmp_path / "truth"):
                break
            await asyncio.sleep(0.05)
    assert found == [{"generation_id": "a", "completion_ids": [0, 1, 2]}]


async def test_every_line_is_written_before_the_end(tmp_path) -> None:
    """Also the lines that came while the last ones were being written."""
    truth = Truth(tmp_path / "truth")
    async with kept(truth):
        for number in range(2000):
            truth.add(line(str(number), 500))
            if number % 100 == 0:
                await asyncio.sleep(0.01)
    assert [row["generation_id"] for row in rows(tmp_path / "truth")] == [str(n) for n in range(2000)]


async def test_a_new_simulator_begins_its_truth_anew(tmp_path) -> None:
    (tmp_path / "truth").write_text("of an earlier run")
    async with kept(Truth(tmp_path / "truth")):
        pass
    assert (tmp_path / "truth").read_text() == ""


async def test_truth_that_cannot_be_written_ends_the_simulator(tmp_path) -> None:
    with pytest.raises(OSError, match="truth"):
        Truth(tmp_path / "nowhere" / "truth").open()
    truth = Truth(tmp_path / "full")
    (tmp_path / "full").symlink_to("/dev/full")
    truth.open()
    truth.add(line("a"))
    with pytest.raises(OSError, match="No space left"):
        await truth.keep(asyncio.Event())


async def test_without_a_truth_file_nothing_is_kept() -> None:
    truth = Truth(None)
    async with kept(truth):
        truth.add(line("a"))
    assert truth._lines == []
