"""The live view of a run: bars on a terminal, a plain line every few seconds elsewhere. All on stderr."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from eagle3gen.cli import rendering

if TYPE_CHECKING:
    from eagle3gen.ledger.reading import DatasetTotals
    from eagle3gen.local.run import Phase

LINE_SECONDS = 5.0
RATE_SECONDS = 20.0
"""Window over which the rate is measured."""


class Rate:
    """Answers per second over the last seconds."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, now: float, count: int) -> float:
        self._points.append((now, count))
        while len(self._points) > 2 and now - self._points[0][0] > RATE_SECONDS:
            self._points.popleft()
        (then, before), seconds = self._points[0], now - self._points[0][0]
        return (count - before) / seconds if seconds > 0 and then < now else 0.0


class Progress:
    """Shows the datasets of a run while it goes on."""

    def __init__(self) -> None:
        self._rates: dict[str, Rate] = {}
        self._next_line = 0.0
        self._live: Any = None
        self._phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, phase: "Phase", datasets: Sequence["DatasetTotals"]) -> None:
        now = time.monotonic()
        if phase.value != self._phase:
            self._announce(phase, datasets)
        lines = [self._line(d, now) for d in datasets]
        if sys.stderr.isatty():
            self._draw(lines)
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            for line in lines:
                rendering.say(f"{rendering.clock()}  {line}")

    def _announce(self, phase: "Phase", datasets: Sequence["DatasetTotals"]) -> None:
        self._phase = phase.value
        in_flight = sum(d.in_flight for d in datasets)
        if phase.value == "draining":
            rendering.say(f"Finishing {in_flight:,} open calls, starting none; Ctrl-C again cuts them.")
        elif phase.value == "aborting":
            rendering.say(f"Cutting {in_flight:,} open calls; what they may still cost stays on the books as held.")

    def _line(self, d: "DatasetTotals", now: float) -> str:

        ended = d.done + d.rejected + d.failed
        rate = self._rates.setdefault(d.name, Rate()).add(now, ended)
        tokens = (
            f"{d.spent_tokens:,} tokens" if d.cap_tokens is None else f"{d.spent_tokens:,} of {d.cap_tokens:,} tokens"
        )
        left = d.left + d.in_flight
        eta = f"ETA {rendering.duration(left / rate)}" if rate > 0 and left else "ETA -" if left else "complete"
        parts = [
            f"{d.name}: {ended:,}/{d.prompts:,} answered",
            f"{d.in_flight:,} in flight",
            tokens,
            rendering.money(d),
            f"{rate:.1f}/s",
            eta,
            rendering.verdict_mix(d.verdicts),
        ]
        if d.failed:
            parts.insert(1, f"{d.failed:,} failed")
        return "  ".join(part for part in parts if part)

    def _draw(self, lines: list[str]) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if self._live is None:
            self._live = Live(console=Console(stderr=True), auto_refresh=False)
            self._live.start()
        self._live.update(Text("\n".join(lines)), refresh=True)
