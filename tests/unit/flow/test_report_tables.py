"""The report in a terminal: 80 columns, plain text, nothing that steers the terminal."""

import pytest
from rich.cells import cell_len

from eagle3gen.cli.report_tables import HOSTS_MAX, print_report
from eagle3gen.flow.report.projection import Cap, Projection

from .report_values import failure, figures, host, part, report, untouched

LONG = "a_very_long_name_without_any_place_to_break_" * 3


def printed(capsys, *parts) -> str:
    print_report(report(*parts))
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["set", LONG, "很长的名字" * 12, "[bold]x[/bold]"])
def test_every_line_fits_80_columns(capsys, monkeypatch, name) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    todo = Projection(prompts=3, tokens=None, usd=None, hours=None, unknown=("Because",))
    big = figures(completion_tokens=1_234_567_890, prompt_tokens=987_654_321, held_attempts=7, held_tokens=10**9)
    one = part(name, figures=big, cap=Cap(tokens=2 * 10**9), hosts=[host(name, name), host("b", "m")], projection=todo)
    text = printed(capsys, part("a", hosts=one.hosts, failures=[failure(error=LONG)]), one)
    assert max(map(cell_len, text.splitlines())) <= 80


def test_names_are_shown_as_they_are_and_cannot_steer_the_terminal(capsys) -> None:
    text = printed(capsys, part("[red]x[/red]", hosts=[host("\x1b[31mevil\x07")]))
    assert "[red]x[/red]" in text
    assert "\x1b[31m" not in text
    assert "\N{REPLACEMENT CHARACTER}[31mevil" in text


def test_an_empty_ledger_is_said(capsys) -> None:
    assert printed(capsys) == "The ledger holds no dataset yet.\n"


def test_one_dataset_has_no_line_for_all(capsys) -> None:
    assert "all datasets" not in printed(capsys, part("alone"))
    assert "all datasets" in printed(capsys, part("a"), part("b"))


def test_many_hosts_are_cut_and_it_is_said(capsys) -> None:
    text = printed(capsys, part(hosts=[host(f"Host {n:02}") for n in range(50)]))
    assert f"Host {HOSTS_MAX - 1:02}" in text
    assert f"Host {HOSTS_MAX:02}" not in text
    assert f"{50 - HOSTS_MAX} more: --csv" in text


def test_a_dataset_without_calls_has_its_line(capsys) -> None:
    assert "untouched" in printed(capsys, untouched())


def test_what_nobody_told_is_a_question_mark(capsys) -> None:
    text = printed(capsys, part(figures=figures(cost_usd=None, completion_tokens=None), hosts=[]))
    (line,) = [line for line in text.splitlines() if line.startswith("set ") and "500" in line]
    assert line.split()[3:5] == ["?", "?"]
