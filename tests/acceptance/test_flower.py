"""Flower beside a run: its own pages know our workers and tasks."""

import json
import re
import socket
import time
import urllib.error
import urllib.request

from .conftest import flags


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def test_flower_shows_both_workers_and_finished_tasks(simulate, terminal, prompts) -> None:
    simulator = simulate("--latency", "1")
    running = terminal.start("run", prompts(200), *flags(simulator, "--short-concurrency", 10))
    until = time.monotonic() + 60
    while simulator.bill()["open"] == 0:
        assert time.monotonic() < until
        time.sleep(0.1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    terminal.start("flower", "--port", port)
    tasks: list[dict] = []
    # A task that had begun before Flower listened has no name there.
    while not any(task["state"] == "SUCCESS" and task["name"] for task in tasks):
        assert time.monotonic() < until
        time.sleep(0.5)
        query = "draw=1&start=0&length=50&order[0][column]=0&order[0][dir]=asc&columns[0][data]=name&search[value]="
        request = urllib.request.Request(f"http://127.0.0.1:{port}/tasks/datatable", data=query.encode())
        try:
            with urllib.request.urlopen(request, timeout=10) as reply:
                tasks = json.loads(reply.read())["data"]
        except (urllib.error.URLError, ConnectionError):
            continue
    page = fetch(f"http://127.0.0.1:{port}/workers")
    assert re.search(r"short-\d+@", page)
    assert re.search(r"long-\d+@", page)
    named = [task for task in tasks if task["name"]]
    assert {task["name"] for task in named} == {"eagle3gen.generate"}
    assert all(re.fullmatch(r"\[\d+\]", task["args"]) for task in named)
    running.terminate()
    terminal.wait(running)
