"""Limits, as a client meets them."""

import asyncio
from dataclasses import replace

from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.rates import read_rates


async def statuses(simulator, count: int, **fields) -> list[int]:
    replies = await asyncio.gather(*(simulator.ask(f"q {n}", **fields) for n in range(count)))
    return sorted(reply.status_code for reply in replies)


async def test_a_key_that_calls_too_often_is_told_when_to_come_again(running) -> None:
    async with running(rate_limit=5, rate_window_seconds=3600.0) as simulator:
        assert await statuses(simulator, 8) == [200] * 5 + [429] * 3
        refused = await simulator.ask()
        bill = await simulator.bill()
    assert refused.headers["x-ratelimit-limit"] == "5"
    assert "retry-after" not in refused.headers
    assert (bill["calls"], bill["errors"], bill["open"]) == (5, 4, 0)


async def test_good_replies_have_no_limit_headers(running) -> None:
    async with running(rate_limit=5) as simulator:
        reply = await simulator.ask()
    assert not [name for name in reply.headers if name.startswith("x-ratelimit")]


async def test_a_full_host_is_passed_over_or_says_so(running) -> None:
    async with running(host_rate=read_rates("Chutes=60")) as simulator:
        wanted = {"order": ["chutes"]}
        hosts = [(await simulator.ask(str(n), provider=wanted)).json()["provider"] for n in range(4)]
        refused = await simulator.ask(provider={"only": ["chutes"]})
    assert hosts[0] == "Chutes"
    assert set(hosts[1:]) == {"Inceptron"}
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "1"


async def test_a_shared_pool_runs_full(running) -> None:
    async with running(pool=10, latency_seconds=0.5) as simulator:
        assert await statuses(simulator, 25) == [200] * 10 + [429] * 15
        assert (await simulator.ask()).status_code == 200


async def test_everything_is_429_for_a_while(running) -> None:
    async with running() as simulator:
        await simulator.own("knobs", {"busy": 0.5})
        assert await statuses(simulator, 5) == [429] * 5
        await asyncio.sleep(0.6)
        assert await statuses(simulator, 5) == [200] * 5


async def test_the_edge_answers_a_burst_by_1015_also_to_other_requests(running) -> None:
    async with running(edge_burst=20, edge_seconds=60.0) as simulator:
        assert 429 in await statuses(simulator, 60)
        refused = await simulator.ask()
        key = await simulator.http.get(f"{simulator.url}/key")
        bill = await simulator.bill()
    assert refused.text == key.text == "error code: 1015"
    assert refused.headers["content-type"].startswith("text/plain")
    assert bill["edge"] >= 2
    assert bill["calls"] + bill["edge"] >= 60


async def test_the_calls_that_are_open_are_counted_by_key(running) -> None:
    async with running(latency_seconds=0.5) as simulator:
        calls = asyncio.gather(*(simulator.ask(str(n)) for n in range(7)))
        await asyncio.sleep(0.2)
        during = await simulator.bill()
        await calls
        after = await simulator.bill()
    (key,) = during["by_key"].values()
    assert key["open"] == during["open"] == sum(tally["open"] for tally in during["by_host"].values()) == 7
    assert [(tally["open"], tally["open_max"]) for tally in after["by_key"].values()] == [(0, 7)]


async def test_hosts_can_be_changed_while_it_runs(running) -> None:
    async with running(hosts=(replace(HOSTS[0], name="Before"),)) as simulator:
        before = (await simulator.ask("a")).json()["provider"]
        table = {"name": "After", "tag": "after/int4", "prompt": "1", "completion": "2"}
        assert (await simulator.own("knobs", {"hosts": [table]})).status_code == 200
        after = (await simulator.ask("b")).json()["provider"]
    assert (before, after) == ("Before", "After")
