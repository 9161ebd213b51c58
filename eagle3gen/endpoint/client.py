"""The client: one call under its deadlines, and whatever happens becomes a `Reply`."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from eagle3gen import __version__
from eagle3gen.endpoint.address import Address, addresses, choose
from eagle3gen.endpoint.answer import label
from eagle3gen.endpoint.assembly import Assembly
from eagle3gen.endpoint.deadlines import CONNECT_SECONDS, Deadlines, Transport
from eagle3gen.endpoint.extras import Extras
from eagle3gen.endpoint.lost import ENDINGS, LOST, explained, failed, reason
from eagle3gen.endpoint.receiving import Clock, is_stream, read_plain, read_stream
from eagle3gen.endpoint.refusal import Decision
from eagle3gen.endpoint.reply import Reply, read_reply
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.endpoint.sampling import check_sampling
from eagle3gen.errors import ConfigurationError, InputError, ServiceUnreachable

PING_SECONDS = 5.0
KEEPALIVE_SECONDS = 60.0

Noted = Callable[[str], None]


class Endpoint:
    """An OpenAI-compatible endpoint, with a connection for every open call.

    `base_url` may be several, also in one string with commas: calls go where the least are open.
    `free` declares that answers cost nothing, where the server says nothing of cost.

    httpx over aiohttp's transport: httpx's own pool is quadratic in the number of connections (encode/httpx 3215).
    Raises ConfigurationError for an address that is no URL and a key that cannot stand in a header.
    """

    def __init__(
        self, base_url: str | Sequence[str], api_key: SecretStr | None, *, connections: int, free: bool = False
    ) -> None:
        self._addresses = addresses(base_url)
        self.base_url = ",".join(address.url for address in self._addresses)
        self._free = free
        self._extras = Extras(is_openrouter=self._addresses[0].is_openrouter)
        headers = {"Content-Type": "application/json", "User-Agent": f"eagle3gen/{__version__}"}
        self._key = api_key
        if api_key is not None:
            headers["Authorization"] = f"Bearer {_checked(api_key.get_secret_value())}"
        # The deadlines are the caller's; only connecting has one of its own.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(
            transport=AiohttpTransport(client=_session(connections)), headers=headers, timeout=timeout
        )

    async def complete(
        self,
        request: CompletionRequest,
        *,
        deadline_seconds: float | None = None,
        deadlines: Deadlines | None = None,
        transport: Transport = Transport.PLAIN,
        on_generation_id: Noted | None = None,
    ) -> Reply:
        """One answer, or why there is none. Raises nothing but CancelledError, which closes the connection.

        `deadlines` wins over `deadline_seconds`, which is the total alone; one of them must be given.
        `on_generation_id` is called, and must not raise, when the headers tell the id of the call.
        """
        if deadlines is None:
            if deadline_seconds is None:
                raise TypeError("a call needs its deadlines")
            deadlines = Deadlines(total=deadline_seconds)
        try:
            check_sampling(request.sampling)
        except InputError as error:
            return failed("bad_sampling", str(error), Decision.PAUSE_DATASET)
        while True:
            extra = self._extras.for_call(request, transport)
            try:
                body = self._extras.adapted(request).body(extra)
            except (TypeError, ValueError, RecursionError):
                # Never shown: the error of the encoder may quote the prompt.
                message = "the prompt cannot be written as JSON, for instance because it holds half of a character"
                return failed("unsendable", message, Decision.FAIL_PROMPT)
            reply = await self._balanced(body, deadlines, on_generation_id)
            # A server that does not know one of our own wishes is asked again without it, now and from now on.
            if not self._extras.drop_unwelcome(extra, reply, transport):
                return self._priced(reply)

    async def _balanced(self, body: bytes, deadlines: Deadlines, noted: Noted | None) -> Reply:
        """One call, or one more for every base URL to which there was no connection."""
        for attempt in range(len(self._addresses)):
            address = choose(self._addresses)
            address.calls += 1
            try:
                reply = await self._call(address, body, deadlines, noted)
            finally:
                address.calls -= 1
            if reply.refusal is None or reply.refusal.kind != "unreachable":
                break
            address.rest()
            if attempt + 1 < len(self._addresses) and choose(self._addresses).rests_until > time.monotonic():
                break
        if len(self._addresses) > 1 and reply.completion is not None and reply.completion.host is None:
            return replace(reply, completion=replace(reply.completion, host=address.name))
        return reply

    async def _call(self, address: Address, body: bytes, deadlines: Deadlines, noted: Noted | None) -> Reply:
        started = time.monotonic()
        headers: Mapping[str, str] = {}
        assembly: Assembly | None = None
        status = 200
        try:
            async with (
                Clock(deadlines) as clock,
                self._http.stream(
                    "POST", f"{address.url}/chat/completions", content=body, timeout=_timeout(deadlines)
                ) as response,
            ):
                status, headers = response.status_code, response.headers
                clock.headers_came()
                if noted is not None and (generation_id := label(headers.get("x-generation-id"))):
                    noted(generation_id)
                if is_stream(response):
                    assembly = Assembly()
                    await read_stream(response, assembly, clock)
                    received = assembly.body()
                else:
                    received = await read_plain(response)
        except ENDINGS as error:
            seconds = time.monotonic() - started
            if assembly is not None:
                reply = self._read(status, headers, assembly.body(), seconds)
                if reply.refusal is None or reply.refusal.kind != "cut_off":
                    return reply  # it had said everything before it was lost
            return explained(error, deadlines, seconds, headers)
        return self._read(status, headers, received, time.monotonic() - started)

    def _read(self, status: int, headers: Mapping[str, str], received: bytes, seconds: float) -> Reply:
        reply = read_reply(status, headers, received, seconds)
        key = self._key.get_secret_value().encode() if self._key else b""
        if reply.refusal is None or not key or key not in received:
            return reply
        # Some endpoints repeat a key they refuse: it is read again without.
        return read_reply(status, headers, received.replace(key, b"***"), seconds)

    def _priced(self, reply: Reply) -> Reply:
        """With a cost of 0 where that is declared and nothing else is said."""
        if not self._free:
            return reply
        if reply.completion is not None and reply.completion.usage.cost_usd is None:
            usage = replace(reply.completion.usage, cost_usd=Decimal(0))
            return replace(reply, completion=replace(reply.completion, usage=usage))
        if reply.refusal is not None and reply.refusal.usage.cost_usd is None:
            usage = replace(reply.refusal.usage, cost_usd=Decimal(0))
            return replace(reply, refusal=replace(reply.refusal, usage=usage))
        return reply

    async def ping(self) -> str | None:
        """What time it is there, by the `Date` header of the last base URL.

        Raises ServiceUnreachable when nothing answers at a base URL, or what answers sends elsewhere.
        """
        date = None
        for address in self._addresses:
            date = await self._ping(address.url)
        return date

    async def _ping(self, url: str) -> str | None:
        try:
            async with asyncio.timeout(PING_SECONDS):
                response = await self._http.get(f"{url}/models")
        except (TimeoutError, ValueError, httpx.HTTPError, httpx.InvalidURL, *LOST) as error:
            raise ServiceUnreachable(
                f"the endpoint {url} does not answer ({reason(error)}); check --endpoint-url"
            ) from error
        if response.is_redirect:
            raise ServiceUnreachable(
                f"the endpoint {url} redirects to {response.headers.get('location')}; check --endpoint-url"
            )
        # Not every API lists its models, but a web page in place of JSON is none.
        if response.status_code >= 400 and "json" not in response.headers.get("content-type", ""):
            raise ServiceUnreachable(
                f"{url} answers {response.status_code} with a page, not with an API; check --endpoint-url"
            )
        date: str | None = response.headers.get("date")
        return date

    async def get(self, path: str, parameters: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of a side endpoint, with its numbers exact; None for a body that is no JSON.

        Raises ServiceUnreachable.
        """
        url = f"{self._addresses[0].url}{path}"
        try:
            async with asyncio.timeout(PING_SECONDS):
                response = await self._http.get(url, params=parameters)
        except (TimeoutError, ValueError, httpx.HTTPError, httpx.InvalidURL, *LOST) as error:
            raise ServiceUnreachable(f"{url} does not answer ({reason(error)})") from error
        try:
            return response.status_code, json.loads(response.content, parse_float=Decimal)
        except (ValueError, RecursionError, InvalidOperation):
            return response.status_code, None

    @property
    def key_digest(self) -> str:
        """Tells one key from another without telling the key: eight bytes of its SHA-256."""
        key = self._key.get_secret_value() if self._key else ""
        return sha256(key.encode()).hexdigest()[:16]

    async def close(self) -> None:
        await self._http.aclose()


def _session(connections: int) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=connections + 8, keepalive_timeout=KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
    )


def _timeout(deadlines: Deadlines) -> Any:
    if deadlines.connect is None:
        return httpx.USE_CLIENT_DEFAULT
    return httpx.Timeout(None, connect=deadlines.connect)


def _checked(key: str) -> str:
    """The key, which is never shown: not in an error, and not in a log."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            "the API key is empty, or holds a blank, a line break or a character that is not ASCII; set it anew"
        )
    return key
