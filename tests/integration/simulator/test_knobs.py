"""What the simulator's options change, and what its side endpoints tell."""

import asyncio
import json
import time
from decimal import Decimal

import httpx
import pytest

from eagle3gen.simulator.host import HOSTS, Host
from eagle3gen.tokens.loading import load_tokenizer

TOOLS = [{"type": "function", "function": {"name": "now", "description": "Tells the time."}}]


async def test_who_sends_no_key_and_who_sends_a_wrong_one_are_told_apart(running) -> None:
    async with running(api_key="right") as simulator:
        none = (await simulator.ask()).json()["error"]
        simulator.http.headers["authorization"] = "Bearer wrong"
        wrong = (await simulator.ask()).json()["error"]
        bill = await simulator.bill()
    assert (none["code"], none["message"]) == (401, "No auth credentials found")
    assert (wrong["code"], wrong["message"]) == (401, "User not found.")
    assert bill["calls"] == bill["errors"] == 0


async def test_only_the_named_models_are_served(running) -> None:
    async with running(models=("moonshotai/kimi-k2.5",)) as simulator:
        assert (await simulator.ask()).status_code == 200
        refused = await simulator.ask(model="moonshotai/other")
    assert refused.status_code == 400
    assert "moonshotai/other is not a valid model ID" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("share", "fields", "called"), [(1.0, {}, 12), (0.0, {}, 0), (1.0, {"tool_choice": "none"}, 0)]
)
async def test_tools_are_called_as_often_as_the_share_says(running, share, fields, called) -> None:
    async with running(tool_share=share) as simulator:
        replies = [(await simulator.ask(f"q {n}", tools=TOOLS, **fields)).json() for n in range(12)]
    choices = [reply["choices"][0] for reply in replies]
    assert [choice["finish_reason"] for choice in choices].count("tool_calls") == called
    assert sum("tool_calls" in choice["message"] for choice in choices) == called


async def test_the_prompt_counts_what_the_products_own_rendering_counts(running) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "你好 </think>"}]
    async with running() as simulator:
        reply = (await simulator.ask(messages=messages, tools=TOOLS)).json()
    expected = load_tokenizer("builtin:kimi-mini").prompt_ids(messages, TOOLS)
    assert reply["usage"]["prompt_tokens"] == len(expected)


async def test_answers_take_the_latency_within_its_spread(running) -> None:
    async with running(latency_seconds=0.3, latency_spread=0.5) as simulator:

        async def seconds(number: int) -> float:
            started = time.monotonic()
            await simulator.ask(f"q {number}")
            return time.monotonic() - started

        taken = await asyncio.gather(*map(seconds, range(20)))
    assert min(taken) > 0.14
    assert max(taken) - min(taken) > 0.1


async def test_lengths_follow_the_mean_and_the_spread(running) -> None:
    async with running(mean_tokens=150, spread=0.0) as simulator:
        replies = [(await simulator.ask(f"q {n}")).json() for n in range(30)]
    lengths = [reply["usage"]["completion_tokens"] for reply in replies]
    assert 130 < sum(lengths) / 30 < 250


async def test_the_host_sets_the_price(running) -> None:
    dear = Host(
        name="Dear",
        tag="dear/int4",
        quantization="int4",
        prompt_usd_per_million=Decimal("1.5"),
        completion_usd_per_million=Decimal("70.01"),
    )
    async with running(hosts=(dear,)) as simulator:
        usage = json.loads((await simulator.ask()).text, parse_float=Decimal)["usage"]
        bill = await simulator.bill()
    cost = (Decimal("1.5") * usage["prompt_tokens"] + Decimal("70.01") * usage["completion_tokens"]) / 1_000_000
    assert usage["cost"] == cost == Decimal(bill["cost_usd"])


async def test_unpinned_calls_go_to_all_hosts(running) -> None:
    async with running() as simulator:
        seen = {(await simulator.ask(f"q {n}")).json()["provider"] for n in range(25)}
    assert seen == {host.name for host in HOSTS}


async def test_a_passing_error_has_the_shape_of_its_kind(running) -> None:
    async with running(fail_share=1.0) as simulator:
        replies = [await simulator.ask(f"q {n}") for n in range(20)]
        bill = await simulator.bill()
    by_status = {reply.status_code: reply for reply in replies}
    assert by_status.keys() == {200, 429, 502}
    assert by_status[429].headers["retry-after"] == "1"
    assert by_status[429].json()["error"]["metadata"]["provider_name"] in {host.name for host in HOSTS}
    assert by_status[502].json()["error"]["code"] == 502
    assert by_status[200].json()["error"]["code"] in {429, 500, 502, 503}
    assert len({reply.headers["x-generation-id"] for reply in replies}) == 20
    assert (bill["calls"], bill["errors"], bill["cost_usd"]) == (0, 20, "0")


async def test_a_retry_of_a_failed_call_is_another_draw(running) -> None:
    async with running(fail_share=0.5) as simulator:
        statuses = [(await simulator.ask("the same")).json().keys() >= {"choices"} for _ in range(20)]
    assert set(statuses) == {True, False}


async def test_the_times_that_a_body_was_asked_are_in_the_truth(running) -> None:
    async with running() as simulator:
        for text in ("a", "b", "a"):
            await simulator.ask(text)
        rows = await simulator.emitted(3)
    assert [row["asked"] for row in rows] == [1, 1, 2]
    assert rows[0]["body_sha256"] == rows[2]["body_sha256"] != rows[1]["body_sha256"]
    assert {row["status"] for row in rows} == {200}


async def test_a_lost_call_can_be_looked_up_and_says_so(running) -> None:
    async with running(latency_seconds=0.3, generation_delay_seconds=0.0) as simulator:
        with pytest.raises(httpx.ReadTimeout):
            await simulator.http.post(
                f"{simulator.url}/chat/completions",
                json={"model": "m", "messages": [{"role": "user", "content": "x"}]},
                timeout=httpx.Timeout(0.1),
            )
        (row,) = await simulator.emitted(1)
        found = await simulator.http.get(f"{simulator.url}/generation", params={"id": row["generation_id"]})
        key = (await simulator.http.get(f"{simulator.url}/key")).json()["data"]
        credit = (await simulator.http.get(f"{simulator.url}/credits")).json()["data"]
    record = found.json()["data"]
    assert record["cancelled"] is True
    assert record["native_tokens_prompt"] == row["prompt_tokens"]
    assert Decimal(str(record["total_cost"])) == Decimal(row["cost"])
    assert Decimal(str(key["usage"])) == Decimal(str(credit["total_usage"])) == Decimal(row["cost"])


async def test_what_is_open_at_the_end_is_neither_answered_nor_billed(running) -> None:
    """The truth file is complete when the simulator has ended."""
    async with running(latency_seconds=0.3) as simulator:
        open_call = asyncio.create_task(simulator.ask("slow"))
        for _ in range(20):
            if (await simulator.bill())["open"]:
                break
        open_call.cancel()
    await asyncio.sleep(0.5)
    assert simulator.truth.read_text() == ""


async def test_a_port_that_is_taken_is_refused_and_the_truth_of_its_owner_left_alone(running) -> None:
    async with running() as simulator:
        await simulator.ask()
        (row,) = await simulator.emitted(1)
        port = httpx.URL(simulator.url).port
        with pytest.raises(OSError, match="address already in use"):
            async with running(port=port):
                pass
        assert await simulator.emitted(1) == [row]
