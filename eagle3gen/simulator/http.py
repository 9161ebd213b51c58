"""A small HTTP/1.1 server: one protocol object per connection, no task per request."""

import asyncio
import re
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import httptools

PULSE = b"\n         \n"
LEADING_BYTE = re.compile(rb"[\xc0-\xff]")
NO_LINGER = struct.pack("ii", 1, 0)
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    408: "Request Timeout",
    413: "Content Too Large",
    422: "Unprocessable Content",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


@dataclass(slots=True)
class Request:
    """One request, and the ways to answer it."""

    connection: "Connection"
    path: str
    query: str
    method: str
    headers: dict[str, str]
    body: bytes = b""
    generation_id: str | None = None
    """Told before the body of whatever is answered."""

    @property
    def listening(self) -> bool:
        """Whether the client is still there."""
        return not self.connection.gone

    def when_gone(self, tell: Callable[[], None] | None) -> None:
        """Call `tell` when the client goes before it has its answer; None: nobody needs to know any more."""
        self.connection.tell_gone = tell

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """A whole answer at once."""
        self._head(status, {"Content-Length": str(len(body)), **headers}, body)
        self.connection.answered()

    def begin(self, first: bytes = PULSE, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Commit to 200 before the outcome is known, and send what comes first."""
        self._head(200, {"Transfer-Encoding": "chunked", **headers}, _chunk(first) if first else b"")

    def _head(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        named = {"Content-Type": "application/json"}
        if self.generation_id is not None:
            named["X-Generation-Id"] = self.generation_id
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**named, **headers}.items())
        self.connection.write(f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\n{lines}\r\n".encode() + body)

    def send(self, data: bytes) -> None:
        """More of an answer that was begun."""
        self.connection.write(_chunk(data))

    def send_split(self, data: bytes) -> None:
        """The same in two chunks, cut inside of its first character that has several bytes."""
        found = LEADING_BYTE.search(data)
        parts = (data[: found.end()], data[found.end() :]) if found else (data,)
        self.connection.write(b"".join(map(_chunk, parts)))

    def finish(self, body: bytes = b"") -> None:
        """The rest of an answer that was begun."""
        self.connection.write((_chunk(body) if body else b"") + b"0\r\n\r\n")
        self.connection.answered()

    def reset(self) -> None:
        """Break the connection as a crash does: the client gets a reset, not an end."""
        self.connection.reset()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(slots=True, eq=False)
class Connection(asyncio.Protocol):
    """One client connection. A client asks again only when it has its answer: nobody pipelines."""

    handle: Callable[[Request], None]
    transport: asyncio.Transport | None = None
    gone: bool = False
    tell_gone: Callable[[], None] | None = None
    _parser: httptools.HttpRequestParser | None = None
    _url: bytes = b""
    _headers: dict[str, str] = field(default_factory=dict)
    _body: list[bytes] = field(default_factory=list)
    _keep_alive: bool = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # a stream transport, by the protocol's kind
        self._parser = httptools.HttpRequestParser(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.gone = True
        self._parser = None  # it refers to this object
        tell, self.tell_gone = self.tell_gone, None
        if tell is not None:
            tell()

    def data_received(self, data: bytes) -> None:
        if self._parser is None or self.transport is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    # Called by the parser.

    def on_message_begin(self) -> None:
        self._url, self._headers, self._body = b"", {}, []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._parser is None:
            return
        path, _, query = self._url.decode("latin-1").partition("?")
        self._keep_alive = self._parser.should_keep_alive()
        method = self._parser.get_method().decode("ascii")
        self.handle(Request(self, path, query, method, self._headers, b"".join(self._body)))

    # Called by requests.

    def write(self, data: bytes) -> None:
        if not self.gone and self.transport is not None:
            self.transport.write(data)

    def reset(self) -> None:
        if self.transport is None or self.gone:
            return
        self.tell_gone = None
        # Without lingering, closing sends a reset: what the kernel still holds is thrown away.
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()

    def answered(self) -> None:
        self.tell_gone = None
        if not self._keep_alive and self.transport is not None:
            self.transport.close()
