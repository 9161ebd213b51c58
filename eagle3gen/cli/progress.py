"""The live view of a run: bars on a terminal, a plain line every few seconds elsewhere. All on stderr."""

import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from eagle3gen.cli import rendering

if TYPE_CHECKING:
    from rich.table import Table

    from eagle3gen.ledger.reading import DatasetTotals
    from eagle3gen.local.run import Phase

LINE_SECONDS = 5.0
BAR_WIDTH = 24
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
        rates = [self._rates.setdefault(d.name, Rate()).add(now, ended(d)) for d in datasets]
        if sys.stderr.isatty():
            self._draw(datasets, rates)
        elif now >= self._next_line:
            self._next_line = now + LINE_SECONDS
            for d, rate in zip(datasets, rates, strict=True):
                rendering.say(f"{rendering.clock()}  {d.name}: {'  '.join(words(d, rate))}")

    def _announce(self, phase: "Phase", datasets: Sequence["DatasetTotals"]) -> None:
        self._phase = phase.value
        in_flight = sum(d.in_flight for d in datasets)
        if phase.value == "draining":
            rendering.say(f"Finishing {in_flight:,} open calls, starting none; Ctrl-C again cuts them.")
        elif phase.value == "aborting":
            rendering.say(f"Cutting {in_flight:,} open calls; what they may still cost stays on the books as held.")

    def _draw(self, datasets: Sequence["DatasetTotals"], rates: Sequence[float]) -> None:
        from rich.console import Console
        from rich.live import Live

        if self._live is None:
            # Whatever else is said to stderr goes above the bars instead of through them.
            self._live = Live(console=Console(stderr=True), auto_refresh=False, redirect_stdout=False)
            self._live.start()
        self._live.update(_bars(datasets, rates), refresh=True)


def _bars(datasets: Sequence["DatasetTotals"], rates: Sequence[float]) -> "Table":
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(width=BAR_WIDTH)
    table.add_column()
    for d, rate in zip(datasets, rates, strict=True):
        table.add_row(d.name, ProgressBar(total=max(1, d.prompts), completed=ended(d)), "  ".join(words(d, rate)))
    return table


def ended(d: "DatasetTotals") -> int:
    """Prompts that need nothing more."""
    return d.done + d.rejected + d.failed


def words(d: "DatasetTotals", rate: float) -> list[str]:
    """How far a dataset is, in the order in which people ask."""
    left = d.waiting + d.in_flight
    cap = "" if d.cap_tokens is None else f" of {d.cap_tokens:,}"
    eta = f"ETA {rendering.duration(left / rate)}" if rate > 0 else "ETA -"
    parts = [
        f"{ended(d):,}/{d.prompts:,} answered",
        f"{d.in_flight:,} in flight",
        f"{d.failed:,} failed" if d.failed else "",
        f"{d.spent_tokens:,}{cap} tokens",
        rendering.money(d),
        f"{rate:.1f}/s",
        eta if left else "complete",
        rendering.verdict_mix(d.verdicts),
    ]
    return [part for part in parts if part]
