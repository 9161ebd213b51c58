"""What a run shows while it goes on, off a terminal."""

from dataclasses import replace
from decimal import Decimal

from eagle3gen.cli.progress import Progress, Rate
from eagle3gen.cli.rendering import duration
from eagle3gen.ledger.states import PromptState
from eagle3gen.local.run import Phase
from tests.making import dataset_totals

DATASET = dataset_totals(
    cap_tokens=10_000,
    spent_tokens=2_500,
    open_tokens=300,
    cost_usd=Decimal("0.25"),
    counts={PromptState.DONE: 30, PromptState.IN_FLIGHT: 3, PromptState.PENDING: 17},
    verdicts={"exact/count": 30},
)


def test_a_line_says_how_far_it_is(capsys) -> None:
    with Progress() as progress:
        progress.show(Phase.RUNNING, [DATASET])
    line = capsys.readouterr().err
    for part in ("set: 30/50 answered", "3 in flight", "2,500 of 10,000 tokens", "$0.2500", "30 exact/count"):
        assert part in line


def test_lines_come_every_few_seconds_and_not_with_every_look(capsys) -> None:
    with Progress() as progress:
        for _ in range(10):
            progress.show(Phase.RUNNING, [DATASET])
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_draining_and_cutting_are_announced_once(capsys) -> None:
    with Progress() as progress:
        for phase in (Phase.RUNNING, Phase.DRAINING, Phase.DRAINING, Phase.ABORTING):
            progress.show(phase, [DATASET])
    shown = capsys.readouterr().err
    assert shown.count("Finishing 3 open calls") == 1
    assert shown.count("Cutting 3 open calls") == 1


def test_an_unpriced_call_shows_beside_the_cost(capsys) -> None:
    with Progress() as progress:
        progress.show(Phase.RUNNING, [replace(DATASET, unpriced_attempts=1)])
    assert "$0.2500+" in capsys.readouterr().err


def test_the_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.add(0, 0) == 0
    assert rate.add(10, 100) == 10
    for second in range(11, 60):
        last = rate.add(second, 100 + 50 * (second - 10))
    assert 45 < last <= 50


def test_durations() -> None:
    assert [duration(s) for s in (0, 59.6, 245, 3723)] == ["0:00", "1:00", "4:05", "1:02:03"]
