"""The simulator's own books: what it charged, and the file of true ids."""

import asyncio
import contextlib
from array import array
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import orjson

FLUSH_SECONDS = 0.1
RECORDS_KEPT = 200_000


@dataclass(slots=True)
class Bill:
    """Everything that was answered, whether or not somebody was still listening."""

    truth: Path | None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: Decimal = Decimal(0)
    open: int = 0
    open_max: int = 0
    disconnected: int = 0
    """Calls whose client had gone when the answer was ready."""
    errors: int = 0
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _order: deque[str] = field(default_factory=deque)
    _lines: list[dict[str, Any]] = field(default_factory=list)
    _file: IO[bytes] | None = None

    def begin(self) -> None:
        self.open += 1
        self.open_max = max(self.open_max, self.open)

    def charge(self, line: dict[str, Any], cost: Decimal, record: Mapping[str, Any]) -> None:
        """One answered call."""
        self.open -= 1
        self.calls += 1
        self.prompt_tokens += line["prompt_tokens"]
        self.completion_tokens += line["completion_tokens"]
        self.cost_usd += cost
        if self.truth is not None:
            self._lines.append(line)
        self.records[line["generation_id"]] = record
        self._order.append(line["generation_id"])
        if len(self._order) > RECORDS_KEPT:
            self.records.pop(self._order.popleft(), None)

    def fail(self) -> None:
        """One call that ended in an unbilled error."""
        self.open -= 1
        self.errors += 1

    def as_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": format(self.cost_usd, "f"),
            "open": self.open,
            "open_max": self.open_max,
            "disconnected": self.disconnected,
            "errors": self.errors,
        }

    def open_truth(self) -> None:
        """Begin the truth file anew. Raises OSError when it cannot be written."""
        if self.truth is not None:
            self._file = self.truth.open("wb")

    async def keep_truth(self, ended: asyncio.Event) -> None:
        """Write the truth file in the background until told that all has ended.

        Raises OSError when it cannot be written any more: a simulator without its truth is none.
        """
        if self._file is None:
            await ended.wait()
            return
        with self._file as file:
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), FLUSH_SECONDS)
                await asyncio.to_thread(_write, file, self._taken())
            _write(file, self._taken())

    def _taken(self) -> list[dict[str, Any]]:
        """The lines that wait to be written; taken on the loop, where they are added."""
        lines, self._lines = self._lines, []
        return lines


def _write(file: IO[bytes], lines: list[dict[str, Any]]) -> None:
    for line in lines:
        file.write(orjson.dumps(line, default=array.tolist, option=orjson.OPT_APPEND_NEWLINE))
    file.flush()
