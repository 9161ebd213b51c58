"""Reading one response under its deadlines: a plain body whole, a stream at a slow pace and without parsing it."""

import asyncio
import math
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Self

import httpx

from eagle3gen.endpoint.assembly import Assembly
from eagle3gen.endpoint.deadlines import Deadlines

BODY_BYTES_MAX = 32 * 2**20
STREAM_BYTES_MAX = 8 * BODY_BYTES_MAX
"""An event of one token is many times as large as its token."""
PACE_SECONDS = 0.2
"""How often a stream is looked at, about. What has arrived meanwhile is taken at once: waking up is what costs."""

LAST_SECONDS = 1.0
"""How long the end of a response is awaited after the last event: with it, the connection can be used again."""
LAST = (b"\ndata: [DONE]", b"\ndata:[DONE]")
"""No text of a model looks like this: inside JSON, line ends are escaped."""


class TooLarge(Exception):
    """The body is larger than any answer."""


class FirstByteLate(Exception):
    """No headers within their deadline."""


class Stalled(Exception):
    """A stream was silent for too long."""


@dataclass(slots=True)
class Clock:
    """The deadline that is next. Entered around a whole call; raises TimeoutError, FirstByteLate or Stalled."""

    deadlines: Deadlines
    started: float = 0.0
    _timeout: asyncio.Timeout = field(default_factory=lambda: asyncio.timeout(None))
    _armed: float = -math.inf
    """When the limit of silence was last moved."""
    _late: Exception | None = None

    async def __aenter__(self) -> Self:
        self.started = asyncio.get_running_loop().time()
        await self._timeout.__aenter__()
        self._arm(self.deadlines.first_byte, FirstByteLate())
        return self

    async def __aexit__(self, *raised: object) -> None:
        try:
            await self._timeout.__aexit__(*raised)  # type: ignore[arg-type]
        except TimeoutError:
            if self._late is not None:
                raise self._late from None
            raise

    def headers_came(self) -> None:
        """From now on only the total counts."""
        self._arm(None, None)

    def progress(self) -> None:
        """A stream has said something."""
        limit, now = self.deadlines.no_progress, asyncio.get_running_loop().time()
        # Moving the timer costs more than most chunks do.
        if limit is not None and now - self._armed >= limit / 8:
            self._arm(limit, Stalled())

    def last_event_came(self) -> None:
        """Nothing more is awaited but the end."""
        self._arm(LAST_SECONDS, Stalled())

    def _arm(self, seconds: float | None, late: Exception | None) -> None:
        now, end = asyncio.get_running_loop().time(), self.started + self.deadlines.total
        sooner = seconds is not None and now + seconds < end
        self._armed, self._late = now if sooner else -math.inf, late if sooner else None
        self._timeout.reschedule(now + seconds if sooner and seconds is not None else end)


async def read_plain(response: httpx.Response) -> bytes:
    """The whole body. Raises TooLarge."""
    chunks, size = [], 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise TooLarge
    return b"".join(chunks)


async def read_stream(response: httpx.Response, assembly: Assembly, clock: Clock) -> None:
    """Feed the assembly until the stream ends. Raises TooLarge."""
    clock.progress()
    chunks: AsyncIterator[bytes] = response.aiter_bytes()
    async for chunk in chunks:
        if assembly.feed(chunk):
            clock.progress()
        if assembly.raw_bytes > STREAM_BYTES_MAX:
            raise TooLarge
        if any(last in b"\n" + chunk for last in LAST):
            clock.last_event_came()
        else:
            # Spread, or streams that were held up together would be read together from then on.
            await asyncio.sleep(PACE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311  no secret


def is_stream(response: httpx.Response) -> bool:
    return "event-stream" in str(response.headers.get("content-type", "")).lower()
