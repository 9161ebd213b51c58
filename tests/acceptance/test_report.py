"""`eagle3gen report` after real runs: its numbers are the simulator's, and its page is whole in a real browser."""

import csv
import io
import json
from decimal import Decimal

import pytest

from . import chromium
from .conftest import flags

LAYOUT = """
(() => {
  const plots = [...document.querySelectorAll('svg')].map(svg => {
    const box = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
    const ticks = [...svg.querySelectorAll('text.tick')].filter(t => t.getAttribute('text-anchor') !== 'end' ||
      t.getAttribute('y') > svg.viewBox.baseVal.height - 40).map(t => t.getBoundingClientRect());
    const crossing = ticks.some((a, n) => ticks.slice(n + 1).some(b =>
      a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
    return {
      title: svg.querySelector('title').textContent,
      width: box.width, height: box.height, left: box.left, right: box.right, crossing,
      outside: texts.some(t => t.left < box.left - 1 || t.right > box.right + 1 || t.bottom > box.bottom + 1),
      small: Math.min(...texts.map(t => t.height)),
      shapes: svg.querySelectorAll('rect, polyline, circle').length,
    };
  });
  const root = document.documentElement;
  return {plots, page: root.scrollWidth, window: innerWidth, paper: getComputedStyle(document.body).backgroundColor};
})()
"""


@pytest.fixture
def ran(simulate, terminal, prompts):
    """Two datasets under caps, one of which stops its dataset, and errors on the way."""
    simulator = simulate("--latency", "0.1", "--fail-share", "0.1", "--seed", "3")
    files = prompts(5, "first.jsonl"), prompts(40, "第二.jsonl")
    ended = terminal("run", *files, *flags(simulator, "--token-cap", 9_000, "--short-max-tokens", 1000))
    assert ended.code == 4, ended.err
    return simulator


def test_the_report_equals_the_bill_of_the_simulator(ran, terminal) -> None:
    ended = terminal("report", "--json")
    assert ended.code == 0, ended.err
    found, bill = ended.json, ran.bill()
    assert found["totals"]["completion_tokens"] == bill["completion_tokens"]
    assert Decimal(found["totals"]["cost_usd"]) == Decimal(bill["cost_usd"])
    assert [d["name"] for d in found["datasets"]] == ["first", "第二"]
    for d in found["datasets"]:
        assert sum(Decimal(h["cost_usd"]) for h in d["hosts"]) == Decimal(d["cost_usd"])
        assert sum(h["answers"] for h in d["hosts"]) == d["answers"] == sum(d["verdicts"].values())
        assert sum(e["attempts"] for e in d["errors"]) == d["attempts"] - d["answers"] - d["open_attempts"]
    first, second = found["datasets"]
    assert (first["answers"], first["projection"]["prompts"]) == (5, 0)
    assert second["cap"] == {"tokens": 9_000, "usd": None}
    assert second["projection"]["prompts"] == 40 - second["answers"]
    assert second["projection"]["fits_cap"] == "no"
    assert second["projection"]["tokens"]["mean"] <= second["projection"]["tokens"]["pessimistic"]

    rows = list(csv.DictReader(io.StringIO(terminal("report", "--csv").out)))
    assert sum(int(row["completion_tokens"]) for row in rows) == bill["completion_tokens"]
    assert sum(Decimal(row["cost_usd"]) for row in rows) == Decimal(bill["cost_usd"])

    words = terminal("report", "第二")
    assert words.code == 0
    assert "This does not fit under the cap" in words.out
    assert "first" not in words.out
    assert max(map(len, words.out.splitlines())) <= 80


def test_bad_wishes_are_one_sentence(simulate, terminal, prompts) -> None:
    assert terminal("run", prompts(2), *flags(simulate("--latency", "0.1"))).code == 0
    for words, code, sentence in (
        (["report", "nowhere"], 2, "there is no dataset named 'nowhere'"),
        (["report", "--csv", "--json"], 2, "choose one"),
        (["report", "--html", "/proc/none/report.html"], 3, "choose another --html"),
    ):
        ended = terminal(*words)
        assert ended.code == code, ended.err
        assert sentence in ended.err
        assert "Traceback" not in ended.err
        assert ended.out == ""


@chromium.needed
async def test_the_page_is_whole_in_a_browser_and_asks_for_nothing(ran, terminal, tmp_path) -> None:
    """Wide and narrow, light and dark: every plot drawn, no text outside of it, no request, no complaint."""
    ended = terminal("report", "--html", "report.html", "--json")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out)["totals"]["answers"] > 5
    file = terminal.cwd / "report.html"
    papers = set()
    async with chromium.browser(tmp_path / "profile") as tab:
        for width in (1280, 390):
            for dark in (False, True):
                await tab.open(file, width=width, dark=dark)
                seen = await tab.run(LAYOUT)
                papers.add((dark, seen["paper"]))
                assert seen["page"] <= seen["window"] == width
                assert len(seen["plots"]) == 3 * 6
                for plot in seen["plots"]:
                    assert not plot["outside"], plot
                    assert not plot["crossing"], plot
                    assert plot["shapes"] > 0, plot
                    assert plot["width"] > 250, plot
                    assert plot["small"] > 9, plot
                    assert plot["left"] >= 0, plot
                    assert plot["right"] <= width, plot
        assert len({paper for _, paper in papers}) == len(papers) == 2
        assert set(tab.requests) == {file.as_uri()}
        assert tab.complaints == []
