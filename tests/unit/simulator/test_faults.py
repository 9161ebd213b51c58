"""Which faults there are, how they are told, and who meets them."""

import json
import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle3gen.simulator import errors
from eagle3gen.simulator.errors import INSIDE, STATUS, Scene
from eagle3gen.simulator.faults import (
    BOOKS,
    ERRORS,
    FAULTS,
    GROUPS,
    LASTING,
    NO_FAULTS,
    PASSING,
    TOKENS,
    TRANSPORT,
    Mix,
    met,
    read_mix,
    read_shares,
)
from eagle3gen.simulator.knobs import BadKnob


def draws(mix: Mix = NO_FAULTS, shares=(), share: float = 0.0, host: str = "A", count: int = 400) -> list[frozenset]:
    return [met(mix, share, read_shares(shares), host, random.Random(n)) for n in range(count)]


def test_shares_of_faults_are_for_all_hosts_or_for_one() -> None:
    assert read_shares(["count_drift=0.5", "Moonshot AI:no_cost=1"]) == (
        ("all", "count_drift", 0.5),
        ("Moonshot AI", "no_cost", 1.0),
    )


@pytest.mark.parametrize("told", ["x=1", "Chutes:x=1", "no_cost", "no_cost=2", "no_cost=x", "no_cost="])
def test_a_fault_that_is_wrongly_written_is_refused(told) -> None:
    with pytest.raises(BadKnob):
        read_shares(told)


def test_a_host_has_its_own_share_of_a_fault() -> None:
    shares = ["no_cost=1", "A:no_cost=0", "A:no_usage=1"]
    assert set(draws(shares=shares, host="A")) == {frozenset({"no_usage"})}
    assert set(draws(shares=shares, host="B")) == {frozenset({"no_cost"})}


@given(st.sampled_from(sorted(FAULTS)), st.sampled_from([0.1, 0.5, 0.9]))
def test_a_fault_is_met_about_as_often_as_its_share_says(name, share) -> None:
    hits = sum(name in hit for hit in draws(shares=[f"{name}={share}"]))
    assert abs(hits / 400 - share) < 0.1


def test_faults_of_the_answer_are_drawn_each_by_itself() -> None:
    seen = set(draws(shares=["no_cost=0.5", "count_drift=0.5"]))
    assert {tuple(sorted(hit)) for hit in seen} == {
        (), ("count_drift",), ("no_cost",), ("count_drift", "no_cost"),
    }  # fmt: skip


def test_a_call_that_ends_in_an_error_has_no_other_fault() -> None:
    assert set(draws(shares=["status_500=1", "html_502=1", "no_cost=1", "count_drift=1"])) == {
        frozenset({"status_500"})
    }


def test_a_broken_transport_leaves_the_faults_of_the_books() -> None:
    assert set(draws(shares=["reset=1", "no_record=1", "count_drift=1"])) == {frozenset({"reset", "no_record"})}


@pytest.mark.parametrize("group", sorted(set(GROUPS) - {"none"}))
def test_a_call_meets_one_fault_of_a_group_as_often_as_the_share_says(group) -> None:
    hits = draws(read_mix(group), share=0.3, count=2000)
    assert {len(hit) for hit in hits} == {0, 1}
    assert abs(sum(map(len, hits)) / 2000 - 0.3) < 0.05
    seen = Counter(name for hit in hits for name in hit)
    assert set(seen) <= set(GROUPS[group])
    assert len(seen) > len(GROUPS[group]) * 0.8


def test_no_group_is_no_fault() -> None:
    assert set(draws(read_mix("none"), share=1.0)) == {frozenset()}


def test_the_mixed_group_holds_nothing_that_stops_a_run() -> None:
    assert not set(GROUPS["mixed"]) & LASTING.keys()
    assert set(GROUPS["errors"]) == PASSING.keys() | LASTING.keys()


def test_every_fault_is_in_one_list_and_says_what_it_is() -> None:
    assert len(FAULTS) == sum(map(len, (TRANSPORT, PASSING, LASTING, TOKENS, BOOKS)))
    assert all(says and not says.endswith(".") for says in FAULTS.values())


def test_a_file_names_faults_for_all_hosts_and_for_one(tmp_path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[all]\nno_cost = 0.25\n\n["Moonshot AI"]\nreset = 1\n', "utf-8")
    mix = read_mix(str(path))
    assert mix.shares == (("all", "no_cost", 0.25), ("Moonshot AI", "reset", 1.0))
    assert read_mix({"all": {"no_cost": 0.25}, "Moonshot AI": {"reset": 1}}) == mix
    assert set(draws(mix, host="Moonshot AI")) <= {frozenset({"reset"}), frozenset({"reset", "no_cost"})}


@pytest.mark.parametrize(
    "text", ["no_cost = 1", "[all]\nnothing = 1", "[all]\nno_cost = 2", "[all]\nno_cost = true", "not TOML", "[all"]
)
def test_a_file_that_is_wrong_is_refused(tmp_path, text) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(BadKnob):
        read_mix(str(path))


@pytest.mark.parametrize("told", ["many", "nowhere.toml", 3, ["no_cost"], None])
def test_what_is_neither_group_nor_file_is_refused(told) -> None:
    with pytest.raises(BadKnob):
        read_mix(told)


# The errors.


def scene(seed: int = 0) -> Scene:
    return Scene("Chutes", "moonshotai/kimi-k2.5", 7, random.Random(seed))


def test_every_error_has_its_body() -> None:
    assert STATUS.keys() | INSIDE == ERRORS.keys()


@pytest.mark.parametrize("name", sorted(STATUS))
def test_an_error_has_the_status_of_its_name(name) -> None:
    failure = STATUS[name](scene())
    status = re.search(r"\d{3}", name)
    assert failure.status == (429 if name == "edge_1015" else int(status[0]))


@pytest.mark.parametrize("name", sorted(name for name in STATUS if name.startswith("status_")))
def test_an_error_is_json_that_says_what_happened(name) -> None:
    for seed in range(6):
        failure = STATUS[name](scene(seed))
        error = json.loads(failure.body)["error"]
        assert error["message"]
        if "availability" in error:
            assert (error["http_status"], "code" in error) == (failure.status, False)
            assert isinstance(error["availability"]["retryable"], bool)
        else:
            assert error["code"] == failure.status


@pytest.mark.parametrize("name", ["status_400_wrapped", "status_429_text", "status_502", "status_529"])
def test_an_error_of_a_host_is_written_in_both_dialects(name) -> None:
    seen = [json.loads(STATUS[name](scene(seed)).body)["error"]["metadata"] for seed in range(20)]
    assert {frozenset(metadata) for metadata in seen} == {
        frozenset({"provider_name", "raw"}),
        frozenset({"provider_name", "error_type", "provider_code"}),
    }


@pytest.mark.parametrize(
    ("name", "kind"), [("status_429_text", str), ("status_502", dict), ("status_429_object", dict)]
)
def test_raw_is_a_text_or_an_object(name, kind) -> None:
    seen = [json.loads(STATUS[name](scene(seed)).body)["error"]["metadata"].get("raw") for seed in range(20)]
    assert {type(raw) for raw in seen if raw is not None} == {kind}


def test_a_wait_is_told_by_some_errors_and_not_by_others() -> None:
    waits = {name: failure(scene()).headers.get("Retry-After") for name, failure in STATUS.items()}
    assert {name for name, wait in waits.items() if wait} == {"status_429_text", "status_503"}


def test_the_reset_of_a_limit_is_told_in_ms_on_top_or_inside() -> None:
    import time

    on_top = STATUS["status_429_reset"](scene()).headers
    inside = json.loads(STATUS["status_429_nested"](scene()).body)["error"]["metadata"]["headers"]
    for headers in (on_top, inside):
        assert (headers["X-RateLimit-Limit"], headers["X-RateLimit-Remaining"]) == ("20", "0")
        assert 0 < int(headers["X-RateLimit-Reset"]) - 1000 * time.time() < 2000


@pytest.mark.parametrize("name", ["html_502", "html_524", "edge_1015"])
def test_the_edge_does_not_speak_json(name) -> None:
    failure = STATUS[name](scene())
    assert failure.headers["Content-Type"].startswith("text/")
    assert (b"<html>" in failure.body) is (name != "edge_1015")
    assert (failure.body == b"error code: 1015") is (name == "edge_1015")


PARTIAL = {"id": "gen-1", "choices": [{"index": 0, "finish_reason": None, "message": {"content": "so far"}}]}


@pytest.mark.parametrize(
    ("name", "choices"),
    [("inside_error", "absent"), ("inside_null_choices", None), ("inside_empty_choices", [])],
)
def test_an_error_inside_of_a_200_has_no_choices_in_one_of_three_ways(name, choices) -> None:
    body = json.loads(errors.inside(name, scene(), PARTIAL))
    assert body.get("choices", "absent") == choices
    assert body["error"]["code"] in {429, 500, 502, 503}


def test_an_error_of_a_choice_keeps_the_text_so_far() -> None:
    body = json.loads(errors.inside("inside_choice", scene(), PARTIAL))
    (choice,) = body["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("error", "so far")
    assert choice["error"]["code"] >= 429
    assert "error" not in body
