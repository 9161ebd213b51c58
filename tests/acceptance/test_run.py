"""`eagle3gen run`: the main job, its end, its resume, and what it does when it is killed."""

import json
import os
import signal
import time
from decimal import Decimal

import psutil

from .conftest import KEY, assert_true_ids, exported, flags


def one_of(running, name: str) -> psutil.Process:
    """The oldest process of that name below a run."""
    below = psutil.Process(running.pid).children(recursive=True)
    return min((p for p in below if p.name() == name), key=lambda p: p.create_time())


def test_every_prompt_is_answered_and_every_id_is_true(simulate, terminal, prompts) -> None:
    """Two files, tools and plain: ids equal the truth, ledger equals the bill, and a second run pays nothing."""
    simulator = simulate("--latency", "0.3", "--seed", "7")
    tools = [
        {"type": "function", "function": {"name": "look", "parameters": {"properties": {"at": {"type": "string"}}}}}
    ]
    (terminal.cwd / "tools.json").write_text(json.dumps([{"prompt": f"Look {n}", "tools": tools} for n in range(30)]))
    files = [prompts(60), "tools.json"]
    ended = terminal("run", *files, *flags(simulator))
    assert ended.code == 0, ended.err
    assert len(assert_true_ids(terminal.cwd, simulator)) == 90
    bill, found = simulator.bill(), ended.json["datasets"]
    assert [d["name"] for d in found] == ["asked", "tools"]
    assert sum(d["completion_tokens"] for d in found) == bill["completion_tokens"]
    assert sum(Decimal(d["cost_usd"]) for d in found) == Decimal(bill["cost_usd"])
    assert [(d["prompts"], d["done"], d["pending"], d["held_tokens"]) for d in found] == [
        (60, 60, 0, 0),
        (30, 30, 0, 0),
    ]
    assert {"name", "prompts", "done", "rejected", "failed", "pending", "verdicts", "cap_tokens"} <= set(found[0])
    assert ended.json["seconds"] > 0

    again = terminal("run", *files, *flags(simulator))
    assert again.code == 0
    assert simulator.bill()["calls"] == 90
    assert terminal("audit").code == 0


def test_the_row_shape_is_the_one_that_trainers_read(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "0.1")
    assert terminal("run", prompts(5), *flags(simulator)).code == 0
    for row in exported(terminal.cwd):
        assert set(row) == {"id", "primary_id", "input_ids", "loss_mask", "text", "metadata"}
        assert row["id"] == row["primary_id"] + "_gen0"
        expected = "dataset source generation_id verdict finish_reason host model usage cost_usd prompt_tokens"
        assert set(row["metadata"]) == {*expected.split(), "tokenizer_sha256", "sampling_params"}
        assert row["text"].startswith("<|im_user|>user<|im_middle|>Question")
        assert row["text"].endswith("<|im_end|>")
        assert not list((terminal.cwd / "export").glob(".*"))


def test_a_killed_run_goes_on_where_it_was_and_its_open_calls_are_held(simulate, terminal, prompts) -> None:
    """kill -9 of the whole process group; nothing survives it; then every prompt has exactly one sample."""
    simulator = simulate("--latency", "1.5")
    words = ["run", prompts(80), *flags(simulator, "--short-concurrency", 20)]
    first = terminal.start(*words, group=True)
    until = time.monotonic() + 40
    while simulator.bill()["calls"] < 30:
        assert time.monotonic() < until
        time.sleep(0.1)
    os.killpg(first.pid, signal.SIGKILL)
    terminal.wait(first)
    while terminal.descendants():
        assert time.monotonic() < until
        time.sleep(0.1)
    ended = terminal(*words)
    assert ended.code == 0, ended.err
    rows = assert_true_ids(terminal.cwd, simulator)
    assert len(rows) == len({row["primary_id"] for row in rows}) == 80
    (dataset,), bill = ended.json["datasets"], simulator.bill()
    held = dataset["held_tokens"] // 10_240
    assert held > 0
    assert bill["calls"] == 80 + held
    paid = sum(t["completion_tokens"] for t in simulator.emitted().values())
    assert dataset["completion_tokens"] <= paid <= dataset["completion_tokens"] + dataset["held_tokens"]


def test_a_cap_is_never_passed_and_a_raised_one_finishes_the_rest(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "0.1", "--mean-tokens", "300")
    words = ["run", prompts(40), *flags(simulator, "--short-max-tokens", 1000)]
    ended = terminal(*words, "--token-cap", 4000)
    assert ended.code == 4, ended.err
    (dataset,) = ended.json["datasets"]
    assert 4000 - 1000 < dataset["completion_tokens"] <= 4000
    assert dataset["completion_tokens"] == simulator.bill()["completion_tokens"]
    assert "cap" in ended.err

    ended = terminal(*words, "--token-cap", 100_000)
    assert ended.code == 0, ended.err
    assert ended.json["datasets"][0]["pending"] == 0
    assert simulator.bill()["calls"] == 40


def test_ctrl_c_once_finishes_the_open_calls(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "2")
    words = ["run", prompts(60), *flags(simulator, "--short-concurrency", 15)]
    first = terminal.start(*words)
    until = time.monotonic() + 40
    while simulator.bill()["open"] < 15:
        assert time.monotonic() < until
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    ended = terminal.wait(first)
    assert ended.code == 130
    assert "Finishing 15 open calls" in ended.err
    (dataset,) = ended.json["datasets"]
    assert dataset["held_tokens"] == 0
    assert dataset["done"] == simulator.bill()["calls"] < 60
    assert terminal(*words).code == 0
    assert simulator.bill()["calls"] == 60


def test_ctrl_c_twice_cuts_the_open_calls_and_keeps_their_holds(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "30")
    first = terminal.start("run", prompts(20), *flags(simulator, "--short-concurrency", 8))
    until = time.monotonic() + 40
    while simulator.bill()["open"] < 8:
        assert time.monotonic() < until
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    time.sleep(1.0)
    first.send_signal(signal.SIGINT)
    ended = terminal.wait(first, 30)
    assert ended.code == 130
    (dataset,) = ended.json["datasets"]
    assert (dataset["held_tokens"], dataset["pending"], dataset["in_flight"]) == (8 * 10_240, 20, 0)


def test_stop_from_another_terminal_ends_the_run_and_resume_finishes_it(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "20")
    running = terminal.start("run", prompts(40), *flags(simulator, "--short-concurrency", 10))
    until = time.monotonic() + 40
    while simulator.bill()["open"] < 10:
        assert time.monotonic() < until
        time.sleep(0.05)
    stopped = terminal("stop", "--all", "--json")
    assert stopped.code == 0, stopped.err
    assert stopped.json["cancelled"] == 10
    assert stopped.json["seconds"] < 5
    ended = terminal.wait(running)
    assert ended.code == 5, ended.err
    (dataset,) = ended.json["datasets"]
    assert (dataset["pending"], dataset["held_tokens"]) == (40, 10 * 10_240)


def test_a_broker_that_dies_costs_no_call_twice(simulate, terminal, prompts) -> None:
    """Valkey is killed in the middle; the run starts it again and finishes by itself."""
    simulator = simulate("--latency", "1")
    running = terminal.start("run", prompts(80), *flags(simulator, "--short-concurrency", 10))
    until = time.monotonic() + 40
    while simulator.bill()["calls"] < 15:
        assert time.monotonic() < until
        time.sleep(0.05)
    one_of(running, "valkey-server").kill()
    ended = terminal.wait(running)
    assert ended.code == 0, ended.err
    assert simulator.bill()["calls"] == 80
    assert len(assert_true_ids(terminal.cwd, simulator)) == 80


def test_a_database_that_dies_loses_no_paid_answer(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "1")
    running = terminal.start("run", prompts(80), *flags(simulator, "--short-concurrency", 10))
    until = time.monotonic() + 40
    while simulator.bill()["calls"] < 15:
        assert time.monotonic() < until
        time.sleep(0.05)
    one_of(running, "postgres").kill()
    ended = terminal.wait(running)
    assert ended.code == 0, ended.err
    assert simulator.bill()["calls"] == 80
    (dataset,) = ended.json["datasets"]
    assert (dataset["done"], dataset["held_tokens"]) == (80, 0)


def test_passing_faults_are_tried_again_until_all_is_done(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "0.1", "--fail-share", "0.3")
    ended = terminal("run", prompts(60), *flags(simulator))
    assert ended.code == 0, ended.err
    bill, (dataset,) = simulator.bill(), ended.json["datasets"]
    assert bill["errors"] > 0
    assert (dataset["done"], bill["calls"]) == (60, 60)
    assert dataset["completion_tokens"] == bill["completion_tokens"]


def test_a_refused_key_pauses_everything_with_its_reason(simulate, terminal, prompts) -> None:
    """401: no prompt is failed, nothing is spent, and the right key goes on."""
    simulator = simulate("--latency", "0.1", "--api-key", KEY)
    words = ["run", prompts(20), *flags(simulator)]
    ended = terminal(*words)
    assert ended.code == 3
    assert "401" in ended.err
    (dataset,) = ended.json["datasets"]
    assert (dataset["state"], dataset["pending"], dataset["failed"]) == ("paused", 20, 0)
    (terminal.cwd / "key").write_text(KEY + "\n")
    ended = terminal(*words, "--api-key-file", "key")
    assert ended.code == 0, ended.err


def test_the_key_is_nowhere(simulate, terminal, prompts) -> None:
    """Not on stdout or stderr, in no log, no row, no file, and on no command line."""
    simulator = simulate("--latency", "1", "--api-key", KEY)
    terminal.environment["OPENROUTER_API_KEY"] = KEY
    running = terminal.start("run", prompts(20), *flags(simulator))
    until = time.monotonic() + 40
    while simulator.bill()["open"] == 0:
        assert time.monotonic() < until
        time.sleep(0.05)
    own = {running.pid, *(p.pid for p in psutil.Process(running.pid).children(recursive=True))}
    for pid in own:
        assert KEY not in " ".join(psutil.Process(pid).cmdline())
    ended = terminal.wait(running)
    assert ended.code == 0, ended.err
    assert KEY not in ended.out + ended.err
    for path in terminal.cwd.rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


def test_all_ends_with_the_run(simulate, terminal, prompts) -> None:
    """No server, worker or keeper is left when a run has ended."""
    simulator = simulate("--latency", "0.1")
    assert terminal("run", prompts(5), *flags(simulator)).code == 0
    assert terminal.descendants() == []
