"""Keeps one child for a run, and ends it when the run is gone, whatever killed the run.

    python -m eagle3gen.local.keeper '{"lifeline": FD, "argv": […], "polite": 15, "grace": 10, "unroot": false}'

The run holds the write end of a pipe; when it closes, the run is gone. The keeper lives in a session of its own, so
neither Ctrl-C nor a kill of the run's process group reaches it. Signals sent to the keeper go on to the child.
Standard library only, so that it starts quickly and stays small.
"""

import ctypes
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from eagle3gen.local import unroot

FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_PR_SET_PDEATHSIG = 1
EXEC_FAILED = 127


@dataclass(frozen=True)
class Order:
    """What to keep, and how to end it."""

    lifeline: int
    argv: list[str]
    polite: int
    """The signal that asks the child to end."""
    grace: float
    """Seconds until it is killed."""
    unroot: bool = False


def keep(order: Order) -> int:
    """Run the child to its end; its exit status, or 128 + the signal that ended it."""
    os.set_inheritable(order.lifeline, False)  # noqa: FBT003  positional by its signature
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    child = 0

    def forward(number: int, _frame: object) -> None:
        if child:
            os.kill(child, number)

    for number in FORWARDED:
        signal.signal(number, forward)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = os.fork()
    if child == 0:
        _become(order)
    kill_at: float | None = None
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        watched = [wake_read] if kill_at is not None else [wake_read, order.lifeline]
        ready, _, _ = select.select(watched, [], [], 1.0 if kill_at is None else 0.05)
        if wake_read in ready:
            os.read(wake_read, 512)
        if order.lifeline in ready and not os.read(order.lifeline, 1):
            os.kill(child, order.polite)
            kill_at = time.monotonic() + order.grace
        if kill_at is not None and time.monotonic() > kill_at:
            os.kill(child, signal.SIGKILL)


def _become(order: Order) -> NoReturn:
    """In the child: die with the keeper, drop root if told, and become the program."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (*FORWARDED, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        if order.unroot:
            unroot.become_nobody()
        if sys.platform.startswith("linux"):
            # After the change of user, which would reset it.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, order.polite, 0, 0, 0)
        os.execv(order.argv[0], order.argv)  # noqa: S606  a program, not a shell, is what is kept
    except OSError as error:
        sys.stderr.write(f"cannot start {order.argv[0]}: {error.strerror}\n")
        sys.stderr.flush()
    os._exit(EXEC_FAILED)


if __name__ == "__main__":
    sys.exit(keep(Order(**json.loads(sys.argv[1]))))
