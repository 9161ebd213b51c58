"""The page stands alone, escapes everything, and says what it draws."""

import html
import re
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle3gen.errors import ConfigurationError
from eagle3gen.flow.report import plots as plotting
from eagle3gen.flow.report import svg
from eagle3gen.flow.report.page import page, write_page
from eagle3gen.flow.report.plots import ROWS_MAX, plots
from eagle3gen.flow.report.projection import Projection, Tokens
from eagle3gen.ledger.money import Cap
from eagle3gen.ledger.reporting_series import BINS
from eagle3gen.ledger.states import DatasetState
from eagle3gen.records import Queue, Verdict

from .report_values import bars, dataset, failure, figures, host, part, report, spend, untouched

EVIL = '<script>alert("x")</script>&\'<img src=x onerror=alert(1)>'
NAMESPACE = "{http://www.w3.org/2000/svg}"


def drawn(one) -> dict[str, plotting.Plot]:
    return {plot.title: plot for group in plots(one, "p") for plot in group}


def elements(plot, tag: str, kind: str | None = None) -> list[ET.Element]:
    root = ET.fromstring(plot.svg)
    return [e for e in root.iter(NAMESPACE + tag) if kind is None or kind in e.get("class", "").split()]


def words(plot, kind: str | None = None) -> list[str]:
    return [element.text for element in elements(plot, "text", kind)]


def test_every_kind_of_plot_is_drawn() -> None:
    assert list(drawn(part(lengths=bars(1) + bars(2, of=Queue.LONG)))) == [
        "Completion tokens over time",
        "Cost over time",
        "Answer lengths, short queue",
        "Answer lengths, long queue",
        "Cost per million completion tokens, by host",
        "Verdicts, by host",
        "Latency, by host",
    ]


def test_nothing_is_drawn_of_a_dataset_without_calls() -> None:
    assert drawn(untouched()) == {}


@pytest.mark.parametrize("title", list(drawn(part())))
def test_a_plot_has_a_text_alternative_and_a_named_axis(title) -> None:
    plot = drawn(part())[title]
    root = ET.fromstring(plot.svg)
    assert root.get("role") == "img"
    by_id = {e.get("id"): e.text for e in root.iter() if e.get("id")}
    heard = [by_id[name] for name in root.get("aria-labelledby").split()]
    assert heard[0] == title
    assert len(heard[1]) > 10
    assert words(plot, "axis")
    assert len(words(plot, "tick")) >= 3


def test_the_names_of_plots_are_unique_on_the_page() -> None:
    text = page(report(part("a"), part("b")))
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids)) > 10


def test_a_cap_near_what_is_spent_is_a_line_to_scale() -> None:
    plot = drawn(part(cap=Cap(tokens=4000)))["Completion tokens against the cap"]
    (line,) = elements(plot, "line", "cap")
    ticks = {e.text: float(e.get("y")) - 4 for e in elements(plot, "text", "tick") if e.get("text-anchor") == "end"}
    assert float(line.get("y1")) == pytest.approx(ticks["4k"], abs=0.2)
    assert words(plot, "mark") == ["cap 4k, 50.0% spent"]


def test_a_cap_far_above_is_named_and_does_not_flatten_the_line() -> None:
    plot = drawn(part(cap=Cap(tokens=1_000_000)))["Completion tokens against the cap"]
    assert words(plot, "mark") == ["cap 1M, 0.2% spent ↑"]
    assert "2k" in words(plot, "tick")


def test_a_cap_in_usd_is_drawn_when_there_is_one() -> None:
    plot = drawn(part(cap=Cap(usd=Decimal("0.0025"))))["Cost against the cap"]
    assert "80.0% spent" in words(plot, "mark")[0]


@pytest.mark.parametrize(
    ("hours", "name"), [(2, "time of 2026-03-01, UTC"), (14, "time from 2026-03-01, UTC"), (40, "time, UTC")]
)
def test_the_time_axis_names_its_day(hours, name) -> None:
    plot = drawn(part(spend=spend(5, seconds=3600 * hours)))["Completion tokens over time"]
    assert name in words(plot, "axis")


def test_the_line_never_falls() -> None:
    plot = drawn(part(spend=spend(5, 0, 7, 100, 3)))["Completion tokens over time"]
    (line,) = elements(plot, "polyline", "line")
    levels = [float(corner.split(",")[1]) for corner in line.get("points").split()]
    assert levels == sorted(levels, reverse=True)
    assert len(levels) == 6


def test_held_tokens_and_untold_costs_are_said_beside_the_lines() -> None:
    found = drawn(part(figures=figures(held_tokens=777, unpriced_attempts=3)))
    assert "777 more tokens are held" in found["Completion tokens over time"].note
    assert "3 settled attempts told no cost" in found["Cost over time"].note


def test_an_unknown_cost_is_not_drawn_as_0() -> None:
    found = drawn(part(spend=[*spend(0, 0)], hosts=[host(priced_tokens=0, cost_usd=None)]))
    assert not [title for title in found if title.startswith("Cost")]


def test_a_bar_is_as_tall_as_its_answers_and_the_limit_is_marked() -> None:
    plot = drawn(part(lengths=bars(10, 0, 5, max_tokens=4000)))["Answer lengths, short queue"]
    first, second = (float(bar.get("height")) for bar in elements(plot, "rect", "bar"))
    assert first == pytest.approx(2 * second, abs=0.2)
    assert words(plot, "mark") == ["max_tokens 4,000"]
    hints = [e.text for e in elements(plot, "title") if e.get("id") is None]
    assert hints == ["0 to 100 tokens: 10 answers", "200 to 300 tokens: 5 answers"]


def test_answers_above_the_limit_have_a_bar_of_their_own() -> None:
    (bar,) = bars(*[0] * BINS, 4)
    plot = drawn(part(lengths=[bar]))["Answer lengths, short queue"]
    (shape,) = elements(plot, "rect", "bar")
    assert float(shape.get("x")) + float(shape.get("width")) <= svg.WIDTH
    assert "more than 4,000 tokens: 4 answers" in plot.svg


def test_the_verdicts_of_a_host_fill_its_row() -> None:
    plot = drawn(part())["Verdicts, by host"]
    pieces = elements(plot, "rect", "piece")
    widths = [float(piece.get("width")) for piece in pieces]
    assert widths[0] == pytest.approx(9 * widths[1], rel=0.01)
    assert plot.legend == [("v2", "exact/count"), ("v8", "truncated")]
    assert "truncated: 1 of 10, 10.0%" in plot.svg


def test_every_verdict_has_a_colour_in_light_and_dark() -> None:
    text = page(report(part()))
    for n in range(len(Verdict)):
        assert len(re.findall(rf"--v{n}: #", text)) == 2
        assert f".v{n} {{ --fill: var(--v{n}); }}" in text


def test_many_hosts_are_cut_in_the_plots_and_whole_in_the_tables() -> None:
    hosts = [host(f"Host {n:03}") for n in range(50)]
    one = part(hosts=hosts)
    plot = drawn(one)["Verdicts, by host"]
    assert len(words(plot, "row")) == ROWS_MAX
    assert plot.note == "The 24 hosts with the most answers; 26 more are in the table."
    assert page(report(one)).count("Host 049") == 2


def test_a_name_is_told_whole_where_it_is_cut() -> None:
    name = "月之暗面科技有限公司" * 8
    plot = drawn(part(hosts=[host(name)]))["Verdicts, by host"]
    assert words(plot, "row")[0].endswith("…")
    assert any(e.text == name for e in elements(plot, "title"))


def test_the_model_is_named_where_a_host_serves_two() -> None:
    plot = drawn(part(hosts=[host("a", "m-1"), host("a", "m-2")]))["Latency, by host"]
    assert words(plot, "row") == ["a · m-1", "a · m-2"]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 400))
def test_a_shortened_text_fits_and_is_a_beginning(text, units) -> None:
    found = svg.shortened(text, units)
    assert found == text or (found.endswith("…") and text.startswith(found[:-1].rstrip()))
    assert len(found) <= max(1, units / svg.TEXT_UNITS) + 1


def test_every_text_from_outside_is_escaped() -> None:
    broken = dataset(EVIL, state=DatasetState.PAUSED, state_reason=EVIL, model=EVIL)
    one = part(EVIL, dataset=broken, hosts=[host(EVIL, EVIL), host("b", "m-2")], failures=[failure(error=EVIL)])
    one = part(EVIL, dataset=broken, hosts=one.hosts, failures=one.failures, finish_reasons={EVIL: 3})
    text = page(report(one, part("b")))
    assert "<script" not in text
    assert "<img" not in text
    assert html.unescape(text).count(EVIL) > 8


def test_the_page_loads_nothing_and_forbids_it() -> None:
    text = page(report(part(lengths=bars(1))))
    assert "Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"" in text
    assert not re.search(r"<(script|link|img|iframe|object|embed|base|form)\b", text)
    assert not re.search(r"url\(|@import|@font-face", text)
    addresses = set(re.findall(r"(?:https?:)?//[^\s\"'<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg"}


def test_one_dataset_is_not_shown_twice() -> None:
    assert page(report(part("alone"))).count("<section") == 1
    assert page(report(part("a"), part("b"))).count("<section") == 3


def test_an_empty_ledger_says_what_to_do() -> None:
    text = page(report())
    assert "No dataset yet" in text
    assert "eagle3gen run" in text


def test_a_dataset_without_calls_says_so_and_has_no_broken_numbers() -> None:
    text = page(report(untouched()))
    assert "No call was made yet." in text
    assert "None" not in text
    assert "nan" not in text


def test_an_unknown_projection_says_why() -> None:
    todo = Projection(prompts=3, tokens=Tokens(mean=10, pessimistic=2000), usd=None, hours=None, unknown=("Because",))
    text = page(report(part(projection=todo)))
    assert "Because." in text
    assert ">2k<" in text
    assert "?" in text


def test_an_unknown_cost_is_a_question_mark() -> None:
    text = page(report(part(figures=figures(cost_usd=None, unpriced_attempts=4))))
    assert "<dt>cost</dt><dd>?" in text
    assert "4 settled attempts told no cost, which is unknown, not 0." in text


@settings(max_examples=40)
@given(st.text(), st.text())
def test_any_names_make_a_page(tmp_path_factory, name, other) -> None:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(report(part(name, hosts=[host(other)])), path)
    assert path.read_text("utf-8").endswith("</html>")


def test_a_page_that_cannot_be_written_is_one_sentence_and_leaves_nothing(tmp_path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ConfigurationError, match="choose another --html"):
        write_page(report(part()), tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_the_folder_of_a_page_is_made(tmp_path) -> None:
    write_page(report(part()), tmp_path / "new" / "report.html")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["report.html"]
