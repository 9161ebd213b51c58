"""Errors and broken connections, as a client meets them."""

import asyncio
import contextlib
import json

import httpx
import pytest

from eagle3gen.simulator.errors import INSIDE, STATUS
from eagle3gen.simulator.faults import GROUPS, NO_FAULTS, read_mix

PULSE = "\n         \n"
CALL = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def always(fault: str) -> dict:
    return {"fault": (("all", fault, 1.0),)}


@pytest.mark.parametrize("name", sorted(STATUS))
async def test_an_error_comes_with_its_status_and_is_not_billed(running, name) -> None:
    async with running(**always(name)) as simulator:
        reply = await simulator.ask()
        bill = await simulator.bill()
    assert reply.status_code >= 400
    assert reply.headers["x-generation-id"]
    assert (reply.status_code == 429) is ("429" in name or name == "edge_1015")
    assert (bill["calls"], bill["errors"], bill["open"], bill["cost_usd"]) == (0, 1, 0, "0")
    (tally,) = bill["by_host"].values()
    assert (tally["errors"], tally["open"]) == (1, 0)


@pytest.mark.parametrize("name", sorted(INSIDE))
async def test_an_error_inside_of_a_200_comes_after_blanks_and_is_not_billed(running, name) -> None:
    async with running(**always(name)) as simulator:
        reply = await simulator.ask()
        bill = await simulator.bill()
    assert reply.status_code == 200
    assert reply.text.startswith(PULSE)
    body = reply.json()
    assert "error" in (body["choices"][0] if name == "inside_choice" else body)
    assert (bill["calls"], bill["errors"], bill["open"]) == (0, 1, 0)


async def test_a_choice_with_an_error_keeps_some_text(running) -> None:
    async with running(**always("inside_choice")) as simulator:
        body = (await simulator.ask()).json()
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "error"
    assert 0 < len(choice["message"]["content"]) <= 40
    assert body["usage"]["completion_tokens"] == 0


async def test_blanks_without_end_stop_only_when_the_client_goes(running) -> None:
    async with running(**always("endless_pulses"), pulse_seconds=0.02, latency_seconds=0.1) as simulator:
        got = b""
        async with simulator.http.stream("POST", f"{simulator.url}/chat/completions", json=CALL) as reply:
            async for data in reply.aiter_bytes():
                got += data
                if len(got) > 30 * len(PULSE):
                    break
        assert not got.strip()
        for _ in range(100):
            bill = await simulator.bill()
            if not bill["open"]:
                break
            await asyncio.sleep(0.02)
    assert (bill["calls"], bill["errors"], bill["open"]) == (0, 1, 0)


async def test_a_clean_end_without_json_is_billed(running) -> None:
    async with running(**always("closed_early")) as simulator:
        reply = await simulator.ask()
        bill, rows = await simulator.bill(), await simulator.emitted(1)
    assert reply.status_code == 200
    assert reply.text == PULSE
    assert (bill["calls"], bill["errors"]) == (1, 0)
    assert rows[0]["faults"] == ["closed_early"]


async def test_json_that_ends_in_the_middle_is_billed(running) -> None:
    async with running(**always("cut_json")) as simulator:
        reply = await simulator.ask()
        bill = await simulator.bill()
    assert reply.text.lstrip().startswith('{"id":"gen-')
    with pytest.raises(json.JSONDecodeError):
        reply.json()
    assert bill["calls"] == 1


async def test_a_reset_is_a_reset_and_is_billed(running) -> None:
    async with running(**always("reset")) as simulator:
        port = httpx.URL(simulator.url).port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        raw = json.dumps(CALL).encode()
        head = f"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n"
        writer.write(head.encode() + raw)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        bill = await simulator.bill()
    assert (bill["calls"], bill["open"]) == (1, 0)


async def test_an_outage_refuses_connections_for_a_while_and_keeps_those_that_are_open(running) -> None:
    async with running(**always("outage"), outage_seconds=0.4) as simulator:
        await simulator.bill()  # over a connection that stays
        async with httpx.AsyncClient() as other:
            with pytest.raises(httpx.HTTPError):
                await other.post(f"{simulator.url}/chat/completions", json=CALL)
            with pytest.raises(httpx.ConnectError):
                await other.get(f"{simulator.url}/models")
            assert (await simulator.bill())["errors"] == 1
            await simulator.own("knobs", {"fault": []})
            await asyncio.sleep(0.6)
            assert (await other.post(f"{simulator.url}/chat/completions", json=CALL)).status_code == 200


async def test_a_group_is_met_as_often_as_its_share_says_and_nothing_is_lost_from_the_books(running) -> None:
    async with running(faults=read_mix("passing"), fault_share=0.4) as simulator:
        replies = await asyncio.gather(*(simulator.ask(f"q {n}") for n in range(120)))
        bill = await simulator.bill()
    good = [r for r in replies if r.status_code == 200 and "finish_reason" in r.text and '"error"' not in r.text]
    assert 25 < bill["errors"] < 75
    assert bill["calls"] == len(good) == 120 - bill["errors"]
    assert len({reply.status_code for reply in replies}) > 5


async def test_every_fault_of_the_mix_leaves_the_books_closed(running) -> None:
    """Whatever happened to the calls: none is open, and the truth is the bill."""
    mix = tuple(name for name in GROUPS["mixed"] if name != "outage")
    async with running(faults=read_mix("mixed"), fault_share=0.9, pulse_seconds=0.05) as simulator:
        await simulator.own("knobs", {"faults": {"all": dict.fromkeys(mix, 0.1)}})

        async def ask(number: int, stream: bool) -> None:
            """With a deadline: blanks for ever keep every read timeout from firing."""
            with contextlib.suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(3):
                    await simulator.ask(seed=number, stream=stream)

        await asyncio.gather(*(ask(number, number % 2 == 0) for number in range(80)))
        for _ in range(100):
            bill = await simulator.bill()
            if not bill["open"]:
                break
            await asyncio.sleep(0.02)
        rows = await simulator.emitted(bill["calls"])
    assert bill["open"] == 0
    assert bill["calls"] + bill["errors"] == 80
    assert len(rows) == bill["calls"]
    assert sum(len(row["completion_ids"]) for row in rows) == bill["emitted_tokens"]
    assert sum(row["completion_tokens"] for row in rows) == bill["completion_tokens"]


async def test_faults_are_turned_on_and_off_while_it_runs(running) -> None:
    async with running(faults=NO_FAULTS, fault_share=1.0) as simulator:
        assert (await simulator.ask()).json()["choices"]
        await simulator.own("knobs", {"faults": "errors", "fault_share": 1})
        bad = [(await simulator.ask(f"q {n}")) for n in range(10)]
        await simulator.own("knobs", {"faults": "none"})
        assert (await simulator.ask("c")).json()["choices"]
        bill = await simulator.bill()
    assert all("finish_reason" not in reply.text or '"error"' in reply.text for reply in bad)
    assert bill["calls"] == 2
