"""The plots of a report. Each is a pure function from a part of the report to SVG, or None where there is nothing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, timedelta
from decimal import Decimal
from itertools import accumulate
from xml.etree.ElementTree import Element

from eagle3gen.flow.report import svg
from eagle3gen.flow.report import wording as w
from eagle3gen.flow.report.axes import DAY, ticks, time_label, time_ticks
from eagle3gen.flow.report.numbers import HostReport, Part, usd_per_million
from eagle3gen.ledger.reporting_series import BINS
from eagle3gen.records import Queue, Verdict

HEIGHT = 250.0
ROWS_MAX = 24
"""Hosts drawn in one plot, those with the most answers; all are in the table."""
ROW = 34.0
BAR = 12.0
FAR = 4
"""A cap more than so many times above what is spent is named instead of drawn to scale."""
VERDICT_CLASSES = {verdict.value: f"v{n}" for n, verdict in enumerate(Verdict)}

Words = Callable[[float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A finished plot with the words that stand beside it."""

    title: str
    svg: str
    legend: Sequence[tuple[str, str]] = ()
    """The class of a colour, and what it means."""
    note: str = ""


def plots(part: Part, key: str) -> list[list[Plot]]:
    """What this part has to show: over all its hosts, and host by host. `key` must be unique on the page."""
    whole = [
        _spend_tokens(part, f"{key}-tokens"),
        _spend_usd(part, f"{key}-usd"),
        *(_lengths(part, queue, f"{key}-{queue.value}") for queue in Queue),
    ]
    by_host = [_prices(part, f"{key}-price"), _verdicts(part, f"{key}-verdicts"), _latency(part, f"{key}-latency")]
    return [[plot for plot in group if plot is not None] for group in (whole, by_host)]


def _spend_tokens(part: Part, key: str) -> Plot | None:
    sums = list(accumulate(point.tokens for point in part.spend))
    plot = _over_time(part, key, "Completion tokens", ("tokens", w.short), (sums, part.cap.tokens))
    held = part.figures.held_tokens
    note = f"{held:,} more tokens are held; they count against a cap, too." if held else ""
    return plot and replace(plot, note=note)


def _spend_usd(part: Part, key: str) -> Plot | None:
    sums = [_drawn(amount) for amount in accumulate(point.usd for point in part.spend)]
    cap = None if part.cap.usd is None else _drawn(part.cap.usd)
    plot = _over_time(part, key, "Cost", ("USD", w.dollars), (sums, cap))
    unpriced = part.figures.unpriced_attempts
    note = f"{unpriced:,} settled attempts told no cost and are not in it." if unpriced else ""
    return plot and replace(plot, note=note)


def _drawn(amount: Decimal) -> float:
    # A line on a page needs no digit that the tables do not show.
    return float(amount)


def _over_time(
    part: Part, key: str, what: str, unit: tuple[str, Words], amounts: tuple[Sequence[float], float | None]
) -> Plot | None:
    (sums, cap), (name, words) = amounts, unit
    if not sums or not sums[-1]:
        return None
    title = f"{what} over time" if cap is None else f"{what} against the cap"
    near = cap is not None and cap <= sums[-1] * FAR
    levels = ticks(max(sums[-1], cap * 1.03 if cap is not None and near else 0))
    start, end = part.spend[0].at, part.spend[-1].at
    about = f"{words(sums[-1])} {name} from {w.moment(start)} to {w.moment(end)}"
    about += "" if cap is None else f", with a cap of {words(cap)}"
    root = svg.new(key, title, about, HEIGHT)
    y = svg.Axis(name=f"{name}, summed up", ticks=[(v, words(v)) for v in levels], top=levels[-1])
    frame = svg.framed(root, HEIGHT, _time_axis(part), y)
    corners = [(frame.across(p.at.timestamp()), frame.up(v)) for p, v in zip(part.spend, sums, strict=True)]
    floor = frame.up(0)
    _poly(root, "polygon", "area", [(corners[0][0], floor), *corners, (corners[-1][0], floor)])
    _poly(root, "polyline", "line", corners)
    if cap is not None:
        used = w.share(sums[-1], cap)
        level = frame.up(cap) if near else svg.TOP
        svg.add(root, "line", "cap", x1=svg.LEFT, y1=level, x2=svg.WIDTH - svg.RIGHT, y2=level)
        label = f"cap {words(cap)}, {used} spent"
        if near:
            svg.write(root, label, svg.LEFT + 6, level + 14, "mark")
        else:
            svg.write(root, f"{label} ↑", svg.WIDTH - svg.RIGHT, svg.TOP - 7, "mark", "end")
    return Plot(title=title, svg=svg.as_markup(root))


def _time_axis(part: Part) -> svg.Axis:
    start, end = part.spend[0].at.astimezone(UTC), part.spend[-1].at.astimezone(UTC)
    span = max(end - start, timedelta(seconds=1))
    day = "" if span >= DAY else f" {'of' if start.date() == end.date() else 'from'} {start:%Y-%m-%d}"
    return svg.Axis(
        name=f"time{day}, UTC",
        ticks=[(at.timestamp(), time_label(at, span)) for at in time_ticks(start, end)],
        bottom=start.timestamp(),
        top=start.timestamp() + span.total_seconds(),
    )


def _poly(root: Element, tag: str, kind: str, corners: Sequence[tuple[float, float]]) -> None:
    svg.add(root, tag, kind, points=" ".join(f"{svg.number(x)},{svg.number(y)}" for x, y in corners))


def _lengths(part: Part, queue: Queue, key: str) -> Plot | None:
    bars = [bar for bar in part.lengths if bar.queue is queue]
    if not bars:
        return None
    limit, total = bars[0].max_tokens, sum(bar.answers for bar in bars)
    title = f"Answer lengths, {queue.value} queue"
    levels = ticks(max(bar.answers for bar in bars), whole=True)
    root = svg.new(key, title, f"{total:,} answers between 0 and {limit:,} tokens (max_tokens)", HEIGHT)
    width = limit / BINS
    frame = svg.framed(
        root,
        HEIGHT,
        svg.Axis(
            name="completion tokens of an answer",
            ticks=[(v, w.short(v)) for v in ticks(limit) if v <= limit + width],
            top=limit + width,
        ),
        svg.Axis(name="answers", ticks=[(v, w.short(v)) for v in levels], top=levels[-1]),
    )
    for bar in bars:
        left, right = frame.across(bar.bar * width), frame.across((bar.bar + 1) * width)
        top = frame.up(bar.answers)
        shape = svg.add(root, "rect", "bar", x=left + 0.5, y=top, width=right - left - 1, height=frame.up(0) - top)
        above = f"more than {limit:,}" if bar.bar >= BINS else f"{bar.bar * width:,.0f} to {(bar.bar + 1) * width:,.0f}"
        svg.hint(shape, f"{above} tokens: {bar.answers:,} answers")
    at = frame.across(limit)
    svg.add(root, "line", "cap", x1=at, y1=svg.TOP - 6, x2=at, y2=frame.up(0))
    svg.write(root, f"max_tokens {limit:,}", at, svg.TOP - 12, "mark", "end")
    return Plot(title=title, svg=svg.as_markup(root))


def _prices(part: Part, key: str) -> Plot | None:
    hosts = [(h, price) for h in part.hosts if (price := usd_per_million(h.figures)) is not None][:ROWS_MAX]
    if not hosts:
        return None
    title = "Cost per million completion tokens, by host"
    levels = ticks(_drawn(max(price for _, price in hosts)) * 1.1)
    axis = svg.Axis(name="USD per million completion tokens", ticks=[(v, w.dollars(v)) for v in levels], top=levels[-1])
    root, frame = _host_rows(key, title, axis, part, [host for host, _ in hosts])
    for n, (_, amount) in enumerate(hosts):
        end = frame.across(_drawn(amount))
        svg.add(root, "rect", "bar", x=frame.across(0), y=_bar_top(n), width=end - frame.across(0), height=BAR)
        svg.write(root, f"${amount:,.2f}", svg.WIDTH - 2, _bar_top(n) - 5, "value", "end")
    return Plot(title=title, svg=svg.as_markup(root), note=_rest(part))


def _verdicts(part: Part, key: str) -> Plot | None:
    hosts = _answering(part)
    if not hosts:
        return None
    title = "Verdicts, by host"
    axis = svg.Axis(name="share of the host's answers", ticks=[(v, f"{v:.0f}%") for v in range(0, 101, 25)], top=100)
    root, frame = _host_rows(key, title, axis, part, hosts)
    for n, host in enumerate(hosts):
        start, answers = 0.0, host.figures.answers
        for verdict, number in host.verdicts.items():
            part_of = 100 * number / answers
            left, right = frame.across(start), frame.across(start + part_of)
            kind = f"piece {VERDICT_CLASSES[verdict]}"
            shape = svg.add(root, "rect", kind, x=left, y=_bar_top(n), width=right - left, height=BAR)
            svg.hint(shape, f"{verdict}: {number:,} of {answers:,}, {w.share(number, answers)}")
            start += part_of
        svg.write(root, f"{answers:,} answers", svg.WIDTH - 2, _bar_top(n) - 5, "value", "end")
    legend = [(VERDICT_CLASSES[verdict], verdict) for verdict in part.verdicts]
    return Plot(title=title, svg=svg.as_markup(root), legend=legend, note=_rest(part))


def _latency(part: Part, key: str) -> Plot | None:
    hosts = [h for h in _answering(part) if h.figures.latency_p95 is not None]
    if not hosts:
        return None
    title = "Latency, by host"
    levels = ticks(max(h.figures.latency_p95 or 0.0 for h in hosts) * 1.05)
    axis = svg.Axis(name="seconds from hold to settlement", ticks=[(v, f"{v:,.10g}") for v in levels], top=levels[-1])
    root, frame = _host_rows(key, title, axis, part, hosts)
    for n, host in enumerate(hosts):
        p50, p95 = host.figures.latency_p50 or 0.0, host.figures.latency_p95 or 0.0
        middle, left, right = _bar_top(n) + BAR / 2, frame.across(p50), frame.across(p95)
        svg.add(root, "line", "span", x1=left, y1=middle, x2=right, y2=middle)
        svg.add(root, "circle", "half", cx=left, cy=middle, r=5)
        svg.add(root, "line", "end", x1=right, y1=middle - 6, x2=right, y2=middle + 6)
        svg.write(root, f"{w.seconds(p50)} – {w.seconds(p95)} s", svg.WIDTH - 2, _bar_top(n) - 5, "value", "end")
    legend = [("half", "half of the answers were faster (p50)"), ("end", "95% were faster (p95)")]
    return Plot(title=title, svg=svg.as_markup(root), legend=legend, note=_rest(part))


def _answering(part: Part) -> list[HostReport]:
    return [host for host in part.hosts if host.figures.answers][:ROWS_MAX]


def _host_rows(
    key: str, title: str, axis: svg.Axis, part: Part, hosts: Sequence[HostReport]
) -> tuple[Element, svg.Frame]:
    """A plot with one row per host, its name above its bar."""
    height = ROW * len(hosts) + 10 + svg.BOTTOM
    names = [w.label(host, part.hosts) for host in hosts]
    root = svg.new(key, title, f"{len(hosts)} hosts: {', '.join(names)}", height)
    frame = svg.rows(root, height, axis)
    for n, name in enumerate(names):
        element = svg.write(root, svg.shortened(name, svg.WIDTH - 110), 2, _bar_top(n) - 5, "row")
        svg.hint(element, name)
    return root, frame


def _bar_top(n: int) -> float:
    return n * ROW + 20


def _rest(part: Part) -> str:
    more = sum(1 for host in part.hosts if host.figures.answers) - ROWS_MAX
    return f"The {ROWS_MAX} hosts with the most answers; {more} more are in the table." if more > 0 else ""
