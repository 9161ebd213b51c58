"""The file of true ids: one JSON line per answered call."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from eagle3gen.simulator.numbers import dumps

FLUSH_SECONDS = 0.1


@dataclass(slots=True)
class Truth:
    """What was really emitted, whatever the client was shown."""

    path: Path | None
    _lines: list[dict[str, Any]] = field(default_factory=list)
    _file: IO[bytes] | None = None

    def add(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            self._lines.append(line)

    def open(self) -> None:
        """Begin the file anew. Raises OSError when it cannot be written."""
        if self.path is not None:
            self._file = self.path.open("wb")

    async def keep(self, ended: asyncio.Event) -> None:
        """Write in the background until told that all has ended.

        Raises OSError when the file cannot be written any more: a simulator without its truth is none.
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
        file.write(dumps(line) + b"\n")
    file.flush()
