"""A simulator in the test's own process, and a client of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from eagle3gen.simulator.options import Options
from eagle3gen.simulator.server import serve
from eagle3gen.simulator.tokenizer import Vocabulary
from eagle3gen.simulator.voice import Voice
from eagle3gen.tokens.loading import folder_of

QUICK = Options(tokenizer=folder_of("builtin:kimi-mini"), latency_seconds=0.02, seed=3, generation_delay_seconds=0.3)


@dataclass
class Running:
    http: httpx.AsyncClient
    url: str
    truth: Path

    async def ask(self, content: str = "Hi", **fields) -> httpx.Response:
        body = {"model": "moonshotai/kimi-k2.5", "messages": [{"role": "user", "content": content}], **fields}
        return await self.http.post(f"{self.url}/chat/completions", json=body)

    async def own(self, name: str, told: object) -> httpx.Response:
        """Post to one of the simulator's own addresses."""
        return await self.http.post(self.url.replace("/api/v1", f"/simulator/{name}"), json=told)

    async def bill(self) -> dict:
        return (await self.http.get(self.url.replace("/api/v1", "/_sim/bill"))).json()

    async def emitted(self, count: int) -> list[dict]:
        for _ in range(100):
            lines = self.truth.read_text("utf-8").splitlines() if self.truth.exists() else []
            if len(lines) >= count:
                break
            await asyncio.sleep(0.05)
        return [json.loads(line) for line in lines]


@contextlib.asynccontextmanager
async def simulator_at(folder: Path, options: Options) -> AsyncIterator[Running]:
    ended, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    truth = folder / "truth.jsonl"
    task = asyncio.create_task(serve(replace(options, truth=truth), ready.set_result, ended))
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
    async with httpx.AsyncClient(timeout=20) as http:
        yield Running(http, ready.result()["url"], truth)
    ended.set()
    await task


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    """Made once for all tests, as the voice is: they have no state, and take a moment."""
    return Vocabulary(QUICK.tokenizer)


@pytest.fixture(scope="session")
def voice(vocabulary) -> Voice:
    return Voice(vocabulary)


@pytest.fixture
def running(tmp_path, monkeypatch, vocabulary, voice):
    """Start a simulator with some options changed: `async with running(seed=1) as simulator`."""
    monkeypatch.setattr("eagle3gen.simulator.server.Vocabulary", lambda folder: vocabulary)
    monkeypatch.setattr("eagle3gen.simulator.server.Voice", lambda vocabulary: voice)
    return lambda **changes: simulator_at(tmp_path, replace(QUICK, **changes))
