"""`eagle3gen simulate` as a process of its own: how it begins, and how it ends."""

import asyncio
import json
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def simulate(tmp_path) -> Iterator[Callable]:
    """Start one; yields its process and the line it prints when ready."""
    started = []

    def start(*flags: str, **popen) -> tuple[subprocess.Popen, dict]:
        command = [sys.executable, "-m", "eagle3gen", "simulate", "--truth", str(tmp_path / "truth"), *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, **popen)
        started.append(process)
        return process, json.loads(process.stdout.readline())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ask(url: str, text: str = "x") -> dict:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body), timeout=10) as reply:
        return json.loads(reply.read())


def own(url: str, name: str, told: dict | None = None) -> dict:
    address = url.replace("/api/v1", f"/simulator/{name}")
    body = None if told is None else json.dumps(told).encode()
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=10) as reply:
        return json.loads(reply.read())


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_one_line_says_where_it_listens_and_with_which_seed(simulate, tmp_path) -> None:
    process, ready = simulate("--seed", "7", "--latency", "0.05")
    assert ready["seed"] == 7
    assert ready["truth"] == str(tmp_path / "truth")
    assert ask(ready["url"])["object"] == "chat.completion"
    assert ask(ready["url"].replace("/api/v1", "/v1"))["object"] == "chat.completion"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate(timeout=10)
    assert rest == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_its_truth_complete(simulate, tmp_path, number) -> None:
    process, ready = simulate("--latency", "0.02")
    told = [ask(ready["url"], str(n))["id"] for n in range(5)]
    process.send_signal(number)
    assert process.wait(10) == 0
    assert [row["generation_id"] for row in rows(tmp_path / "truth")] == told


def test_kill_loses_the_last_moment_only(simulate, tmp_path) -> None:
    process, ready = simulate("--latency", "0.02")
    told = [ask(ready["url"], str(n))["id"] for n in range(5)]
    subprocess.run(["sleep", "0.6"], check=True)
    process.kill()
    process.wait(10)
    assert [row["generation_id"] for row in rows(tmp_path / "truth")] == told


def test_it_ends_with_its_parent_when_told_so_and_not_at_a_word(simulate) -> None:
    process, ready = simulate("--until-stdin-closes", "--latency", "0.02")
    process.stdin.write(b"a word\n")
    process.stdin.flush()
    assert ask(ready["url"])["id"]
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdin = None


async def test_a_low_limit_of_open_files_is_raised(simulate) -> None:
    """Many systems start with 1,024 files: fewer than one worker's connections."""

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))

    process, ready = simulate("--latency", "0.02", preexec_fn=lower)
    port = int(ready["url"].split(":")[2].split("/")[0])
    ends = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
    for _ in range(200):
        # Connecting is the kernel's work; the simulator accepts a moment later.
        held = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        if held > 100:
            break
        await asyncio.sleep(0.05)
    assert held > 100
    for _, writer in ends:
        writer.close()


def test_the_same_seed_gives_the_same_answers_in_another_process(simulate) -> None:
    answers = []
    for _ in range(2):
        process, ready = simulate("--seed", "5", "--latency", "0.02")
        replies = [ask(ready["url"], str(n % 2)) for n in range(4)]
        answers.append([(r["choices"], r["usage"], r["provider"]) for r in replies])
        process.terminate()
        process.wait(10)
    assert answers[0] == answers[1]
    assert answers[0][0] != answers[0][2]


def test_the_knobs_are_options(simulate) -> None:
    _, ready = simulate(
        "--latency", "0.02", "--credits", "1.50", "--key-limit", "2", "--fault", "no_cost=1",
        "--fault", "Chutes:no_usage=1", "--model", "a/b", "--model", "m", "--no-management-key", "--byok",
    )  # fmt: skip
    assert "cost" not in ask(ready["url"]).get("usage", {})
    own(ready["url"], "knobs", {"management_key": True})
    with urllib.request.urlopen(f"{ready['url']}/credits", timeout=10) as reply:
        assert json.loads(reply.read())["data"] == {"total_credits": 1.5, "total_usage": 0}
    with urllib.request.urlopen(f"{ready['url']}/key", timeout=10) as reply:
        assert json.loads(reply.read())["data"]["limit"] == 2
    assert own(ready["url"], "bill")["calls"] == 1


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--credits", "much"], b"'much' is not an amount in USD"),
        (["--fail-share", "2"], b"is not a number from 0 to 1"),
        (["--fault", "nothing=1"], b"there is no fault 'nothing'"),
        (["--faults", "nowhere.toml"], b"is no group of faults"),
        (["--hosts", "nowhere.toml"], b"cannot be read as hosts"),
        (["--dialect", "french"], b"is none of openrouter, vllm"),
        (["--host-rate", "fast"], b"is not written as HOST=N or N"),
    ],
)
def test_a_wrong_value_is_one_sentence_and_wrong_usage(flags, says) -> None:
    command = [sys.executable, "-m", "eagle3gen", "simulate", *flags]
    ended = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert b"Traceback" not in ended.stderr


def test_help_names_every_knob_and_every_fault() -> None:
    from eagle3gen.simulator.faults import FAULTS
    from eagle3gen.simulator.options import KNOBS

    told = subprocess.run([sys.executable, "-m", "eagle3gen", "simulate", "--help"], capture_output=True, check=True)
    assert "  GET  /simulator/bill " in told.stdout.decode()
    words = told.stdout.decode().split()
    assert {f"--{knob.flag}" for knob in KNOBS.values()} | set(FAULTS) <= set(words)


def test_faults_and_hosts_may_come_from_files(simulate, tmp_path) -> None:
    (tmp_path / "faults.toml").write_text("[Cheap]\nno_cost = 1\n", "utf-8")
    (tmp_path / "hosts.toml").write_text(
        '[[hosts]]\nname = "Cheap"\ntag = "cheap/fp8"\nprompt = "0.05"\ncompletion = "0.1"\n', "utf-8"
    )
    files = ["--faults", str(tmp_path / "faults.toml"), "--hosts", str(tmp_path / "hosts.toml")]
    _, ready = simulate("--latency", "0.02", *files)
    reply = ask(ready["url"])
    assert reply["provider"] == "Cheap"
    assert "cost" not in reply["usage"]


def test_an_outage_refuses_connections_and_ends(simulate) -> None:
    """In its own process, with the event loop that it really has."""
    _, ready = simulate("--latency", "0.02", "--fault", "outage=1", "--outage", "1")
    with pytest.raises(ConnectionResetError):
        ask(ready["url"])
    with pytest.raises(urllib.error.URLError, match="refused"):
        own(ready["url"], "bill")
    time.sleep(1.5)
    assert own(ready["url"], "knobs", {"fault": []}) == {"changed": ["fault"]}
    assert ask(ready["url"])["id"]
