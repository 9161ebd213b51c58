"""A headless Chromium over the DevTools protocol: what a page asks for, how it lays itself out, how it looks."""

import asyncio
import base64
import itertools
import json
import shutil
import subprocess
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-port=0",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


needed = pytest.mark.skipif(found() is None, reason="no Chromium is installed here")


class Tab:
    """One open page."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.requests: list[str] = []
        """The address of everything that the page asked for."""
        self.complaints: list[str] = []
        """What the browser had to say: errors, refused loads."""
        self._seen: set[str] = set()

    async def call(self, method: str, **parameters):
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._receive()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    async def _receive(self) -> dict:
        message = json.loads((await asyncio.wait_for(self._socket.receive(), 60)).data)
        self._seen.add(message.get("method", ""))
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message.get("method") == "Log.entryAdded":
            self.complaints.append(message["params"]["entry"]["text"])
        return message

    async def open(self, path: Path, *, width: int, dark: bool = False) -> None:
        """Show a file at a width, as a system in light or dark mode would."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            await self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self._seen.clear()
        await self.call("Page.navigate", url=path.as_uri())
        while "Page.loadEventFired" not in self._seen:
            await self._receive()

    async def run(self, script: str):
        """The value of a JavaScript expression."""
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def picture(self, path: Path) -> None:
        shot = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    async def paper(self, path: Path) -> None:
        sheet = await self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(sheet["data"]))


@asynccontextmanager
async def browser(folder: Path):
    """A browser with one empty tab, and a profile of its own."""
    process = await asyncio.create_subprocess_exec(
        found(),
        *FLAGS,
        f"--user-data-dir={folder}",
        "about:blank",
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        port = await _port(folder)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as reply:
                (tab,) = [t for t in await reply.json() if t["type"] == "page"]
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), 20)


async def _port(folder: Path) -> int:
    for _ in range(300):
        try:
            return int((folder / "DevToolsActivePort").read_text().split()[0])
        except (OSError, IndexError):
            await asyncio.sleep(0.1)
    raise AssertionError("Chromium did not start")
