"""The demo: the main job against a simulator that knows the true ids, and a comparison at the end."""

import asyncio
import contextlib
import json
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from eagle3gen.errors import ServiceUnreachable
from eagle3gen.ledger.reading import DatasetTotals

READY_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The exported rows and the ledger beside the simulator's own record."""

    rows: int
    identical: int
    """Rows whose trained tokens are exactly the ids that the simulator emitted."""
    ledger_tokens: int
    billed_tokens: int
    ledger_cost_usd: Decimal
    billed_cost_usd: Decimal

    @property
    def agrees(self) -> bool:
        return (
            self.rows == self.identical
            and self.ledger_tokens == self.billed_tokens
            and self.ledger_cost_usd == self.billed_cost_usd
        )


@contextlib.asynccontextmanager
async def simulator(truth: Path, *, seed: int, latency_seconds: float, mean_tokens: int) -> AsyncIterator[str]:
    """A simulator as a child process; yields its base URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "eagle3gen", "simulate", "--truth", str(truth), "--seed", str(seed),
        "--latency", str(latency_seconds), "--mean-tokens", str(mean_tokens), "--until-stdin-closes",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    if process.stdout is None:
        raise AssertionError("stdout was asked for")
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        if not line:
            raise ServiceUnreachable("the simulator did not start; its message is above")
        yield json.loads(line)["url"]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def bill(url: str) -> Mapping[str, Any]:
    """The simulator's own bill."""
    root = url.split("/api/", maxsplit=1)[0]
    # A proxy of the environment leads away from this machine.
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(f"{root}/simulator/bill", timeout=10) as reply:
        answer: Mapping[str, Any] = json.loads(reply.read())
        return answer


def compare(tokens: Path, truth: Path, charged: Mapping[str, Any], datasets: Sequence[DatasetTotals]) -> Comparison:
    """Hold every exported row against the ids that were really emitted."""
    emitted = {row["generation_id"]: row["completion_ids"] for row in _rows(truth)}
    rows = identical = 0
    for row in _rows(tokens):
        rows += 1
        trained = [i for i, mask in zip(row["input_ids"], row["loss_mask"], strict=True) if mask]
        identical += trained == emitted.get(row["metadata"]["generation_id"])
    return Comparison(
        rows=rows,
        identical=identical,
        ledger_tokens=sum(d.spent_tokens for d in datasets),
        billed_tokens=int(charged["completion_tokens"]),
        ledger_cost_usd=sum((d.cost_usd for d in datasets), Decimal(0)),
        billed_cost_usd=Decimal(charged["cost_usd"]),
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            yield json.loads(line)
