"""A small HTTP/1.1 server: one protocol object per connection, no task per request."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import httptools

PULSE = b"\n         \n"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})
REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    403: "Forbidden",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
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

    def reply(self, status: int, body: bytes, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """A whole answer at once."""
        self._head(status, {"Content-Length": str(len(body)), **headers}, body)
        self.connection.answered()

    def begin(self) -> None:
        """Commit to 200 before the outcome is known, and send the first blanks."""
        self._head(200, {"Transfer-Encoding": "chunked"}, _chunk(PULSE))

    def _head(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        named = {"Content-Type": "application/json"}
        if self.generation_id is not None:
            named["X-Generation-Id"] = self.generation_id
        lines = "".join(f"{name}: {value}\r\n" for name, value in {**named, **headers}.items())
        self.connection.write(f"HTTP/1.1 {status} {REASONS.get(status, 'Error')}\r\n{lines}\r\n".encode() + body)

    def pulse(self) -> None:
        """Blanks that keep the connection alive."""
        self.connection.write(_chunk(PULSE))

    def finish(self, body: bytes) -> None:
        """The rest of an answer that was begun."""
        self.connection.write(_chunk(body) + b"0\r\n\r\n")
        self.connection.answered()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@dataclass(slots=True, eq=False)
class Connection(asyncio.Protocol):
    """One client connection. A client asks again only when it has its answer: nobody pipelines."""

    handle: Callable[[Request], None]
    transport: asyncio.Transport | None = None
    gone: bool = False
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

    def answered(self) -> None:
        if not self._keep_alive and self.transport is not None:
            self.transport.close()
