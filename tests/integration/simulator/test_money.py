"""Credits, limits, prices and the books, as a client meets them."""

import asyncio
import json
from decimal import Decimal

import httpx
import pytest

from eagle3gen.simulator.host import HOSTS

MILLION = Decimal(1_000_000)


def exact(response: httpx.Response) -> dict:
    return json.loads(response.text, parse_float=Decimal)


async def data(simulator, path: str, **params) -> dict:
    return exact(await simulator.http.get(f"{simulator.url}/{path}", params=params))["data"]


async def test_credits_are_spent_until_there_are_none(running) -> None:
    async with running(credits=Decimal("0.002"), mean_tokens=100) as simulator:
        replies = [await simulator.ask(f"q {n}", max_tokens=200) for n in range(40)]
        more = await simulator.ask(max_tokens=30_000)
        bill = await simulator.bill()
    statuses = [reply.status_code for reply in replies]
    assert statuses == sorted(statuses)
    assert set(statuses) == {200, 402}
    refused = replies[-1].json()["error"]
    assert (refused["code"], refused["metadata"]) == (402, {"provider_name": None})
    assert "You requested up to 200 tokens, but can only afford" in refused["message"]
    assert "You requested up to 30000 tokens" in more.json()["error"]["message"]
    assert bill["calls"] == statuses.count(200)
    assert bill["errors"] == statuses.count(402) + 1
    assert Decimal(bill["cost_usd"]) <= Decimal("0.002")


async def test_calls_in_flight_may_take_the_account_below_zero(running) -> None:
    """The check is before the call and looks at what was charged so far."""
    async with running(credits=Decimal("0.001"), latency_seconds=0.3, mean_tokens=300, spread=0.0) as simulator:
        replies = await asyncio.gather(*(simulator.ask(f"q {n}", max_tokens=400) for n in range(10)))
        assert {reply.status_code for reply in replies} == {200}
        after = await simulator.ask(max_tokens=1)
        credit = await data(simulator, "credits")
    assert after.status_code == 402
    assert after.json()["error"]["message"].startswith("Insufficient credits")
    assert credit["total_usage"] > credit["total_credits"]


async def test_a_payment_while_it_runs_lets_calls_through_again(running) -> None:
    async with running(credits=Decimal(0)) as simulator:
        assert (await simulator.ask(max_tokens=10)).status_code == 402
        paid = await simulator.own("credits", {"add": "5.00"})
        assert (await simulator.ask(max_tokens=10)).status_code == 200
    assert exact(paid) == {"total_credits": Decimal(5), "total_usage": Decimal(0)}


@pytest.mark.parametrize("payment", [{}, {"add": "-1"}, {"add": "much"}, {"add": 1, "more": 2}, [], "x"])
async def test_what_is_no_payment_is_refused(running, payment) -> None:
    async with running(credits=Decimal(1)) as simulator:
        assert (await simulator.own("credits", payment)).status_code == 400
        assert (await data(simulator, "credits"))["total_credits"] == 1


async def test_an_account_without_end_takes_no_payment(running) -> None:
    async with running() as simulator:
        assert "without end" in (await simulator.own("credits", {"add": 1})).json()["error"]["message"]


async def test_a_key_at_its_limit_is_refused_and_another_is_not(running) -> None:
    async with running(key_limit=Decimal("0.0000001")) as simulator:

        async def ask(key: str) -> httpx.Response:
            simulator.http.headers["authorization"] = f"Bearer {key}"
            return await simulator.ask(max_tokens=1)

        await simulator.own("knobs", {"key_limit": "0.001"})
        assert (await ask("one")).status_code == 200
        await simulator.own("knobs", {"key_limit": "0.0000001"})
        refused = await ask("one")
        other = await ask("two")
    assert refused.status_code == 403
    assert refused.json()["error"]["message"].startswith("Key limit exceeded")
    assert other.status_code == 402


async def test_the_key_tells_what_it_spent_and_what_is_left(running) -> None:
    async with running(key_limit=Decimal("2.5")) as simulator:
        simulator.http.headers["authorization"] = "Bearer sk-or-v1-" + "ab" * 32
        for number in range(5):
            await simulator.ask(str(number))
        key, bill = await data(simulator, "key"), await simulator.bill()
    spent = Decimal(bill["cost_usd"])
    assert key["label"] == "sk-or-v1-aba...bab"
    assert (key["limit"], key["limit_remaining"], key["usage"]) == (Decimal("2.5"), Decimal("2.5") - spent, spent)
    assert key["usage_daily"] == key["usage_weekly"] == key["usage_monthly"] == spent > 0
    assert (key["is_free_tier"], key["limit_reset"], key["byok_usage"]) == (False, None, 0)
    assert list(bill["by_key"]) == [key["label"]]


async def test_each_key_has_its_own_usage(running) -> None:
    async with running() as simulator:
        for key in ("one", "two"):
            simulator.http.headers["authorization"] = f"Bearer {key}"
            await simulator.ask()
        await simulator.ask("again")
        two, bill = await data(simulator, "key"), await simulator.bill()
    assert sorted(tally["calls"] for tally in bill["by_key"].values()) == [1, 2]
    assert two["usage"] == Decimal(bill["by_key"][two["label"]]["cost_usd"])


async def test_only_a_management_key_reads_the_credits(running) -> None:
    async with running(management_key=False) as simulator:
        refused = await simulator.http.get(f"{simulator.url}/credits")
        key = await data(simulator, "key")
    assert refused.status_code == refused.json()["error"]["code"] == 403
    assert key["is_management_key"] is False


async def test_under_the_clients_own_key_the_host_bills_and_openrouter_takes_its_fee(running) -> None:
    async with running(byok=True, byok_fee=0.05, credits=Decimal(1)) as simulator:
        reply = exact(await simulator.ask())
        bill, key, credit = await simulator.bill(), await data(simulator, "key"), await data(simulator, "credits")
        await asyncio.sleep(0.4)
        record = await data(simulator, "generation", id=reply["id"])
    usage = reply["usage"]
    upstream = usage["cost_details"]["upstream_inference_cost"]
    assert usage["is_byok"] is record["is_byok"] is True
    assert usage["cost"] == record["total_cost"] == upstream * Decimal("0.05")
    assert record["upstream_inference_cost"] == Decimal(bill["byok_usd"]) == key["byok_usage"] == upstream
    assert Decimal(bill["cost_usd"]) == key["usage"] == credit["total_usage"] == usage["cost"]


async def test_a_prompt_in_the_cache_is_cheaper(running) -> None:
    async with running(cached_share=1.0, hosts=HOSTS[:1]) as simulator:
        reply = exact(await simulator.ask("many words " * 50))
        await asyncio.sleep(0.4)
        record = await data(simulator, "generation", id=reply["id"])
    usage, host = reply["usage"], HOSTS[0]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    assert 0 < cached == record["native_tokens_cached"] < usage["prompt_tokens"]
    assert usage["cost"] == host.price(usage["prompt_tokens"], usage["completion_tokens"], cached).total
    assert record["cache_discount"] == cached * (Decimal("0.60") - Decimal("0.10")) / MILLION


@pytest.mark.parametrize("fault", ["no_cost", "no_usage"])
async def test_the_bill_knows_a_cost_that_the_reply_does_not_tell(running, fault) -> None:
    async with running(fault=((HOSTS[0].name, fault, 1.0),), hosts=HOSTS[:1]) as simulator:
        reply = (await simulator.ask()).json()
        (row,) = await simulator.emitted(1)
        bill = await simulator.bill()
    assert "cost" not in reply.get("usage", {})
    assert ("usage" in reply) is (fault == "no_cost")
    assert row["faults"] == [fault]
    assert Decimal(bill["cost_usd"]) == Decimal(row["cost"]) > 0


async def test_the_hosts_are_billed_apart_at_their_own_prices(running) -> None:
    async with running() as simulator:
        replies = [exact(await simulator.ask(f"q {n}")) for n in range(30)]
        bill = await simulator.bill()
    for host in HOSTS:
        usages = [reply["usage"] for reply in replies if reply["provider"] == host.name]
        tally = bill["by_host"][host.name]
        assert tally["calls"] == len(usages)
        assert Decimal(tally["cost_usd"]) == sum(
            host.price(u["prompt_tokens"], u["completion_tokens"]).total for u in usages
        )


async def test_the_same_conversation_is_doubled_whatever_its_sampling(running) -> None:
    async with running() as simulator:
        for seed in range(3):
            await simulator.ask("the same", seed=seed)
        await simulator.ask("another")
        bill = await simulator.bill()
    assert (bill["calls"], bill["doubled"]) == (4, 2)


async def test_a_call_that_was_left_is_looked_up_only_when_it_has_ended(running) -> None:
    async with running(latency_seconds=0.5, latency_spread=0.0, generation_delay_seconds=0.0) as simulator:
        async with simulator.http.stream(
            "POST",
            f"{simulator.url}/chat/completions",
            json={"model": "m", "messages": [{"role": "user", "content": "x"}]},
        ) as response:
            generation_id = response.headers["x-generation-id"]
        early = await simulator.http.get(f"{simulator.url}/generation", params={"id": generation_id})
        await simulator.emitted(1)
        record, bill = await data(simulator, "generation", id=generation_id), await simulator.bill()
    assert early.status_code == 404
    assert record["cancelled"] is True
    assert record["native_tokens_completion"] == bill["disconnected_tokens"] == bill["completion_tokens"] > 0
    assert record["total_cost"] == Decimal(bill["disconnected_usd"]) == Decimal(bill["cost_usd"])


async def test_some_records_never_appear(running) -> None:
    async with running(fault=(("all", "no_record", 0.5),), generation_delay_seconds=0.0) as simulator:
        ids = [(await simulator.ask(f"q {n}")).json()["id"] for n in range(30)]
        found = [await simulator.http.get(f"{simulator.url}/generation", params={"id": name}) for name in ids]
        rows = {row["generation_id"]: row["faults"] for row in await simulator.emitted(30)}
    assert {reply.status_code for reply in found} == {200, 404}
    for name, reply in zip(ids, found, strict=True):
        assert (reply.status_code == 404) is (rows[name] == ["no_record"])


async def test_every_reply_names_its_generation_before_its_body(running) -> None:
    async with running(credits=Decimal(0)) as simulator:
        replies = [
            await simulator.ask(),
            await simulator.ask(provider={"only": ["nobody"]}),
            await simulator.ask(max_tokens="x"),
        ]
    assert [reply.status_code for reply in replies] == [402, 404, 400]
    assert all(reply.headers["x-generation-id"].startswith("gen-") for reply in replies)


async def test_knobs_are_turned_while_it_runs(running) -> None:
    async with running() as simulator:
        told = await simulator.own("knobs", {"fault": ["no_cost=1"], "mean_tokens": 20, "spread": 0})
        reply = (await simulator.ask()).json()
        wrong = await simulator.own("knobs", {"mean_tokens": 50, "latency": "slow"})
        unknown = await simulator.own("nothing", {})
    assert told.json() == {"changed": ["fault", "mean_tokens", "spread"]}
    assert "cost" not in reply["usage"]
    assert wrong.status_code == 400
    assert "latency: 'slow'" in wrong.json()["error"]["message"]
    assert unknown.status_code == 404


async def test_the_simulators_own_addresses_need_no_key(running) -> None:
    async with running(api_key="right") as simulator:
        bill = (await simulator.http.get(simulator.url.replace("/api/v1", "/simulator/bill"))).json()
        assert (await simulator.own("knobs", {"latency": 0})).status_code == 200
    assert bill["calls"] == 0
    assert not [name for name, value in bill.items() if isinstance(value, float)]
