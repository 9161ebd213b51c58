"""Streams of server-sent events, from the first comment to the bill."""

import asyncio
import json
from dataclasses import replace
from decimal import Decimal

import httpx
import pytest

from eagle3gen.simulator.host import HOSTS
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.tokens.loading import folder_of

COMMENT = ": OPENROUTER PROCESSING"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "parameters": {"properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]
VOCABULARY = Vocabulary(folder_of("builtin:kimi-mini"))


def read(text: str) -> tuple[list[dict], list[str]]:
    """Events of a stream, and the other lines of it."""
    lines = [line for line in text.split("\n") if line]
    events = [
        json.loads(line.removeprefix("data: "), parse_float=Decimal) for line in lines if line.startswith("data: {")
    ]
    return events, [line for line in lines if not line.startswith("data: {")]


def joined(events: list[dict]) -> dict:
    """What a client makes of the deltas."""
    told = {"reasoning": "", "content": "", "calls": {}, "finish": [], "usage": []}
    for event in events:
        told["usage"] += [event["usage"]] if "usage" in event else []
        for choice in event["choices"]:
            delta = choice["delta"]
            told["reasoning"] += delta.get("reasoning") or ""
            told["content"] += delta.get("content") or ""
            told["finish"] += [choice["finish_reason"]] if choice["finish_reason"] else []
            for call in delta.get("tool_calls", ()):
                known = told["calls"].setdefault(call["index"], {"id": "", "name": "", "arguments": ""})
                known["id"] += call.get("id", "")
                known["name"] += call["function"].get("name", "")
                known["arguments"] += call["function"]["arguments"]
    return told


async def streamed(simulator, text: str = "Hi", **fields) -> tuple[httpx.Response, list[dict], list[str]]:
    reply = await simulator.ask(text, stream=True, **fields)
    return reply, *read(reply.text)


@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
async def test_the_deltas_of_a_stream_are_the_text_of_the_true_ids(running, tools) -> None:
    async with running(tool_share=1.0) as simulator:
        for number in range(12):
            reply, events, _ = await streamed(simulator, f"q {number}", tools=tools)
            told = joined(events)
            row = (await simulator.emitted(number + 1))[-1]
            runs = ids_of(row["completion_ids"])
            assert reply.headers["x-generation-id"] == row["generation_id"] == events[0]["id"]
            assert told["reasoning"] == VOCABULARY.text(runs["reasoning"])
            assert told["content"] == VOCABULARY.text(runs["content"])
            assert [call["id"] for call in told["calls"].values()] == runs["names"]
            assert [call["arguments"] for call in told["calls"].values()] == runs["arguments"]
            assert told["usage"][0]["completion_tokens"] == len(row["completion_ids"])
            assert row["streamed"] is True
            assert bool(told["calls"]) is bool(tools)


def ids_of(ids: list[int]) -> dict:
    names, parts = {number: name for name, number in VOCABULARY.controls.items()}, [("reasoning", [])]
    for number in ids:
        if number in names:
            parts.append((names[number], []))
        else:
            parts[-1][1].append(number)
    found = {"names": [], "arguments": [], "content": []}
    for name, part in parts:
        if name == "reasoning":
            found["reasoning"] = part
        elif name == "</think>":
            found["content"] = part
        elif name == "<|tool_call_begin|>":
            found["names"].append(VOCABULARY.text(part))
        elif name == "<|tool_call_argument_begin|>":
            found["arguments"].append(VOCABULARY.text(part))
    return found


async def test_a_stream_has_openrouters_shape(running) -> None:
    async with running(tool_share=0.0) as simulator:
        reply, events, others = await streamed(simulator)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert others[0] == COMMENT
    assert others[-1] == "data: [DONE]"
    assert set(others) == {COMMENT, "data: [DONE]"}
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    assert {event["id"] for event in events} == {events[0]["id"]}
    assert {event["model"] for event in events} == {"moonshotai/kimi-k2.5-0127"}
    first = events[0]["choices"][0]
    assert first["delta"]["role"] == "assistant"
    assert first["delta"]["content"] == ""
    assert first["delta"]["reasoning"] == first["delta"]["reasoning_details"][0]["text"]
    assert (first["finish_reason"], first["native_finish_reason"]) == (None, None)
    told = joined(events)
    assert told["finish"] == ["stop", "stop"]
    assert len(told["usage"]) == 1


async def test_a_tool_call_begins_with_its_name_and_goes_on_by_its_index(running) -> None:
    async with running(tool_share=1.0) as simulator:
        _, events, _ = await streamed(simulator, tools=TOOLS)
    deltas = [c["delta"] for event in events for c in event["choices"] if c["delta"].get("tool_calls")]
    first, second = deltas[0]["tool_calls"][0], deltas[1]["tool_calls"][0]
    assert (first["id"], first["type"]) == ("functions.look_up:0", "function")
    assert first["function"] == {"name": "look_up", "arguments": ""}
    assert second.keys() == {"index", "function"}
    assert deltas[0]["content"] is None
    assert joined(events)["finish"] == ["tool_calls", "tool_calls"]


async def test_the_counts_come_once_on_a_last_event_with_or_without_a_choice(running) -> None:
    async with running() as simulator:
        shapes = set()
        for number in range(16):
            _, events, _ = await streamed(simulator, str(number))
            with_usage = [event for event in events if "usage" in event]
            assert with_usage == events[-1:]
            shapes.add(len(events[-1]["choices"]))
    assert shapes == {0, 1}


async def test_the_cost_of_a_stream_is_its_bill(running) -> None:
    async with running(generation_delay_seconds=0.0) as simulator:
        _, events, _ = await streamed(simulator)
        bill = await simulator.bill()
        record = (await simulator.http.get(f"{simulator.url}/generation", params={"id": events[0]["id"]})).json()[
            "data"
        ]
    assert Decimal(bill["cost_usd"]) == joined(events)["usage"][0]["cost"] > 0
    assert (record["streamed"], record["cancelled"]) == (True, False)


async def test_comments_come_while_nothing_is_there_yet(running) -> None:
    async with running(latency_seconds=1.0, latency_spread=0.0, pulse_seconds=0.02) as simulator:
        reply = await simulator.ask(stream=True)
    before = reply.text.split("data: ")[0]
    assert 5 < before.count(COMMENT) < 15


async def test_events_are_spread_over_the_time_of_the_call(running) -> None:
    async with running(latency_seconds=1.0, latency_spread=0.0, mean_tokens=300, spread=0.0) as simulator:
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with simulator.http.stream("POST", f"{simulator.url}/chat/completions", json=CALL) as reply:
            times = [loop.time() - started async for _ in reply.aiter_bytes()]
    assert len(times) > 15
    assert times[-1] > 0.9
    assert sum(0.4 < at < 0.8 for at in times) > 0.2 * len(times)


CALL = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}


async def test_characters_are_cut_between_chunks_but_not_inside_of_deltas(running) -> None:
    """Bytes of a character may come in two chunks; a client that decodes chunk by chunk breaks."""
    broken = 0
    async with running(mean_tokens=400, latency_seconds=0.2, tokens_per_event=1) as simulator:
        for number in range(10):
            body = {**CALL, "seed": number}
            async with simulator.http.stream("POST", f"{simulator.url}/chat/completions", json=body) as reply:
                chunks = [data async for data in reply.aiter_raw()]
            events, _ = read(b"".join(chunks).decode("utf-8"))
            assert "\ufffd" not in joined(events)["reasoning"]
            for data in chunks:
                try:
                    data.decode("utf-8")
                except UnicodeDecodeError:
                    broken += 1
    assert broken


async def leave(simulator, after: int, **fields) -> str:
    """Read so many events and go; the text that was read."""
    got = b""
    async with simulator.http.stream("POST", f"{simulator.url}/chat/completions", json={**CALL, **fields}) as reply:
        async for data in reply.aiter_raw():
            got += data
            if got.count(b"data: ") >= after:
                break
    return got.decode("utf-8", "ignore")


async def test_a_client_that_goes_pays_for_what_was_sent(running) -> None:
    async with running(latency_seconds=2.0, mean_tokens=600, spread=0.0, generation_delay_seconds=0.0) as simulator:
        text = await leave(simulator, 40)
        (row,) = await simulator.emitted(1)
        bill = await simulator.bill()
        reply = await simulator.http.get(f"{simulator.url}/generation", params={"id": row["generation_id"]})
    reasoning = joined(read(text[: text.rindex("\n\n")])[0])["reasoning"]
    assert VOCABULARY.text(row["completion_ids"]).startswith(reasoning)
    assert 0 < len(row["completion_ids"]) == row["completion_tokens"] < 300
    assert (bill["calls"], bill["open"], bill["disconnected"]) == (1, 0, 1)
    assert bill["disconnected_tokens"] == reply.json()["data"]["native_tokens_completion"] == row["completion_tokens"]
    assert (reply.json()["data"]["cancelled"], row["finish_reason"]) == (True, None)


async def test_a_client_that_goes_before_the_first_event_pays_the_prompt(running) -> None:
    async with running(latency_seconds=2.0, pulse_seconds=0.05) as simulator:
        async with simulator.http.stream("POST", f"{simulator.url}/chat/completions", json=CALL):
            pass
        (row,) = await simulator.emitted(1)
    assert row["completion_ids"] == []
    assert row["prompt_tokens"] > 0


async def test_some_hosts_go_on_and_bill_all_when_the_client_has_gone(running) -> None:
    stubborn = replace(HOSTS[0], cancels=False)
    async with running(hosts=(stubborn,), latency_seconds=0.5, mean_tokens=200, spread=0.0) as simulator:
        await leave(simulator, 5)
        (row,) = await simulator.emitted(1)
        bill = await simulator.bill()
    assert row["completion_ids"][-1] == 163_586
    assert (bill["disconnected"], bill["disconnected_tokens"]) == (1, len(row["completion_ids"]))


def always(fault: str) -> dict:
    return {"fault": (("all", fault, 1.0),)}


async def test_an_error_in_the_middle_is_an_event_and_not_billed(running) -> None:
    async with running(**always("inside_error")) as simulator:
        finishes = set()
        for number in range(10):
            reply, events, others = await streamed(simulator, str(number))
            *good, last = events
            assert reply.status_code == 200
            assert len(good) > 3
            assert not any("error" in event for event in good)
            assert last["error"]["code"] in {400, 429, 502}
            assert last["usage"]["cost"] == 0
            assert others[-1] == "data: [DONE]"
            finishes.add(last["choices"][0]["finish_reason"])
        bill = await simulator.bill()
    assert finishes == {"error", None}
    assert (bill["calls"], bill["errors"], bill["open"], bill["cost_usd"]) == (0, 10, 0, "0")


async def test_a_stream_may_end_without_saying_so(running) -> None:
    async with running(**always("closed_early")) as simulator:
        _, events, others = await streamed(simulator)
        bill = await simulator.bill()
    assert joined(events)["finish"] == joined(events)["usage"] == []
    assert "data: [DONE]" not in others
    assert bill["calls"] == 1


async def test_a_stream_may_end_inside_of_an_event(running) -> None:
    async with running(**always("cut_json")) as simulator:
        reply = await simulator.ask(stream=True)
    last = reply.text.rsplit("data: ", 1)[1]
    with pytest.raises(json.JSONDecodeError):
        json.loads(last)


async def test_a_stream_may_be_reset(running) -> None:
    async with running(**always("reset")) as simulator:
        with pytest.raises(httpx.HTTPError):
            await simulator.ask(stream=True)
        assert (await simulator.bill())["calls"] == 1


async def test_a_stream_may_have_comments_only(running) -> None:
    async with running(**always("endless_pulses"), pulse_seconds=0.02) as simulator:
        got = b""
        async with simulator.http.stream("POST", f"{simulator.url}/chat/completions", json=CALL) as reply:
            async for data in reply.aiter_raw():
                got += data
                if got.count(b"PROCESSING") > 20:
                    break
        await asyncio.sleep(0.1)
        bill = await simulator.bill()
    assert b"data: " not in got
    assert (bill["calls"], bill["errors"], bill["open"]) == (0, 1, 0)


@pytest.mark.parametrize(
    ("fault", "kind"), [("encrypted_reasoning", "reasoning.encrypted"), ("summarised_reasoning", "reasoning.summary")]
)
async def test_hidden_reasoning_comes_as_an_item_of_its_own(running, fault, kind) -> None:
    async with running(**always(fault)) as simulator:
        _, events, _ = await streamed(simulator)
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    (item,) = [item for delta in deltas for item in delta.get("reasoning_details", ())]
    assert item["type"] == kind
    assert joined(events)["content"]


@pytest.mark.parametrize(("fault", "missing"), [("no_usage", "usage"), ("no_finish", "finish")])
async def test_a_stream_may_leave_out_its_counts_or_its_finish(running, fault, missing) -> None:
    async with running(**always(fault)) as simulator:
        _, events, others = await streamed(simulator)
    assert joined(events)[missing] == []
    assert others[-1] == "data: [DONE]"


async def test_five_hundred_streams_are_held_and_billed(running) -> None:
    async with running(latency_seconds=2.0, mean_tokens=60) as simulator:
        limits = httpx.Limits(max_connections=600)
        async with httpx.AsyncClient(timeout=30, limits=limits) as http:
            replies = await asyncio.gather(
                *(http.post(f"{simulator.url}/chat/completions", json={**CALL, "seed": n}) for n in range(500))
            )
        bill, rows = await simulator.bill(), await simulator.emitted(500)
    told = {}
    for reply in replies:
        events, _ = read(reply.text)
        told[events[0]["id"]] = joined(events)["usage"][0]["completion_tokens"]
    assert (bill["calls"], bill["open"]) == (500, 0)
    assert bill["open_max"] > 300
    assert told == {row["generation_id"]: len(row["completion_ids"]) for row in rows}
