"""Small servers on loopback, and how to talk to them."""

import asyncio
import contextlib

from pydantic import SecretStr

from eagle3gen.endpoint.client import Endpoint

PULSE = b"\n         \n"
HEAD = b"HTTP/1.1 200 OK\r\nX-Generation-Id: gen-7\r\nTransfer-Encoding: chunked\r\n"
STREAM_HEAD = HEAD + b"Content-Type: text/event-stream\r\n\r\n"
PLAIN_HEAD = HEAD + b"\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def plain(status: str, body: bytes, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def read_request(reader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(x.split(b":")[1]) for x in head.lower().split(b"\r\n") if x.startswith(b"content-length")), 0)
    return head, await reader.readexactly(length)


@contextlib.asynccontextmanager
async def server(talk):
    """The base URL of a server that answers each connection with `talk(reader, writer)`."""
    talks = set()

    async def one(reader, writer):
        talks.add(asyncio.current_task())
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await talk(reader, writer)
                await writer.drain()
        finally:
            writer.close()

    listening = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/api/v1"
    finally:
        listening.close()
        for open_talk in talks:
            open_talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the loop's next turn


@contextlib.asynccontextmanager
async def serving(talk, *, key=None, **options):
    """An endpoint whose server answers each connection with `talk(reader, writer)`."""
    async with server(talk) as url:
        endpoint = Endpoint(url + "/", key and SecretStr(key), connections=4, **options)
        try:
            yield endpoint
        finally:
            await endpoint.close()


def answering(*parts):
    async def talk(reader, writer):
        await read_request(reader)
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.01)

    return talk
