"""The simulator on the wire: blanks, connections that go away, thousands of them, and what is no request."""

import asyncio
import contextlib
import json
import re

import httpx
import pytest

BODY = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


def call(body: object = BODY, *, more: str = "") -> bytes:
    raw = json.dumps(body).encode()
    head = f"POST /api/v1/chat/completions HTTP/1.1\r\nHost: x\r\n{more}Content-Length: {len(raw)}\r\n\r\n"
    return head.encode() + raw


@contextlib.asynccontextmanager
async def wire(simulator):
    reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(simulator.url).port)
    yield reader, writer
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def head(reader: asyncio.StreamReader) -> str:
    return (await reader.readuntil(b"\r\n\r\n")).decode()


async def chunks(reader: asyncio.StreamReader) -> list[bytes]:
    got = []
    while size := int(await reader.readline(), 16):
        got.append(await reader.readexactly(size))
        await reader.readline()
    await reader.readline()
    return got


async def until(simulator, **wanted) -> dict:
    for _ in range(100):
        bill = await simulator.bill()
        if all(bill[name] == value for name, value in wanted.items()):
            break
        await asyncio.sleep(0.02)
    return bill


async def test_blanks_come_at_once_and_go_on_until_the_answer_comes_whole(running) -> None:
    async with (
        running(latency_seconds=0.8, latency_spread=0.0, pulse_seconds=0.1) as simulator,
        wire(simulator) as ends,
    ):
        reader, writer = ends
        started = asyncio.get_running_loop().time()
        writer.write(call())
        told = await head(reader)
        assert asyncio.get_running_loop().time() - started < 0.7
        *blanks, body = await chunks(reader)
        assert asyncio.get_running_loop().time() - started > 0.75
    assert told.startswith("HTTP/1.1 200")
    assert "Transfer-Encoding: chunked" in told
    assert re.search(r"X-Generation-Id: gen-\d+-\w{20}\r\n", told)
    assert set(blanks) == {b"\n" + b" " * 9 + b"\n"}
    assert 3 <= len(blanks) <= 8
    assert json.loads(body)["id"] in told


async def test_a_call_may_come_in_small_pieces(running) -> None:
    async with running() as simulator, wire(simulator) as (reader, writer):
        for byte in call():
            writer.write(bytes([byte]))
            await writer.drain()
        await head(reader)
        assert json.loads((await chunks(reader))[-1])["choices"]


async def test_a_connection_is_used_again(running) -> None:
    async with running() as simulator, wire(simulator) as (reader, writer):
        ids = []
        for _ in range(3):
            writer.write(call())
            await head(reader)
            ids.append(json.loads((await chunks(reader))[-1])["id"])
        writer.write(call({}))
        assert (await head(reader)).startswith("HTTP/1.1 400")
    assert len(set(ids)) == 3


async def test_a_connection_is_closed_when_the_client_says_so(running) -> None:
    async with running() as simulator, wire(simulator) as (reader, writer):
        writer.write(call(more="Connection: close\r\n"))
        await head(reader)
        await chunks(reader)
        assert await asyncio.wait_for(reader.read(), 5) == b""


async def test_garbage_closes_the_connection_and_nothing_else(running) -> None:
    async with running() as simulator:
        async with wire(simulator) as (reader, writer):
            writer.write(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
            assert await asyncio.wait_for(reader.read(), 5) == b""
        assert (await simulator.ask()).status_code == 200


async def test_half_a_call_is_no_call(running) -> None:
    async with running() as simulator:
        async with wire(simulator) as (_, writer):
            writer.write(call()[:-5])
            await writer.drain()
            await asyncio.sleep(0.05)
        bill = await simulator.bill()
    assert (bill["calls"], bill["open"], bill["errors"]) == (0, 0, 0)


@pytest.mark.parametrize("cut_off", [True, False], ids=["reset", "closed"])
async def test_calls_whose_client_left_run_on_and_are_billed_in_full(running, cut_off) -> None:
    async with running(latency_seconds=0.3, pulse_seconds=0.05) as simulator:
        async with wire(simulator) as (reader, writer):
            writer.write(call())
            told = await head(reader)
            if cut_off:
                writer.transport.abort()
        assert (await until(simulator, open=1))["calls"] == 0
        bill = await until(simulator, calls=1)
        (row,) = await simulator.emitted(1)
    assert (bill["open"], bill["disconnected"]) == (0, 1)
    assert row["generation_id"] in told
    assert bill["completion_tokens"] == row["completion_tokens"] == len(row["completion_ids"])


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": "many"},
        {"messages": ["x"]},
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"tools": [{"type": "function"}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"a": 3}}}}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": 3}]}]},
    ],
)
async def test_no_request_breaks_the_books(running, fields) -> None:
    """Answered or refused: the call does not stay open, and the connection is answered."""
    async with running(tool_share=1.0) as simulator:
        status = (await simulator.ask(**fields)).status_code
        bill = await simulator.bill()
    assert status in {200, 400}
    assert bill["open"] == 0
    assert bill["calls"] + bill["errors"] == 1


async def test_two_thousand_open_calls_are_held_and_billed(running) -> None:
    async with running(latency_seconds=2.5, latency_spread=0.2, mean_tokens=60) as simulator:
        async with contextlib.AsyncExitStack() as stack:
            ends = [await stack.enter_async_context(wire(simulator)) for _ in range(2000)]
            for number, (_, writer) in enumerate(ends):
                writer.write(call({**BODY, "seed": number}))
            replies = await asyncio.gather(*(_answer(reader) for reader, _ in ends))
        bill, rows = await simulator.bill(), await simulator.emitted(2000)
    assert bill["open_max"] > 1500
    assert (bill["calls"], bill["open"], bill["disconnected"]) == (2000, 0, 0)
    told = {reply["id"]: reply["usage"]["completion_tokens"] for reply in replies}
    assert told == {row["generation_id"]: len(row["completion_ids"]) for row in rows}
    assert bill["completion_tokens"] == sum(told.values())


async def _answer(reader: asyncio.StreamReader) -> dict:
    await head(reader)
    return json.loads((await chunks(reader))[-1])
