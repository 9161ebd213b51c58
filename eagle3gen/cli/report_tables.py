"""A report as tables that fit 80 columns, on stdout."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from rich.console import Console
from rich.table import Table
from rich.text import Text

from eagle3gen.flow.report import wording as w
from eagle3gen.flow.report.numbers import HostReport, Part, Report
from eagle3gen.flow.report.projection import Cap
from eagle3gen.ledger.reporting import Figures

NAME_MAX = 32
Cells = Callable[[Part | HostReport], Sequence[str]]


def print_report(report: Report) -> None:
    """Cost, answers, failures and what is to come; a last row for all datasets where there are several."""
    console = Console(highlight=False)
    if not report.datasets:
        console.print("The ledger holds no dataset yet.")
        return
    console.print(f"Report of {w.moment(report.at)}")
    parts = report.datasets if len(report.datasets) == 1 else [*report.datasets, report.plan]
    _print(console, "Cost", _by_host(COST_COLUMNS, parts, _cost_cells))
    if any(part.cap != Cap() for part in parts):
        _print(console, "Caps", _caps(parts))
    _print(console, "Answers", _by_host(ANSWER_COLUMNS, parts, _answer_cells))
    _print_lines(console, "Verdicts", parts, _mix)
    _print_lines(console, "Beside the answers", parts, w.notes)
    if any(part.failed_attempts for part in parts):
        _print(console, "Attempts without an answer", _failures(report.datasets))
    if report.plan.projection.prompts:
        _print(console, "Still to come (expected to pessimistic)", _projections(parts))
        _print_lines(console, "", parts[-1:], w.projection_notes)


COST_COLUMNS = ("answers", "prompt tok.", "completion tok.", "cost", "$/M compl.")
ANSWER_COLUMNS = ("usable", "cut", "mean", "p95 tok.", "p50", "p95 s", "retries")


def _cost_cells(row: Part | HostReport) -> Sequence[str]:
    f = row.figures
    return w.count(f.answers), w.count(f.prompt_tokens), w.tokens(f), w.cost(f), w.price(f)


def _answer_cells(row: Part | HostReport) -> Sequence[str]:
    f: Figures = row.figures
    return (
        w.share(w.usable(row.verdicts), f.answers),
        w.share(f.truncated, f.answers),
        w.length(f.length_mean),
        w.length(f.length_p95),
        w.seconds(f.latency_p50),
        w.seconds(f.latency_p95),
        w.count(f.retries),
    )


def _by_host(columns: Sequence[str], parts: Sequence[Part], cells: Cells) -> Table:
    table = _table("", *columns)
    for part in parts:
        table.add_row(_plain(part.name, "bold"), *cells(part), style="" if part.dataset else "bold")
        for host in filter(_worth_a_row, part.hosts):
            table.add_row(_plain("  " + w.label(host, part.hosts), ""), *cells(host), style="dim")
    return table


def _worth_a_row(host: HostReport) -> bool:
    # What failed before any host was named, and cost nothing, is told under the failures.
    f = host.figures
    return f.answers > 0 or f.held_attempts > 0 or f.open_attempts > 0 or f.completion_tokens != 0 or f.cost_usd != 0


def _caps(parts: Sequence[Part]) -> Table:
    table = _table("", "cap", "spent", "held", "open", "left")
    for part in parts:
        f, style = part.figures, "" if part.dataset else "bold"
        name = _plain(part.name, "bold")
        if part.cap.tokens is not None:
            spent = f.completion_tokens or 0
            left = part.cap.tokens - spent - f.held_tokens - f.open_tokens
            cells = map(w.count, (part.cap.tokens, spent, f.held_tokens, f.open_tokens, left))
            table.add_row(name, *cells, style=style)
            name = Text()
        if part.cap.usd is not None:
            left_usd = part.cap.usd - (f.cost_usd or 0)
            table.add_row(name, w.money(part.cap.usd), w.cost(f), w.NONE, w.NONE, w.money(left_usd), style=style)
        elif part.cap.tokens is None:
            table.add_row(name, "none", w.tokens(f), w.count(f.held_tokens), w.count(f.open_tokens), w.NONE)
    return table


def _failures(parts: Sequence[Part]) -> Table:
    table = _table("", "attempts", "billed", "HTTP")
    table.add_column("what was said", overflow="fold")
    for part in parts:
        name = part.name
        for failure in part.failures:
            words = _plain(failure.error or "nothing", "")
            cells = w.count(failure.attempts), w.billed(failure), w.status(failure)
            table.add_row(_plain(name, "bold"), *cells, words)
            name = ""
        if rest := part.failed_attempts - sum(f.attempts for f in part.failures):
            table.add_row("", w.count(rest), "", "", "of other kinds")
    return table


def _projections(parts: Sequence[Part]) -> Table:
    table = _table("", "prompts", "tokens", "USD", "time", "cap")
    for part in parts:
        p = part.projection
        if p.prompts:
            fits = w.NONE if p.fits_cap is None else w.FITS[p.fits_cap]
            style = "" if part.dataset else "bold"
            cells = (w.count(p.prompts), w.tokens_to_go(p), w.usd_to_go(p), w.time_to_go(p), fits)
            table.add_row(_plain(part.name, "bold"), *cells, style=style)
    return table


def _mix(part: Part) -> list[str]:
    return [f"{w.mix(part.verdicts)}; ended by: {w.endings(part.finish_reasons)}"] if part.verdicts else []


def _table(first: str, *columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, overflow="fold", max_width=NAME_MAX)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _print(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, "bold underline"))
    console.print(table)


def _print_lines(
    console: Console, title: str, parts: Sequence[Part], sentences: Callable[[Part], Iterable[str]]
) -> None:
    found = [(part, list(sentences(part))) for part in parts]
    if not any(chain.from_iterable(lines for _, lines in found)):
        return
    if title:
        console.print()
        console.print(Text(title, "bold underline"))
    for part, lines in found:
        for line in lines:
            prefix = f"{part.name}: " if title and len(parts) > 1 else ""
            console.print(_plain(prefix + line, ""))


def _plain(text: str, style: str) -> Text:
    """Text as it is: no markup of ours, and nothing that steers a terminal."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text), style)
