"""Caps, canary, breaker and reconciliation with real processes: what a credit card may rely on."""

import json
import os
import random
import shutil
import signal
import time
import urllib.request
from decimal import Decimal
from importlib.resources import files

import pytest

from .conftest import flags

SECONDS = 200
PROMPTS = int(os.environ.get("EAGLE3GEN_PROMPTS", "150"))
TOKEN_CAP, USD_CAP = PROMPTS * 500, str(Decimal("0.0016") * PROMPTS)
"""Less than the prompts would need."""


def post(simulator, path: str, value: dict) -> None:
    url = simulator.url.replace("/api/v1", path)
    request = urllib.request.Request(url, json.dumps(value).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).read()


def by_name(terminal) -> dict[str, dict]:
    return {d["name"]: d for d in terminal("status", "--json").json["datasets"]}


def until(condition, what: str, seconds: float = SECONDS):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.1)
    return found


@pytest.fixture
def fleet(terminal, database_url, redis_url):
    terminal.environment |= {
        "DATABASE_URL": database_url, "REDIS_URL": redis_url,
        "EAGLE3GEN_WORKER_TIMEOUT_SECONDS": "3", "EAGLE3GEN_MAINTENANCE_SECONDS": "0.5",
    }  # fmt: skip

    def workers(count: int) -> list:
        return [terminal.start("worker", "--queue", "short", "--concurrency", 10) for _ in range(count)]

    return workers


@pytest.mark.timeout(600)
def test_caps_hold_and_books_balance_while_workers_are_killed(simulate, terminal, prompts, fleet, tmp_path) -> None:
    """Two datasets with caps in tokens and in USD, workers killed at random: reconcile then finds every cent."""
    rng = random.Random(seed := int(os.environ.get("EAGLE3GEN_SEED", time.time_ns() % 10**6)))
    print("seed", seed)
    simulator = simulate("--latency", "0.8", "--generation-delay", "0.5")
    common = [*flags(simulator), "--short-max-tokens", 2000]
    assert terminal("enqueue", prompts(PROMPTS, "one.jsonl"), *common, "--token-cap", TOKEN_CAP).code == 0
    assert terminal("enqueue", prompts(PROMPTS, "two.jsonl"), *common, "--usd-cap", USD_CAP).code == 0
    running = fleet(4)
    for _ in range(int(os.environ.get("EAGLE3GEN_KILLS", "3"))):
        until(lambda: simulator.bill()["open"] > 5 or _settled(by_name(terminal)), "calls are open")
        time.sleep(rng.uniform(0, 1))
        victim = running.pop(rng.randrange(len(running)))
        victim.kill()
        terminal.wait(victim)
        running += fleet(1)
    until(lambda: _settled(by_name(terminal)), "the datasets come to rest")
    # What the killed workers had in flight is held; their records settle it, and make room for more calls.
    # Only a call that was lost before its headers came has no record to ask for.
    found = until(lambda: _reconciled(terminal) if _settled(by_name(terminal)) else None, "reconcile")
    for worker in running:
        worker.send_signal(signal.SIGTERM)
    assert [terminal.wait(worker).code for worker in running] == [0] * len(running)
    ended, bill = terminal("status", "--json").json, simulator.bill()
    one, two = ended["datasets"]
    plan, (key,) = ended["plan"], found["keys"]
    print("caps", one["cap_tokens"], two["cap_usd"], "spent", one["completion_tokens"], two["cost_usd"])
    print("plan", plan, "bill", bill, "without an id", len(found["left"]), "unexplained", key["unexplained_usd"])
    assert one["completion_tokens"] <= TOKEN_CAP
    assert Decimal(two["cost_usd"]) <= Decimal(USD_CAP)
    assert plan["held_tokens"] == 2000 * len(found["left"])
    assert plan["completion_tokens"] <= bill["completion_tokens"] <= plan["completion_tokens"] + plan["held_tokens"]
    unexplained = Decimal(bill["cost_usd"]) - Decimal(plan["cost_usd"])
    assert Decimal(key["unexplained_usd"]) == unexplained <= Decimal(plan["held_usd"])
    assert found["left"] or not unexplained
    assert terminal("audit").code == 0


def _reconciled(terminal) -> dict | None:
    """What reconcile found, when every call that has an id is settled and nothing came of the room that this made."""
    found = terminal("reconcile", "--wait", 20, "--json").json
    asked = [u for u in found["left"] if u["generation_id"]]
    return None if asked or found["settled"] else found


def _settled(found: dict[str, dict]) -> bool:
    """Nothing in flight, and each dataset is done or at its cap."""
    time.sleep(1.5)
    return all(
        d["in_flight"] == 0
        and d["open_tokens"] == 0
        and (
            d["pending"] == 0
            or (d["left_tokens"] is not None and d["left_tokens"] < 2000)
            or (d["left_usd"] is not None and Decimal(d["left_usd"]) < Decimal("0.0065"))
        )
        for d in found.values()
    )


@pytest.mark.parametrize("canary", [20, 0])
def test_a_wrong_tokenizer_is_stopped_by_the_canary_or_else_by_the_breaker(
    simulate, terminal, prompts, tmp_path, canary
) -> None:
    """One special id is shifted, and the probe that would refuse it is switched off."""
    folder = tmp_path / "shifted"
    shutil.copytree(str(files("eagle3gen.tokens.builtin") / "kimi_mini"), folder)
    for file in (folder / "tokenizer_config.json", folder / "generation_config.json"):
        file.write_text(file.read_text("utf-8").replace("163586", "163533"), "utf-8")
    simulator = simulate("--latency", "0.3")
    terminal.environment["EAGLE3GEN_PROBE_TOKENIZERS"] = "false"
    ended = terminal(
        "run", prompts(120), "--endpoint-url", simulator.url, "--tokenizer", folder, "--canary", canary,
        "--short-concurrency", 20, "--json",
    )  # fmt: skip
    (dataset,) = ended.json["datasets"]
    assert (ended.code, dataset["state"]) == (3, "paused"), ended.err
    assert "<|im_end|> at 163533, which is 163586" in dataset["reason"]
    assert "for instance prompts" in dataset["reason"]
    assert simulator.bill()["calls"] <= (20 if canary else 20 + 20)
    assert dataset["done"] == 0


@pytest.fixture
def tool_prompts(tmp_path):
    """Write a file of so many prompts that bring a tool."""
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}

    def write(count: int) -> str:
        rows = (
            json.dumps({"messages": [{"role": "user", "content": f"Look up {n}."}], "tools": [tool]})
            for n in range(count)
        )
        (tmp_path / "tools.jsonl").write_text("\n".join(rows), "utf-8")
        return "tools.jsonl"

    return write


@pytest.mark.parametrize("canary", [20, 0])
def test_a_host_that_leaks_tool_markers_is_stopped(simulate, terminal, tool_prompts, canary) -> None:
    simulator = simulate("--latency", "0.3", "--tool-share", "1", "--fault", "leaked_markers=1")
    ended = terminal("run", tool_prompts(120), *flags(simulator), "--canary", canary, "--short-concurrency", 20)
    assert ended.code == 3, ended.err
    assert "leaked into the output as letters" in ended.err
    assert simulator.bill()["calls"] <= (20 if canary else 20 + 20)


@pytest.mark.parametrize("canary", [20, 0])
def test_an_endpoint_whose_answers_are_cut_off_is_not_paid_for_long(simulate, terminal, prompts, canary) -> None:
    """Each such call may be billed, so canary and breaker see it."""
    simulator = simulate("--latency", "0.2", "--fault", "cut_json=1")
    ended = terminal("run", prompts(200), *flags(simulator), "--canary", canary, "--short-concurrency", 20)
    assert ended.code == 3, ended.err
    assert "were lost after they were sent, and may be billed" in ended.err
    assert simulator.bill()["calls"] <= (20 if canary else 20 + 20)
    assert terminal("status", "--json").json["datasets"][0]["failed"] == 0


def test_resume_with_a_new_canary_goes_on_when_the_fault_is_mended(simulate, terminal, tool_prompts, fleet) -> None:
    simulator = simulate("--latency", "0.2", "--tool-share", "1", "--fault", "leaked_markers=1")
    assert terminal("enqueue", tool_prompts(60), *flags(simulator)).code == 0
    fleet(1)
    (dataset,) = until(lambda: [d for d in by_name(terminal).values() if d["state"] == "paused"], "the canary stops it")
    assert dataset["rejected"] == 20
    post(simulator, "/simulator/knobs", {"fault": []})
    assert "Resumed" in terminal("resume", "--recanary").err
    until(lambda: by_name(terminal)["tools"]["done"] == 40, "the rest is answered")


def test_without_money_everything_pauses_and_goes_on_after_a_top_up(simulate, terminal, prompts, fleet) -> None:
    """402 in the middle of a run: nothing is failed, and `resume` finishes."""
    simulator = simulate("--latency", "1", "--credits", "0.10")
    assert terminal("enqueue", prompts(150), *flags(simulator), "--canary", 0).code == 0
    fleet(2)
    until(lambda: simulator.bill()["errors"] or by_name(terminal)["asked"]["state"] == "paused", "money runs out")
    began = time.monotonic()
    paused = until(lambda: (d := by_name(terminal)["asked"])["state"] == "paused" and d, "everything pauses", 5)
    assert time.monotonic() - began < 5
    assert paused["reason"].startswith("key: ")
    calm = until(lambda: (d := by_name(terminal)["asked"])["in_flight"] == 0 and d, "the open calls end")
    assert (calm["failed"], calm["pending"] > 0) == (0, True)
    post(simulator, "/simulator/credits", {"add": "5.00"})
    assert "Resumed asked" in terminal("resume").err
    until(lambda: by_name(terminal)["asked"]["done"] == 150, "the rest is answered")
    assert by_name(terminal)["asked"]["failed"] == 0


def test_a_cap_in_usd_needs_prices_and_says_so(simulate, terminal, prompts) -> None:
    simulator = simulate("--model", "another/model")
    ended = terminal("run", prompts(2), *flags(simulator), "--model", "moonshotai/kimi-k2.5", "--usd-cap", "1")
    assert ended.code == 3
    assert "lists no prices" in ended.err
    assert simulator.bill()["calls"] == 0


def test_a_plans_cap_holds_over_all_its_datasets(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "0.1", "--mean-tokens", "300")
    words = ["run", prompts(20, "one.jsonl"), prompts(20, "two.jsonl"), *flags(simulator), "--short-max-tokens", 1000]
    ended = terminal(*words, "--plan-token-cap", 5000)
    assert ended.code == 4, ended.err
    plan = ended.json["plan"]
    assert 4000 < plan["completion_tokens"] <= 5000
    assert plan["completion_tokens"] == simulator.bill()["completion_tokens"]
    assert "the plan's cap of 5,000 tokens admits no further call" in ended.err
    assert "admits 5 in flight of 20" in ended.err
