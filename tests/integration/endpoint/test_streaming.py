"""Streams, deadlines and several servers, against small servers on loopback."""

import asyncio
import contextlib
import socket
import struct
from decimal import Decimal

import orjson
import pytest

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.deadlines import Deadlines, Transport
from eagle3gen.endpoint.refusal import Billed, Decision
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.errors import ConfigurationError
from tests.integration.endpoint.servers import (
    END,
    PLAIN_HEAD,
    PULSE,
    STREAM_HEAD,
    answering,
    chunk,
    plain,
    read_request,
    server,
    serving,
)

REQUEST = CompletionRequest(model="m", messages=[{"role": "user", "content": "hi"}], max_tokens=5)
DEADLINES = Deadlines(total=5)
COMMENT = b": OPENROUTER PROCESSING\n\n"
DONE = b"data: [DONE]\n\n"
OK = (
    b'{"id":"gen-1","choices":[{"finish_reason":"stop","message":{"content":" hi"}}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":2}}'
)


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Streams are looked at often, so that the tests are quick."""
    monkeypatch.setattr("eagle3gen.endpoint.receiving.PACE_SECONDS", 0.01)


def event(finish=None, text="", **more) -> bytes:
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]
    return b"data: " + orjson.dumps({"id": "gen-1", "provider": "H", "choices": choices, **more}) + b"\n\n"


BILL = event("stop", usage={"completion_tokens": 3, "cost": 0.25})


def streaming(*parts):
    return answering(STREAM_HEAD, *map(chunk, parts), END)


async def streamed(endpoint, deadlines=DEADLINES, transport=Transport.STREAM, **more):
    return await endpoint.complete(REQUEST, deadlines=deadlines, transport=transport, **more)


async def refusal_of(talk, deadlines=DEADLINES):
    async with serving(talk) as endpoint:
        reply = await streamed(endpoint, deadlines)
    assert reply.refusal is not None
    return reply.refusal


async def silence(reader, writer):
    await read_request(reader)
    await asyncio.sleep(30)


async def test_a_stream_is_an_answer():
    """Events cut anywhere, a character split over two packets, and the bill at the end."""
    raw = COMMENT + event(text=" é") + event(text="t") + BILL + DONE
    at = raw.index("é".encode()) + 1
    async with serving(streaming(raw[:5], raw[5:at], raw[at:])) as endpoint:
        reply = await streamed(endpoint)
    assert reply.completion is not None
    assert (reply.completion.content, reply.completion.usage.cost_usd) == (" ét", Decimal("0.25"))
    assert orjson.loads(reply.body)["streamed"]["done"]


async def test_a_stream_is_asked_for_with_its_bill():
    """`include_usage`, which other servers than OpenRouter wait for."""
    seen = {}

    async def talk(reader, writer):
        seen["body"] = orjson.loads((await read_request(reader))[1])
        writer.write(STREAM_HEAD + chunk(event(text="a") + BILL + DONE) + END)

    async with serving(talk) as endpoint:
        await streamed(endpoint)
    assert (seen["body"]["stream"], seen["body"]["stream_options"]) == (True, {"include_usage": True})


async def test_a_server_that_does_not_stream_may_answer_plain():
    """The content type tells."""
    async with serving(answering(plain("200 OK", OK, "Content-Type: application/json\r\n"))) as endpoint:
        assert (await streamed(endpoint)).outcome == "success"


async def test_a_plain_call_may_be_answered_by_a_stream():
    """So does the body itself."""
    async with serving(streaming(event(text="a"), BILL, DONE)) as endpoint:
        assert (await streamed(endpoint, transport=Transport.PLAIN)).outcome == "success"


async def test_an_error_instead_of_a_stream_is_read():
    """Refused before the stream began."""
    body = b'{"error":{"code":429,"message":"slow down"}}'
    refusal = await refusal_of(answering(plain("429 Too Many", body, "Retry-After: 7\r\n")))
    assert (refusal.kind, refusal.retry_after_seconds) == ("rate_limited", 7.0)


async def test_a_connection_is_used_again_after_a_stream():
    """The end behind [DONE] is read."""
    connections = 0

    async def talk(reader, writer):
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(STREAM_HEAD + chunk(event(text="a") + BILL + DONE) + END)

    async with serving(talk) as endpoint:
        for _ in range(3):
            assert (await streamed(endpoint)).outcome == "success"
    assert connections == 1


@pytest.mark.parametrize("drop", [b"", b": x\n\n", b"\n"])
async def test_a_stream_that_falls_silent_is_given_up(drop):
    """Comments and blanks are silence, however many."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(event(text="a")))
        while True:
            await asyncio.sleep(0.02)
            if drop:
                writer.write(chunk(drop))

    refusal = await refusal_of(talk, Deadlines(total=20, no_progress=0.3))
    assert (refusal.kind, refusal.billed, refusal.generation_id) == ("stalled", Billed.MAYBE, "gen-7")


async def test_a_slow_stream_is_not_stalled():
    """Every event starts the time anew."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD)
        for _ in range(12):
            await asyncio.sleep(0.1)
            writer.write(chunk(event(text="a")))
        writer.write(chunk(BILL + DONE) + END)

    async with serving(talk) as endpoint:
        reply = await streamed(endpoint, Deadlines(total=20, no_progress=0.9))
    assert reply.completion is not None
    assert reply.completion.content == "a" * 12


async def test_an_endless_stream_meets_the_total_deadline():
    """However much it says."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD)
        while True:
            writer.write(chunk(event(text="a")))
            await asyncio.sleep(0.02)

    refusal = await refusal_of(talk, Deadlines(total=0.4, no_progress=0.3))
    assert (refusal.kind, refusal.billed, refusal.generation_id) == ("deadline", Billed.MAYBE, "gen-7")


async def test_headers_have_a_deadline_of_their_own():
    """The request may have arrived."""
    refusal = await refusal_of(silence, Deadlines(total=20, first_byte=0.2))
    assert (refusal.kind, refusal.billed, refusal.decision) == ("first_byte_late", Billed.MAYBE, Decision.RETRY)


async def test_blanks_never_move_a_plain_deadline():
    """A call that only blanks keep alive ends, with its id, and may have been billed."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(PLAIN_HEAD)
        while True:
            writer.write(chunk(PULSE))
            await asyncio.sleep(0.02)

    async with serving(talk) as endpoint:
        deadlines = Deadlines(total=0.4, first_byte=0.3, no_progress=0.1)
        reply = await streamed(endpoint, deadlines, Transport.PLAIN)
    assert reply.refusal is not None
    assert (reply.refusal.kind, reply.refusal.billed) == ("deadline", Billed.MAYBE)
    assert reply.refusal.generation_id == "gen-7"


@pytest.mark.parametrize("transport", list(Transport))
async def test_the_id_is_told_while_the_call_is_open(transport):
    """The caller can write it down before anything is lost."""
    told = asyncio.Queue()

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(COMMENT))
        assert await told.get() == "gen-7"
        writer.write(chunk(event(text="a") + BILL + DONE) + END)

    async with serving(talk) as endpoint:
        reply = await streamed(endpoint, transport=transport, on_generation_id=told.put_nowait)
    assert reply.outcome == "success"


async def test_a_stream_lost_after_its_end_is_an_answer():
    """Only the last line was missing: what is paid for and whole is used."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(event(text="a") + BILL))
        await writer.drain()
        await asyncio.sleep(0.1)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    async with serving(talk) as endpoint:
        assert (await streamed(endpoint)).outcome == "success"


async def test_a_stream_that_does_not_close_is_an_answer():
    """After [DONE] nothing is awaited for long."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(event(text="data: [DONE]") + BILL) + chunk(DONE))
        await writer.drain()
        await asyncio.sleep(30)

    async with serving(talk) as endpoint:
        reply = await streamed(endpoint, Deadlines(total=20))
    assert reply.outcome == "success"
    assert reply.seconds < 15


async def test_a_text_that_spells_the_end_is_no_end():
    """The stream goes on behind it."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(event(text="\ndata: [DONE]\n\n")))
        await asyncio.sleep(1.5)
        writer.write(chunk(event(text="more") + BILL + DONE) + END)

    async with serving(talk) as endpoint:
        reply = await streamed(endpoint, Deadlines(total=20))
    assert reply.completion is not None
    assert reply.completion.content == "\ndata: [DONE]\n\nmore"


async def test_a_stream_lost_in_the_middle_may_have_been_billed():
    """Its text is not used."""
    refusal = await refusal_of(answering(STREAM_HEAD, chunk(event(text="a"))))
    assert (refusal.kind, refusal.billed, refusal.generation_id) == ("connection_lost", Billed.MAYBE, "gen-7")


async def test_a_stream_without_an_end_is_given_up(monkeypatch):
    """No stream may fill the memory."""
    monkeypatch.setattr("eagle3gen.endpoint.receiving.STREAM_BYTES_MAX", 1000)
    refusal = await refusal_of(streaming(*[event(text="a" * 200)] * 10))
    assert (refusal.kind, refusal.billed) == ("too_large", Billed.MAYBE)


async def test_a_cancelled_stream_closes_its_connection():
    """Which stops the bill on many hosts."""
    begun, closed = asyncio.Event(), asyncio.Event()

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(event(text="a")))
        begun.set()
        assert await reader.read() == b""
        closed.set()

    async with serving(talk) as endpoint:
        running = asyncio.create_task(streamed(endpoint))
        await asyncio.wait_for(begun.wait(), 5)
        await asyncio.sleep(0.05)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.wait_for(closed.wait(), 5)


def refusing(*names):
    """A server that refuses fields by name, and the bodies that it got."""
    bodies = []

    async def talk(reader, writer):
        while True:
            body = orjson.loads((await read_request(reader))[1])
            bodies.append(body)
            unknown = next((name for name in names if name in body), None)
            if unknown is None:
                writer.write(plain("200 OK", OK))
            else:
                writer.write(plain("400 Bad", orjson.dumps({"error": {"code": 400, "message": f"no {unknown} here"}})))

    return talk, bodies


async def test_wishes_that_a_server_refuses_are_dropped():
    """It is asked again without, and from then on at once."""
    talk, bodies = refusing("return_token_ids", "stream_options", "stream")
    async with serving(talk) as endpoint:
        for _ in range(2):
            assert (await streamed(endpoint, transport=Transport.AUTO)).outcome == "success"
    assert [len({"return_token_ids", "stream_options", "stream"} & body.keys()) for body in bodies] == [3, 2, 1, 0, 0]


async def test_a_stream_that_was_ordered_is_not_dropped():
    """Only `auto` falls back."""
    talk, bodies = refusing("stream")
    async with serving(talk) as endpoint:
        assert (await streamed(endpoint)).outcome == "permanent_prompt"
    assert len(bodies) == 1


async def test_ids_that_a_server_tells_are_kept():
    """As vLLM sends them."""
    body = OK.replace(b'"stop",', b'"stop","token_ids":[7,8],').replace(
        b'"choices"', b'"prompt_token_ids":[1],"choices"'
    )
    async with serving(answering(plain("200 OK", body))) as endpoint:
        reply = await endpoint.complete(REQUEST, deadline_seconds=5)
    assert reply.completion is not None
    assert (reply.completion.prompt_token_ids, reply.completion.output_token_ids) == ((1,), (7, 8))


async def test_what_is_free_costs_nothing_by_declaration():
    """A missing cost is unknown, unless it is declared to be 0."""
    for free, cost in ((False, None), (True, Decimal(0))):
        async with serving(answering(plain("200 OK", OK)), free=free) as endpoint:
            reply = await endpoint.complete(REQUEST, deadline_seconds=5)
        assert reply.completion is not None
        assert reply.completion.usage.cost_usd == cost


async def test_sampling_that_hides_the_reasoning_pauses_the_dataset():
    """Nothing is sent."""
    request = CompletionRequest(model="m", messages=[], max_tokens=5, sampling={"include_reasoning": False})
    endpoint = Endpoint("http://127.0.0.1:1/v1", None, connections=1)
    reply = await endpoint.complete(request, deadline_seconds=5)
    await endpoint.close()
    assert reply.refusal is not None
    assert (reply.refusal.kind, reply.refusal.decision) == ("bad_sampling", Decision.PAUSE_DATASET)


@contextlib.asynccontextmanager
async def balanced(*talks):
    """One endpoint over several servers."""
    async with contextlib.AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(server(talk)) for talk in talks]
        endpoint = Endpoint(", ".join(urls), None, connections=8)
        stack.push_async_callback(endpoint.close)
        yield endpoint


async def test_calls_go_where_the_least_are_open():
    """Each of two servers gets half of the calls that are open together."""
    counts = [0, 0]
    gate = asyncio.Event()

    def counting(n):
        async def talk(reader, writer):
            await read_request(reader)
            counts[n] += 1
            if sum(counts) == 6:
                gate.set()
            await gate.wait()
            writer.write(plain("200 OK", OK, "Connection: close\r\n"))

        return talk

    async with balanced(counting(0), counting(1)) as endpoint:
        replies = await asyncio.gather(*(endpoint.complete(REQUEST, deadline_seconds=5) for _ in range(6)))
    assert [r.outcome for r in replies] == ["success"] * 6
    assert counts == [3, 3]
    assert {r.completion.host for r in replies} == {a.name for a in endpoint._addresses}


async def test_a_dead_server_is_left_alone_for_a_while():
    """The call goes on to the next one, and later calls do not ask it."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{s.getsockname()[1]}/v1"
    async with server(answering(plain("200 OK", OK, "Connection: close\r\n"))) as url:
        endpoint = Endpoint([dead, url], None, connections=4)
        replies = [await endpoint.complete(REQUEST, deadline_seconds=5) for _ in range(3)]
        resting = [address.rests_until > 0 for address in endpoint._addresses]
        await endpoint.close()
    assert [r.outcome for r in replies] == ["success"] * 3
    assert resting == [True, False]


async def test_when_all_servers_are_dead_the_call_is_refused():
    """Once, unbilled, and without an end of trying."""
    endpoint = Endpoint("http://127.0.0.1:1/v1,http://127.0.0.1:2/v1", None, connections=4)
    replies = [await endpoint.complete(REQUEST, deadline_seconds=5) for _ in range(2)]
    await endpoint.close()
    assert [(r.refusal.kind, r.refusal.billed) for r in replies] == [("unreachable", Billed.NO)] * 2


def test_openrouter_is_not_mixed_with_other_servers():
    """They are told different things."""
    with pytest.raises(ConfigurationError, match="mixes"):
        Endpoint("https://openrouter.ai/api/v1,http://127.0.0.1:1/v1", None, connections=1)
