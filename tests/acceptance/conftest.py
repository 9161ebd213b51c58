"""The command line as its users run it: real processes, against the simulator on loopback."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

COMMAND = [sys.executable, "-m", "eagle3gen"]
KEY = "sk-or-v1-a-secret-that-must-not-be-seen"


@dataclass
class Simulator:
    url: str
    truth: Path

    def bill(self) -> dict:
        with urllib.request.urlopen(self.url.replace("/api/v1", "/_sim/bill"), timeout=10) as reply:
            return json.loads(reply.read())

    def emitted(self) -> dict[str, dict]:
        """What was really emitted, by generation id; waits until the file is complete."""
        for _ in range(50):
            rows = [json.loads(line) for line in self.truth.read_text("utf-8").splitlines()]
            if len(rows) == self.bill()["calls"]:
                break
            time.sleep(0.1)
        return {row["generation_id"]: row for row in rows}


@pytest.fixture
def simulate(tmp_path: Path) -> Iterator:
    """Start simulators with the given flags; each ends with the test."""
    running: list[subprocess.Popen] = []

    def start(*flags: str) -> Simulator:
        truth = tmp_path / f"truth-{len(running)}.jsonl"
        truth.touch()
        process = subprocess.Popen(
            [*COMMAND, "simulate", "--truth", str(truth), "--until-stdin-closes", *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        return Simulator(json.loads(process.stdout.readline())["url"], truth)

    yield start
    for process in running:
        process.stdin.close()
        process.stdout.close()
        process.wait(10)


@dataclass
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> dict:
        return json.loads(self.out.strip().splitlines()[-1])


@dataclass
class Terminal:
    """Runs commands in a folder of its own."""

    cwd: Path
    environment: dict[str, str] = field(default_factory=dict)
    started: list[subprocess.Popen] = field(default_factory=list)

    def start(self, *words: object, group: bool = False) -> subprocess.Popen:
        process = subprocess.Popen(
            [*COMMAND, *map(str, words)],
            cwd=self.cwd,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=group,
        )
        self.started.append(process)
        return process

    def wait(self, process: subprocess.Popen, seconds: float = 90) -> Ended:
        began = time.monotonic()
        out, err = process.communicate(timeout=seconds)
        return Ended(process.returncode, out, err, time.monotonic() - began)

    def __call__(self, *words: object) -> Ended:
        return self.wait(self.start(*words))

    def descendants(self) -> list[psutil.Process]:
        """Every live process that works for this folder."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or ()
            if str(self.cwd) in " ".join(words) and "simulate" not in words:
                found.append(process)
        return found


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.communicate()


@pytest.fixture
def prompts(tmp_path: Path):
    """Write a file of so many prompts and return its name."""

    def write(count: int, name: str = "asked.jsonl") -> str:
        rows = (json.dumps({"prompt": f"Question {n} of {name}: 你好 🎉?"}) for n in range(count))
        (tmp_path / name).write_text("\n".join(rows), "utf-8")
        return name

    return write


def flags(simulator: Simulator, *more: object) -> list[object]:
    """What every run in these tests says."""
    return ["--endpoint-url", simulator.url, "--tokenizer", "builtin:kimi-mini", "--json", *more]


def exported(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "export" / "tokens.jsonl").read_text("utf-8").splitlines()]


def assert_true_ids(folder: Path, simulator: Simulator) -> list[dict]:
    """Every exported row trains exactly what the simulator emitted, and its prompt has the billed length."""
    emitted, rows = simulator.emitted(), exported(folder)
    for row in rows:
        truth = emitted[row["metadata"]["generation_id"]]
        prompt = len(row["input_ids"]) - sum(row["loss_mask"])
        assert row["input_ids"][prompt:] == truth["completion_ids"]
        assert row["loss_mask"] == [0] * prompt + [1] * len(truth["completion_ids"])
        assert prompt == truth["prompt_tokens"] == row["metadata"]["prompt_tokens"]
    return rows
