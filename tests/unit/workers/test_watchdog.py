"""A deaf worker is told to connect again; a busy or idle one is left alone."""

from dataclasses import dataclass

import pytest

from workers.watchdog import Watchdog


@dataclass
class Load:
    concurrency: int = 10
    in_flight: int = 0
    started: int = 0


class Scene:
    def __init__(self) -> None:
        self.now, self.load, self.reconnects = 0.0, Load(), 0
        self.watchdog = Watchdog(self.load, self.reconnect, deaf_seconds=15, clock=lambda: self.now)

    def reconnect(self) -> None:
        self.reconnects += 1

    def check(self, depth: int) -> bool:
        return self.watchdog.suspicious and self.watchdog.look(depth)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_silence_with_a_full_queue_makes_it_connect_again_once(scene) -> None:
    scene.now = 16
    assert scene.check(depth=5)
    assert not scene.check(depth=5)
    assert scene.reconnects == 1
    scene.now = 40
    assert scene.check(depth=5)


def test_silence_with_an_empty_queue_is_peace(scene) -> None:
    scene.now = 100
    assert not scene.check(depth=0)
    scene.now = 110
    assert not scene.check(depth=5)
    assert scene.reconnects == 0


def test_a_worker_that_gets_something_is_not_deaf(scene) -> None:
    for second in range(0, 100, 10):
        scene.now, scene.load.started = second, second
        assert not scene.check(depth=1000)


def test_a_full_worker_is_not_deaf(scene) -> None:
    scene.load.in_flight = 10
    for second in range(0, 100, 10):
        scene.now = second
        assert not scene.check(depth=1000)
