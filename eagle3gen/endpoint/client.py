"""The client: one call under one deadline, and whatever happens becomes a `Reply`."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from eagle3gen import __version__
from eagle3gen.endpoint.answer import label
from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import Reply, read_reply
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.errors import ConfigurationError, ServiceUnreachable

BODY_BYTES_MAX = 32 * 2**20
CONNECT_SECONDS = 10.0
PING_SECONDS = 5.0
KEEPALIVE_SECONDS = 60.0
OPENROUTER_EXTRAS: Mapping[str, Any] = {
    # Prompts are never to be altered on their way, and hidden reasoning could not be rebuilt.
    "plugins": [{"id": "context-compression", "enabled": False}],
    "reasoning": {"exclude": False},
}


LOST = (aiohttp.ClientError, OSError)
"""What the transport lets through beside httpx's own errors."""


class TooLarge(Exception):
    """The body is larger than any answer."""


class Endpoint:
    """An OpenAI-compatible endpoint, with a connection for every open call.

    httpx over aiohttp's transport: httpx's own pool is quadratic in the number of connections (encode/httpx 3215).
    Raises ConfigurationError for an address that is no URL and a key that cannot stand in a header.
    """

    def __init__(self, base_url: str, api_key: SecretStr | None, *, connections: int) -> None:
        self.base_url = base_url.rstrip("/")
        self._extras = OPENROUTER_EXTRAS if _is_openrouter(_host(base_url)) else {}
        headers = {"Content-Type": "application/json", "User-Agent": f"eagle3gen/{__version__}"}
        self._key = api_key
        if api_key is not None:
            headers["Authorization"] = f"Bearer {_checked(api_key.get_secret_value())}"
        # The total deadline is the caller's; only connecting has one of its own.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(
            transport=AiohttpTransport(client=_session(connections)), headers=headers, timeout=timeout
        )

    async def complete(
        self,
        request: CompletionRequest,
        *,
        deadline_seconds: float,
        on_generation_id: Callable[[str], None] | None = None,
    ) -> Reply:
        """One answer, or why there is none. Raises nothing but CancelledError, which closes the connection.

        `on_generation_id` is told the endpoint's id of the call as soon as the headers are there.
        """
        started = time.monotonic()
        try:
            body = request.body(self._extras)
        except (TypeError, ValueError, RecursionError):
            # Never shown: the error of the encoder may quote the prompt.
            message = "the prompt cannot be written as JSON, for instance because it holds half of a character"
            return _failed("unsendable", message, started, decision=Decision.FAIL_PROMPT)
        headers: Mapping[str, str] = {}
        try:
            async with (
                asyncio.timeout(deadline_seconds),
                self._http.stream("POST", f"{self.base_url}/chat/completions", content=body) as response,
            ):
                headers = response.headers
                if on_generation_id is not None and (generation_id := label(headers.get("x-generation-id"))):
                    on_generation_id(generation_id)
                received = await _read(response)
        except (TimeoutError, TooLarge, ValueError, httpx.HTTPError, httpx.InvalidURL, *LOST) as error:
            return _explained(error, deadline_seconds, started, headers)
        reply = read_reply(response.status_code, headers, received, time.monotonic() - started)
        key = self._key.get_secret_value().encode() if self._key else b""
        if reply.refusal is None or not key or key not in received:
            return reply
        # Some endpoints repeat a key they refuse: it is read again without.
        return read_reply(response.status_code, headers, received.replace(key, b"***"), reply.seconds)

    async def ping(self) -> None:
        """Raises ServiceUnreachable when nothing answers at the base URL, or what answers sends elsewhere."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                response = await self._http.get(f"{self.base_url}/models")
        except (TimeoutError, ValueError, httpx.HTTPError, httpx.InvalidURL, *LOST) as error:
            raise ServiceUnreachable(
                f"the endpoint {self.base_url} does not answer ({_reason(error)}); check --endpoint-url"
            ) from error
        if response.is_redirect:
            raise ServiceUnreachable(
                f"the endpoint {self.base_url} redirects to {response.headers.get('location')}; check --endpoint-url"
            )
        # Not every API lists its models, but a web page in place of JSON is none.
        if response.status_code >= 400 and "json" not in response.headers.get("content-type", ""):
            raise ServiceUnreachable(
                f"{self.base_url} answers {response.status_code} with a page, not with an API; check --endpoint-url"
            )

    async def get(self, path: str, parameters: Mapping[str, str] | None = None) -> tuple[int, Any]:
        """Status and JSON of a side endpoint, with its numbers exact; None for a body that is no JSON.

        Raises ServiceUnreachable.
        """
        try:
            async with asyncio.timeout(PING_SECONDS):
                response = await self._http.get(f"{self.base_url}{path}", params=parameters)
        except (TimeoutError, ValueError, httpx.HTTPError, httpx.InvalidURL, *LOST) as error:
            raise ServiceUnreachable(f"{self.base_url}{path} does not answer ({_reason(error)})") from error
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


async def _read(response: httpx.Response) -> bytes:
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise TooLarge
    return b"".join(chunks)


def _explained(error: Exception, deadline_seconds: float, started: float, headers: Mapping[str, str]) -> Reply:
    """A call without a reply: what went wrong, and whether anything can have been sent."""
    if _never_connected(error):
        reply = _failed("unreachable", f"cannot connect: {_reason(error)}", started, blames_prompt=False)
    elif isinstance(error, TimeoutError):
        reply = _failed("deadline", f"no answer within {deadline_seconds:g} s", started, billed=Billed.MAYBE)
    elif isinstance(error, TooLarge):
        reply = _failed("too_large", "the reply is larger than any answer", started, billed=Billed.MAYBE)
    elif not headers and isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL | ValueError):
        message = f"nothing can be sent to this address ({_reason(error)}): wrong --endpoint-url"
        reply = _failed("wrong_url", message, started, decision=Decision.PAUSE_DATASET)
    else:
        message = f"the connection was lost: {_reason(error)}"
        reply = _failed("connection_lost", message, started, billed=Billed.MAYBE)
    if reply.refusal is None:
        raise AssertionError("a failure is a refusal")
    return replace(reply, refusal=replace(reply.refusal, generation_id=headers.get("x-generation-id")))


def _failed(
    kind: str,
    message: str,
    started: float,
    *,
    decision: Decision = Decision.RETRY,
    billed: Billed = Billed.NO,
    blames_prompt: bool = True,
) -> Reply:
    refusal = Refusal(kind=kind, decision=decision, billed=billed, message=message, blames_prompt=blames_prompt)
    return Reply(status=None, body=b"", seconds=time.monotonic() - started, refusal=refusal)


def _checked(key: str) -> str:
    """The key, which is never shown: not in an error, and not in a log."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            "the API key is empty, or holds a blank, a line break or a character that is not ASCII; set it anew"
        )
    return key


def _never_connected(error: BaseException) -> bool:
    """Whether nothing can have been sent.

    httpx's own classes do not say: the transport maps lost connections to
    ConnectTimeout as well, so the cause is looked at.
    """
    return isinstance(error.__cause__ or error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _reason(error: BaseException) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return first[:200] or type(error).__name__


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(f"the endpoint {url} is no http or https address; check --endpoint-url")
    return parts.hostname or ""


def _is_openrouter(host: str) -> bool:
    return host == "openrouter.ai" or host.endswith(".openrouter.ai")
