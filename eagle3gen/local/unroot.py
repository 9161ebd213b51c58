"""Postgres refuses to run as root. As root it is run by another user who keeps one power: to pass closed doors.

The checkout, with the server's binaries and the data folder, may lie below a home that only root may enter. So the
child drops to `nobody` and keeps CAP_DAC_OVERRIDE as an ambient capability (capabilities(7)), which survives exec.
The secure bit NO_SETUID_FIXUP makes access(2), by which initdb looks for its sibling, see that capability too.
Standard library only: it runs between fork and exec.
"""

import ctypes
import os
import sys
from pathlib import Path

NOBODY = 65534
CAP_DAC_OVERRIDE = 1
CAP_SETPCAP = 8
_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP = 28, 1 << 2
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 47, 2
_CAPABILITY_VERSION_3 = 0x20080522


def needed() -> bool:
    """Whether this process is root."""
    return os.geteuid() == 0


def possible() -> bool:
    """Whether root here may do so: Linux, with the capabilities (containers can take them away)."""
    if not sys.platform.startswith("linux"):
        return False
    status = Path("/proc/self/status").read_text("ascii", "replace")
    held = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return all(int(held, 16) >> capability & 1 for capability in (CAP_DAC_OVERRIDE, CAP_SETPCAP))


def become_nobody() -> None:
    """Drop to uid and gid 65534, keeping CAP_DAC_OVERRIDE. Raises OSError. For a process about to exec."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0))
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    bit = 1 << CAP_DAC_OVERRIDE
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Two blocks of effective, permitted, inheritable; ours is in the lower one.
    data = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    _check(libc.capset(header, data))
    _check(libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0))


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
