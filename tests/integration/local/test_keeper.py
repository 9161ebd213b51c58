"""A kept child never outlives the run, whatever kills the run."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from eagle3gen.local.keeper import EXEC_FAILED

PLAIN = "import signal, sys, time\nopen(sys.argv[1], 'w').close()\ntime.sleep(60)"
STUBBORN = PLAIN.replace("open(", "signal.signal(signal.SIGTERM, lambda *_: None)\nopen(")


def until(condition: Callable[[], object], seconds: float = 10) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


class Kept:
    """A keeper with a child that says when it is there."""

    def __init__(self, folder: Path, code: str = PLAIN, *, argv=None, grace: float = 5.0) -> None:
        self.there = folder / "there"
        read_end, self.lifeline = os.pipe()
        order = {
            "lifeline": read_end,
            "argv": argv or [sys.executable, "-c", code, str(self.there)],
            "polite": int(signal.SIGTERM),
            "grace": grace,
        }
        self.keeper = subprocess.Popen(
            [sys.executable, "-m", "eagle3gen.local.keeper", json.dumps(order)],
            pass_fds=(read_end,), start_new_session=True, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        os.close(read_end)

    def child(self) -> psutil.Process:
        until(self.there.exists)
        (child,) = psutil.Process(self.keeper.pid).children()
        return child

    def close(self) -> None:
        if self.lifeline >= 0:
            os.close(self.lifeline)
            self.lifeline = -1


@pytest.fixture
def keep(tmp_path):
    made = []

    def make(*args, **kwargs) -> Kept:
        made.append(Kept(tmp_path, *args, **kwargs))
        return made[-1]

    yield make
    for kept in made:
        kept.close()
        kept.keeper.wait(20)
        kept.keeper.stderr.close()


def test_the_child_ends_when_the_lifeline_is_let_go(keep) -> None:
    kept = keep()
    child = kept.child()
    kept.close()
    assert kept.keeper.wait(10) == 128 + signal.SIGTERM
    assert not child.is_running()


def test_a_stubborn_child_is_killed_after_its_grace(keep) -> None:
    kept = keep(STUBBORN, grace=0.5)
    child = kept.child()
    began = time.monotonic()
    kept.close()
    assert kept.keeper.wait(10) == 128 + signal.SIGKILL
    assert time.monotonic() - began < 4
    assert not child.is_running()


def test_signals_go_through_to_the_child(keep) -> None:
    kept = keep()
    kept.child()
    kept.keeper.send_signal(signal.SIGQUIT)
    assert kept.keeper.wait(10) == 128 + signal.SIGQUIT


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have no death signal")
def test_killing_the_keeper_ends_the_child_too(keep) -> None:
    kept = keep()
    child = kept.child()
    kept.keeper.kill()
    until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(7)", 7), ("pass", 0)])
def test_the_keeper_ends_as_its_child_did(keep, code, status) -> None:
    assert keep(code).keeper.wait(10) == status


def test_a_program_that_is_not_there_is_named(keep) -> None:
    kept = keep(argv=["/no/such/program"])
    assert kept.keeper.wait(10) == EXEC_FAILED
    assert "cannot start /no/such/program: No such file or directory" in kept.keeper.stderr.read()


def test_the_child_does_not_hold_the_lifeline(keep) -> None:
    """Or the keeper would wait for ever for its own child to let go."""
    code = (
        "import os, sys, time\n"
        "seen = [os.fstat(fd).st_ino for fd in range(64) if os.path.exists(f'/dev/fd/{fd}')]\n"
        "open(sys.argv[1], 'w').write(repr(seen))\ntime.sleep(60)"
    )
    kept = keep(code)
    kept.child()
    until(kept.there.read_text)
    assert str(os.fstat(kept.lifeline).st_ino) not in kept.there.read_text()
