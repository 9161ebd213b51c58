"""What programs read: stable keys, money as strings, null for the unknown."""

import csv
import io
import json
from dataclasses import replace
from datetime import timedelta, timezone
from decimal import Decimal

import orjson
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.flow.report.numbers import NO_FIGURES, cap_of_all, usd_per_million
from eagle3gen.flow.report.projection import Fit, Hours, Projection, Tokens, Usd
from eagle3gen.flow.report.rows import CSV_COLUMNS, as_csv, as_json, figures_json
from eagle3gen.ledger.money import UNCAPPED, Cap

from .report_values import NOON, failure, figures, host, part, report, untouched

FIGURES = {
    "attempts", "retries", "answers", "prompt_tokens", "completion_tokens", "cost_usd",
    "usd_per_million_completion_tokens", "mean_length", "p95_length", "truncated", "truncated_share",
    "failed_attempts", "failed_tokens", "failed_usd", "held_attempts", "held_tokens", "held_usd",
    "open_attempts", "open_tokens", "open_usd",
    "uncounted_attempts", "unpriced_attempts", "latency_p50_seconds", "latency_p95_seconds",
}  # fmt: skip
PART = FIGURES | {"prompts", "cap", "verdicts", "finish_reasons", "hosts", "pace", "projection"}


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_keys_are_those_that_are_documented() -> None:
    found = as_json(report(part(failures=[failure()])))
    assert set(found) == {"generated_at", "totals", "datasets"}
    assert set(found["totals"]) == PART
    (one,) = found["datasets"]
    assert set(one) == PART | {"name", "state", "reason", "model", "errors"}
    assert set(one["hosts"][0]) == FIGURES | {"model", "host", "verdicts", "finish_reasons"}
    assert one["errors"] == [{"outcome": "released", "status": 503, "error": "no route", "attempts": 2}]
    assert set(one["projection"]) == {"prompts", "tokens", "usd", "hours", "fits_cap", "borrowed", "unknown"}
    assert set(one["pace"]) == {"since", "until", "answers", "tokens_per_second"}
    json.loads(orjson.dumps(found))


def test_money_is_a_string_with_all_its_digits() -> None:
    found = figures_json(figures(cost_usd=Decimal("1234.000000000000000000000123000")))
    assert found["cost_usd"] == "1234.000000000000000000000123"


def test_what_is_unknown_is_null_and_never_0() -> None:
    found = figures_json(figures(cost_usd=None, completion_tokens=None, prompt_tokens=None, priced_tokens=0))
    unknown = ("cost_usd", "completion_tokens", "prompt_tokens", "usd_per_million_completion_tokens")
    assert [found[name] for name in unknown] == [None] * 4


def test_what_was_never_called_for_has_no_lengths() -> None:
    found = figures_json(NO_FIGURES)
    assert (found["attempts"], found["cost_usd"], found["mean_length"], found["truncated_share"]) == (
        0,
        "0",
        None,
        None,
    )


def test_a_time_is_iso_8601_in_utc() -> None:
    local = replace(report(part()), at=NOON.astimezone(timezone(timedelta(hours=5))))
    assert as_json(local)["generated_at"] == "2026-03-01T12:00:00Z"


def test_a_projection_is_a_range_of_strings_and_numbers() -> None:
    todo = Projection(
        prompts=3, tokens=Tokens(mean=10, pessimistic=20), usd=Usd(mean=Decimal("0.10"), pessimistic=Decimal(1)),
        hours=Hours(mean=0.5, pessimistic=1.25), fits_cap=Fit.PERHAPS,
    )  # fmt: skip
    found = as_json(report(part(projection=todo)))["datasets"][0]["projection"]
    assert found["tokens"] == {"mean": 10, "pessimistic": 20}
    assert found["usd"] == {"mean": "0.1", "pessimistic": "1"}
    assert found["hours"] == {"mean": 0.5, "pessimistic": 1.25}
    assert found["fits_cap"] == "perhaps"


def test_an_unknown_projection_is_null_with_its_reason() -> None:
    todo = Projection(prompts=3, tokens=None, usd=None, hours=None, unknown=("because",))
    found = as_json(report(part(projection=todo)))["datasets"][0]["projection"]
    assert (found["tokens"], found["usd"], found["hours"], found["unknown"]) == (None, None, None, ["because"])


def test_csv_has_a_row_per_dataset_model_and_host() -> None:
    found = as_csv(report(part("a", hosts=[host("x"), host("y")]), part("b", hosts=[host("x", "m-2")])))
    assert [(r["dataset"], r["model"], r["host"]) for r in rows(found)] == [
        ("a", "m-1", "x"), ("a", "m-1", "y"), ("b", "m-2", "x")
    ]  # fmt: skip
    assert found.splitlines()[0] == ",".join(CSV_COLUMNS)


def test_csv_counts_every_verdict_in_its_own_column() -> None:
    (row,) = rows(as_csv(report(part())))
    assert (row["verdict_exact_count"], row["verdict_truncated"], row["verdict_mismatch"]) == ("9", "1", "0")
    assert row["finish_reasons"] == "stop=9 length=1"


def test_csv_leaves_the_unknown_empty() -> None:
    (row,) = rows(as_csv(report(part(hosts=[host(None, None, cost_usd=None)]))))
    assert (row["host"], row["model"], row["cost_usd"]) == ("", "", "")


def test_csv_does_not_pass_over_a_dataset_without_calls() -> None:
    (row,) = rows(as_csv(report(untouched())))
    assert (row["dataset"], row["host"], row["attempts"], row["cost_usd"]) == ("untouched", "", "0", "0")


def test_an_empty_ledger_is_a_header_and_no_dataset() -> None:
    assert as_json(report())["datasets"] == []
    assert as_csv(report()) == ",".join(CSV_COLUMNS) + "\r\n"


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_name_survives_csv(name) -> None:
    (row,) = rows(as_csv(report(part(name, hosts=[host(name)]))))
    assert (row["dataset"], row["host"]) == (name, name)


def test_a_price_is_over_the_attempts_with_tokens_and_cost() -> None:
    assert usd_per_million(figures(priced_tokens=3, priced_usd=Decimal("0.00001"))) == Decimal("3.333333")
    assert usd_per_million(figures(priced_tokens=0)) is None


def test_the_cap_of_all_is_the_plans_or_else_a_sum_when_each_has_one() -> None:
    assert cap_of_all([Cap(5), Cap(7)], UNCAPPED) == Cap(12)
    assert cap_of_all([Cap(5, Decimal(1)), Cap(None, Decimal(2))], UNCAPPED) == Cap(None, Decimal(3))
    assert cap_of_all([], UNCAPPED) == UNCAPPED
    assert cap_of_all([Cap(5), Cap(7)], Cap(9)) == Cap(9)


def test_what_is_left_of_a_cap_is_without_what_is_held_and_open() -> None:
    found = part(cap=Cap(tokens=10_000, usd=Decimal(1)), figures=figures(held_tokens=100, open_tokens=10))
    assert found.tokens_left == 10_000 - 2000 - 100 - 10
    assert found.usd_left == Decimal("0.9950")
    assert part().tokens_left is None
