"""Where the ticks of an axis go. Pure arithmetic."""

import math
from datetime import UTC, datetime, timedelta

STEPS = (1, 2, 2.5, 5, 10)
TIME_STEPS = tuple(
    timedelta(seconds=s)
    for s in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
)
DAY = timedelta(days=1)


def nice_step(top: float, most: int) -> float:
    """The smallest round step with which at most `most` steps reach `top`."""
    raw = top / most
    scale = 10.0 ** math.floor(math.log10(raw))
    return next(step * scale for step in STEPS if step * scale >= raw * (1 - 1e-9))


def ticks(top: float, most: int = 5, *, whole: bool = False) -> list[float]:
    """Round numbers from 0 until one is not below `top`; `whole` for things that come in pieces."""
    if top <= 0:
        return [0.0, 1.0]
    step = nice_step(top, most)
    if whole:
        step = max(1.0, math.ceil(step))
    return [n * step for n in range(max(1, math.ceil(top / step - 1e-9)) + 1)]


def time_ticks(start: datetime, end: datetime) -> list[datetime]:
    """Round moments in UTC between `start` and `end`, as many as their labels leave room for."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    span = end - start
    most = 5 if len(time_label(start, span)) < 9 else 3
    step = next((s for s in TIME_STEPS if span / s <= most), None)
    if step is None:
        step = DAY * max(1, math.ceil(span / DAY / most))
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight + step * math.ceil((start - midnight) / step)
    return [first + step * n for n in range(max(0, math.floor((end - first) / step) + 1))]


def time_label(at: datetime, span: timedelta) -> str:
    """As much of a moment as tells it apart from the others of a span."""
    at = at.astimezone(UTC)
    if span < timedelta(minutes=4):
        return f"{at:%H:%M:%S}"
    if span < timedelta(hours=20):
        return f"{at:%H:%M}"
    return f"{at:%d %b}" if span > 4 * DAY else f"{at:%d %b %H:%M}"
