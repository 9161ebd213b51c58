"""The client against small servers on loopback: whatever the network does becomes a reply."""

import asyncio
import contextlib
import logging
import socket
import struct
import sys

import orjson
import pytest
from pydantic import SecretStr

from eagle3gen.endpoint.client import Endpoint
from eagle3gen.endpoint.deadlines import Deadlines, Transport
from eagle3gen.endpoint.refusal import Billed, Decision
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.errors import ConfigurationError, ServiceUnreachable
from tests.integration.endpoint.servers import PLAIN_HEAD, PULSE, answering, chunk, plain, read_request, serving

KEY = "sk-or-v1-0123456789abcdef"
REQUEST = CompletionRequest(
    model="m", messages=[{"role": "user", "content": "hi"}], max_tokens=5, sampling={"temperature": 1}
)
OK = (
    b'{"id":"gen-1","choices":[{"finish_reason":"stop","message":{"content":" hi"}}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":2,"cost":0.1}}'
)


async def refusal_of(talk, *, deadline=5.0, key=None):
    async with serving(talk, key=key) as endpoint:
        reply = await endpoint.complete(REQUEST, deadline_seconds=deadline)
    assert reply.refusal is not None
    return reply.refusal


@pytest.fixture
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


async def test_pulses_then_an_answer():
    """Blanks keep the connection alive and are no part of the answer."""
    async with serving(answering(PLAIN_HEAD, *[chunk(PULSE)] * 5, chunk(OK), b"0\r\n\r\n")) as endpoint:
        reply = await endpoint.complete(REQUEST, deadline_seconds=5)
    assert reply.completion is not None
    assert reply.completion.content == " hi"
    assert reply.body.strip() == OK
    assert 0 < reply.seconds < 5


async def test_what_is_sent():
    """The request goes to chat/completions with the key in its header and max_tokens always set."""
    seen = {}

    async def talk(reader, writer):
        seen["head"], seen["body"] = await read_request(reader)
        writer.write(plain("200 OK", OK))

    async with serving(talk, key=KEY) as endpoint:
        await endpoint.complete(REQUEST, deadline_seconds=5)
    assert seen["head"].startswith(b"POST /api/v1/chat/completions HTTP/1.1\r\n")
    assert f"authorization: bearer {KEY}".encode() in seen["head"].lower()
    assert orjson.loads(seen["body"]) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 5,
        "temperature": 1,
        "return_token_ids": True,
    }


async def test_endless_pulses_meet_the_deadline():
    """A deadline is over all, for no read ever times out; the call may have been billed."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(PLAIN_HEAD)
        while True:
            writer.write(chunk(PULSE))
            await writer.drain()
            await asyncio.sleep(0.02)

    refusal = await refusal_of(talk, deadline=0.3)
    assert (refusal.kind, refusal.billed, refusal.decision) == ("deadline", Billed.MAYBE, Decision.RETRY)
    assert refusal.generation_id == "gen-7"


async def test_a_reset_in_the_middle_may_have_been_billed():
    """A connection reset after the request was sent."""

    async def talk(reader, writer):
        await read_request(reader)
        writer.write(PLAIN_HEAD + chunk(PULSE))
        await writer.drain()
        await asyncio.sleep(0.05)
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    refusal = await refusal_of(talk)
    assert (refusal.kind, refusal.billed, refusal.generation_id) == ("connection_lost", Billed.MAYBE, "gen-7")


BROKEN = {
    "closed before a byte": (),
    "closed in the middle": (PLAIN_HEAD, chunk(OK[:30])),
    "no HTTP": (b"\x00\x01garbage\r\n\r\n",),
    "broken compression": (plain("200 OK", b"abcde", "Content-Encoding: gzip\r\n"),),
}


@pytest.mark.parametrize("parts", BROKEN.values(), ids=BROKEN)
async def test_a_broken_reply_may_have_been_billed(parts):
    """The request arrived, the reply did not: tried again, counted, with the hold kept."""
    refusal = await refusal_of(answering(*parts))
    assert (refusal.kind, refusal.billed, refusal.decision) == ("connection_lost", Billed.MAYBE, Decision.RETRY)
    assert refusal.blames_prompt


async def test_pulses_and_then_nothing():
    """A clean end without JSON is no answer, and may have been billed."""
    refusal = await refusal_of(answering(PLAIN_HEAD, chunk(PULSE), b"0\r\n\r\n"))
    assert (refusal.kind, refusal.billed, refusal.generation_id) == ("cut_off", Billed.MAYBE, "gen-7")


async def test_a_reply_without_an_end_is_given_up(monkeypatch):
    """No reply may fill the memory."""
    monkeypatch.setattr("eagle3gen.endpoint.receiving.BODY_BYTES_MAX", 1000)
    refusal = await refusal_of(answering(PLAIN_HEAD, *[chunk(b" " * 600)] * 3))
    assert (refusal.kind, refusal.billed) == ("too_large", Billed.MAYBE)


async def test_nothing_listens(free_port):
    """A refused connection costs nothing and blames no prompt."""
    endpoint = Endpoint(f"http://127.0.0.1:{free_port}/v1", None, connections=1)
    reply = await endpoint.complete(REQUEST, deadline_seconds=5)
    await endpoint.close()
    assert reply.refusal is not None
    assert (reply.status, reply.refusal.kind, reply.refusal.billed) == (None, "unreachable", Billed.NO)
    assert not reply.refusal.blames_prompt
    assert reply.outcome == "transient"


@pytest.mark.skipif(sys.platform != "linux", reason="a full backlog drops connections only on Linux")
@pytest.mark.parametrize("own", [None, 0.2])
async def test_a_server_that_takes_no_connections_is_unreachable(monkeypatch, own):
    """Connecting has a deadline of its own, and what was never connected was never billed."""
    monkeypatch.setattr("eagle3gen.endpoint.client.CONNECT_SECONDS", 9 if own else 0.2)
    with contextlib.ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.settimeout(0)
            filler.connect_ex(full.getsockname())
        endpoint = Endpoint(f"http://127.0.0.1:{full.getsockname()[1]}/v1", None, connections=1)
        reply = await endpoint.complete(REQUEST, deadlines=Deadlines(total=5, connect=own))
        await endpoint.close()
    assert reply.refusal is not None
    assert (reply.refusal.kind, reply.refusal.billed) == ("unreachable", Billed.NO)
    assert reply.seconds < 2


@pytest.mark.parametrize("url", ["ftp://h/v1", "127.0.0.1/v1", "", "http://", "http://[::1/v1", "http://h:x/v1"])
def test_an_address_that_is_none_is_refused(url):
    """Before anything is claimed or sent."""
    with pytest.raises(ConfigurationError, match="check --endpoint-url"):
        Endpoint(url, None, connections=1)


@pytest.mark.parametrize("url", ["http://a\x00b/v1", "http://" + "a" * 70 + "..b/v1", "http://\u2024\u2024/v1"])
async def test_a_host_name_that_is_none_pauses_or_waits(url):
    """What only the transport finds out costs nothing and loses no prompt."""
    endpoint = Endpoint(url, None, connections=1)
    reply = await endpoint.complete(REQUEST, deadline_seconds=5)
    await endpoint.close()
    assert reply.refusal is not None
    assert reply.refusal.billed is Billed.NO
    assert reply.refusal.decision is Decision.PAUSE_DATASET or not reply.refusal.blames_prompt


async def test_a_closed_idle_connection_is_not_an_error():
    """A server may close idle connections: the next call opens another."""
    connections = 0

    async def talk(reader, writer):
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(plain("200 OK", OK))
        await writer.drain()
        await asyncio.sleep(0.03)

    async with serving(talk) as endpoint:
        for _ in range(3):
            reply = await endpoint.complete(REQUEST, deadline_seconds=5)
            assert reply.completion is not None
            await asyncio.sleep(0.1)
    assert connections == 3


async def test_a_connection_is_used_again():
    """Calls one after the other share a connection."""
    connections = 0

    async def talk(reader, writer):
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(plain("200 OK", OK))

    async with serving(talk) as endpoint:
        for _ in range(3):
            assert (await endpoint.complete(REQUEST, deadline_seconds=5)).completion is not None
    assert connections == 1


async def test_a_limit_says_when_to_come_back():
    """Retry-After of a 429 is read from the headers."""
    body = b'{"error":{"code":429,"message":"slow down"}}'
    refusal = await refusal_of(answering(plain("429 Too Many Requests", body, "Retry-After: 17\r\n")))
    assert (refusal.kind, refusal.retry_after_seconds, refusal.billed) == ("rate_limited", 17.0, Billed.NO)


async def test_a_redirect_is_not_followed():
    """A key is never sent to where a redirect leads: the address is wrong, and the dataset pauses."""
    refusal = await refusal_of(answering(plain("302 Found", b"", "Location: http://127.0.0.1:1/\r\n")), key=KEY)
    assert (refusal.kind, refusal.decision) == ("redirected", Decision.PAUSE_DATASET)
    assert "--endpoint-url" in refusal.message


async def test_a_cancelled_call_closes_its_connection():
    """A stop reaches the host, which may then stop billing."""
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def talk(reader, writer):
        await read_request(reader)
        arrived.set()
        assert await reader.read() == b""
        closed.set()

    async with serving(talk) as endpoint:
        call = asyncio.create_task(endpoint.complete(REQUEST, deadline_seconds=30))
        await asyncio.wait_for(arrived.wait(), 5)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(closed.wait(), 5)


@pytest.mark.parametrize("content", ["\ud800", 2**80, object()])
async def test_a_prompt_that_is_no_json_fails_alone(content, free_port):
    """It is not sent, and its text is not shown."""
    endpoint = Endpoint(f"http://127.0.0.1:{free_port}/v1", None, connections=1)
    request = CompletionRequest(model="m", messages=[{"role": "user", "content": content}], max_tokens=5)
    reply = await endpoint.complete(request, deadline_seconds=5)
    await endpoint.close()
    assert reply.refusal is not None
    assert (reply.refusal.kind, reply.outcome, reply.refusal.billed) == ("unsendable", "permanent_prompt", Billed.NO)


@pytest.mark.parametrize("bad", ["", "sk-bad\n", "sk-\nbad", "sk-é", "sk bad", "sk-\x00"])
def test_a_key_that_no_header_takes_is_refused_unseen(bad):
    """One sentence, and the key is not in it."""
    with pytest.raises(ConfigurationError, match="API key") as caught:
        Endpoint("http://127.0.0.1:1/v1", SecretStr(bad), connections=1)
    assert not bad or bad not in str(caught.value)
    assert caught.value.__cause__ is None


async def test_the_key_is_nowhere_to_be_seen(caplog):
    """Not in a repr, not in a log of any library, not in a refusal that repeats it."""
    caplog.set_level(logging.DEBUG)
    body = orjson.dumps({"error": {"code": 401, "message": f"Incorrect API key provided: {KEY}"}})
    async with serving(answering(plain("401 Unauthorized", body)), key=KEY) as endpoint:
        reply = await endpoint.complete(REQUEST, deadline_seconds=5)
        shown = repr(endpoint) + repr(vars(endpoint)) + repr(endpoint._http.headers)
    assert reply.outcome == "fatal_key"
    assert "Incorrect API key provided: ***" in repr(reply)
    assert KEY not in repr(reply) + shown + caplog.text


async def test_a_ping_is_answered():
    """Any API will do: not every endpoint lists its models."""
    async with serving(answering(plain("404 Not Found", b"{}", "Content-Type: application/json\r\n"))) as endpoint:
        await endpoint.ping()


async def test_a_web_page_is_no_endpoint():
    """A wrong path shows before anything is enqueued."""
    page = plain("404 Not Found", b"<html>nothing here</html>", "Content-Type: text/html\r\n")
    async with serving(answering(page)) as endpoint:
        with pytest.raises(ServiceUnreachable, match="check --endpoint-url"):
            await endpoint.ping()


async def test_a_ping_without_an_answer_says_so(free_port, monkeypatch):
    """Silence, a closed port and a redirect are one sentence each, within seconds."""
    monkeypatch.setattr("eagle3gen.endpoint.client.PING_SECONDS", 0.2)

    async def silent(reader, writer):
        await asyncio.sleep(1)

    async with serving(silent) as endpoint:
        with pytest.raises(ServiceUnreachable, match=r"does not answer.*check --endpoint-url"):
            await endpoint.ping()
    endpoint = Endpoint(f"http://127.0.0.1:{free_port}/v1", None, connections=1)
    with pytest.raises(ServiceUnreachable, match="does not answer"):
        await endpoint.ping()
    await endpoint.close()
    async with serving(answering(plain("301 Moved", b"", "Location: http://elsewhere/\r\n"))) as endpoint:
        with pytest.raises(ServiceUnreachable, match="redirects to http://elsewhere/"):
            await endpoint.ping()


def sent_by(endpoint):
    extras = endpoint._extras
    return orjson.loads(extras.adapted(REQUEST).body(extras.for_call(REQUEST, Transport.PLAIN)))


async def test_openrouter_is_told_not_to_alter_prompts():
    """Its extras go to OpenRouter and to nobody else."""
    ours = Endpoint("https://openrouter.ai/api/v1", None, connections=1)
    others = [Endpoint(f"https://{h}/v1", None, connections=1) for h in ("openrouter.ai.evil.test", "127.0.0.1:8000")]
    body = sent_by(ours)
    assert body["plugins"] == [{"id": "context-compression", "enabled": False}]
    assert body["reasoning"] == {"exclude": False}
    assert "return_token_ids" not in body
    assert not {"session_id", "prompt_cache_key", "transforms"} & body.keys()
    # Neither a stored reply nor one host for all is asked for.
    assert not [name for name in ours._http.headers if name.startswith(("x-openrouter", "x-session"))]
    for endpoint in others:
        assert not {"plugins", "reasoning"} & sent_by(endpoint).keys()
        await endpoint.close()
    await ours.close()
