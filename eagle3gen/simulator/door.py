"""Where connections come in. It can be shut for a while, and then they are refused."""

import asyncio
from collections.abc import Callable

from eagle3gen.simulator.http import Connection, Request

BACKLOG = 8192
AGAIN_SECONDS = 0.1


class Door:
    """One port on loopback."""

    def __init__(self, handle: Callable[[Request], None]) -> None:
        self._handle = handle
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self.port = 0

    async def open(self, port: int) -> None:
        """Listen. Raises OSError for a port that is taken."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self._handle), "127.0.0.1", port, backlog=BACKLOG)
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self, seconds: float) -> None:
        """Refuse connections for so long; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._opening = asyncio.get_running_loop().create_task(self._open_again(seconds))

    async def _open_again(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        while self._server is None:
            try:
                await self.open(self.port)
            except OSError:
                # Somebody took the port meanwhile, and will hopefully let it go.
                await asyncio.sleep(AGAIN_SECONDS)

    def close(self) -> None:
        """Refuse connections from now on."""
        if self._opening is not None:
            self._opening.cancel()
        if self._server is not None:
            self._server.close()
