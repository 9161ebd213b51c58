"""A report as tables that fit 80 columns, on stdout."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from eagle3gen.flow.report import wording as w
from eagle3gen.flow.report.numbers import HostReport, Part, Report
from eagle3gen.ledger.money import Cap
from eagle3gen.ledger.reporting import Figures

NAME_MAX = 32
HOSTS_MAX = 12
"""Hosts shown per dataset, those with the most answers."""
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
        _host_rows(table, [host for host in part.hosts if _worth_a_row(host)], cells)
    return table


def _host_rows(table: Table, hosts: Sequence[HostReport], cells: Cells) -> None:
    several = not w.one_model(hosts)
    model = None
    for host in sorted(hosts[:HOSTS_MAX], key=w.model_name) if several else hosts[:HOSTS_MAX]:
        if several and model != w.model_name(host):
            model = w.model_name(host)
            table.add_row(_plain(f"  {model}", ""), style="dim")
        table.add_row(_plain(f"{'    ' if several else '  '}{w.host_name(host)}", ""), *cells(host), style="dim")
    if len(hosts) > HOSTS_MAX:
        table.add_row(f"  {len(hosts) - HOSTS_MAX} more: --csv", style="dim")


def _worth_a_row(host: HostReport) -> bool:
    # What failed before any host was named, and cost nothing, is told under the failures.
    f = host.figures
    return f.answers > 0 or f.held_attempts > 0 or f.open_attempts > 0 or f.completion_tokens != 0 or f.cost_usd != 0


def _caps(parts: Sequence[Part]) -> Table:
    table = _table("", "cap", "spent", "held", "open", "left")
    for part in parts:
        f, style = part.figures, "" if part.dataset else "bold"
        name = _plain(part.name, "bold")
        if part.tokens_left is not None:
            cells = (part.cap.tokens, f.completion_tokens, f.held_tokens, f.open_tokens, part.tokens_left)
            table.add_row(name, *map(w.count, cells), style=style)
            name = Text()
        if part.usd_left is not None:
            cap, usd_left = w.money(part.cap.usd), w.money(part.usd_left)
            table.add_row(name, cap, w.cost(f), w.money(f.held_usd), w.money(f.open_usd), usd_left, style=style)
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
        named = title != "" and len(parts) > 1 and lines
        if named:
            console.print(_plain(part.name, "bold"))
        for line in lines:
            console.print(Padding(_plain(line, ""), (0, 0, 0, 2 if named else 0)))


def _plain(text: str, style: str) -> Text:
    """Text as it is: no markup of ours, and nothing that steers a terminal."""
    return Text("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text), style)
