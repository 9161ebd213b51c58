"""The client: one call under one deadline, and whatever happens becomes a `Reply`."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport
from pydantic import SecretStr

from eagle3gen import __version__
from eagle3gen.endpoint.refusal import Billed, Decision, Refusal
from eagle3gen.endpoint.reply import Reply, read_reply
from eagle3gen.endpoint.request import CompletionRequest
from eagle3gen.errors import ServiceUnreachable

BODY_BYTES_MAX = 32 * 2**20
CONNECT_SECONDS = 10.0
PING_SECONDS = 10.0
KEEPALIVE_SECONDS = 60.0
OPENROUTER_EXTRAS: Mapping[str, Any] = {
    # Prompts are never to be altered on their way, and hidden reasoning could not be rebuilt.
    "plugins": [{"id": "context-compression", "enabled": False}],
    "reasoning": {"exclude": False},
}


class TooLarge(Exception):
    """The body is larger than any answer."""


class Endpoint:
    """An OpenAI-compatible endpoint, with a connection for every open call.

    httpx over aiohttp's transport: httpx's own pool is quadratic in the number of connections (encode/httpx 3215).
    """

    def __init__(self, base_url: str, api_key: SecretStr | None, *, connections: int) -> None:
        self.base_url = base_url.rstrip("/")
        self._extras = OPENROUTER_EXTRAS if _is_openrouter(base_url) else {}
        headers = {"Content-Type": "application/json", "User-Agent": f"eagle3gen/{__version__}"}
        if api_key is not None:
            headers["Authorization"] = f"Bearer {api_key.get_secret_value()}"
        # The total deadline is the caller's; only connecting has one of its own.
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(
            transport=AiohttpTransport(client=_session(connections)), headers=headers, timeout=timeout
        )

    async def complete(self, request: CompletionRequest, *, deadline_seconds: float) -> Reply:
        """One answer, or why there is none. Raises nothing but CancelledError, which closes the connection."""
        started = time.monotonic()
        headers: Mapping[str, str] = {}
        try:
            async with asyncio.timeout(deadline_seconds):
                body = request.body(self._extras)
                url = f"{self.base_url}/chat/completions"
                async with self._http.stream("POST", url, content=body) as response:
                    headers = response.headers
                    received = await _read(response)
        except TimeoutError:
            message = f"no answer within {deadline_seconds:g} s"
            return _failed("deadline", Billed.MAYBE, message, started, headers)
        except TooLarge:
            return _failed("too_large", Billed.MAYBE, "the reply is larger than any answer", started, headers)
        except (httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError) as error:
            if _never_connected(error):
                return _failed("unreachable", Billed.NO, f"cannot connect: {_reason(error)}", started, headers)
            return _failed(
                "connection_lost", Billed.MAYBE, f"the connection was lost: {_reason(error)}", started, headers
            )
        return read_reply(response.status_code, headers, received, time.monotonic() - started)

    async def ping(self) -> None:
        """Raises ServiceUnreachable when nothing answers at the base URL."""
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._http.get(f"{self.base_url}/models")
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, aiohttp.ClientError, OSError) as error:
            raise ServiceUnreachable(
                f"the endpoint {self.base_url} does not answer ({_reason(error)}); check --endpoint-url"
            ) from error

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


def _failed(kind: str, billed: Billed, message: str, started: float, headers: Mapping[str, str]) -> Reply:
    return Reply(
        status=None,
        body=b"",
        seconds=time.monotonic() - started,
        refusal=Refusal(
            kind=kind,
            decision=Decision.RETRY,
            billed=billed,
            message=message,
            generation_id=headers.get("x-generation-id"),
        ),
    )


def _never_connected(error: BaseException) -> bool:
    """Whether nothing can have been sent.

    httpx's own classes do not say: the transport maps lost connections to
    ConnectTimeout as well, so the cause is looked at.
    """
    return isinstance(error.__cause__ or error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _reason(error: BaseException) -> str:
    first = str(error).splitlines()[0] if str(error) else ""
    return first[:200] or type(error).__name__


def _is_openrouter(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openrouter.ai" or host.endswith(".openrouter.ai")
