"""One run at a time in a state directory, and a note of where its services are."""

import os
import stat
import subprocess
import sys

import pytest

from eagle3gen.errors import ConfigurationError, InputError, StateDirInUse
from eagle3gen.local import state_dir as module
from eagle3gen.local.state_dir import Addresses, StateDir, running

HOLD = (
    "import sys, time; from pathlib import Path; from eagle3gen.local.state_dir import StateDir;"
    "StateDir.lock(Path(sys.argv[1]), create=True); print('held', flush=True); time.sleep(60)"
)


@pytest.fixture
def holder(tmp_path):
    """Another process that owns the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_owner_is_refused_with_the_first_ones_process(tmp_path, holder) -> None:
    with pytest.raises(StateDirInUse, match=f"is in use by process {holder.pid}"):
        StateDir.lock(tmp_path, create=True)


def test_a_dead_owner_holds_nothing(tmp_path, holder) -> None:
    holder.kill()
    holder.wait()
    StateDir.lock(tmp_path, create=True).unlock()


def test_what_a_dead_owners_children_still_hold_is_waited_for_but_not_for_ever(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(module, "LEFTOVER_SECONDS", 0.3)
    held = StateDir.lock(tmp_path, create=True)
    os.pwrite(held.lock_fd, b"99999999", 0)
    with pytest.raises(StateDirInUse):
        StateDir.lock(tmp_path, create=True)
    held.unlock()


def test_readers_find_the_services_of_a_running_owner_and_nothing_afterwards(tmp_path) -> None:
    owner = StateDir.lock(tmp_path, create=True)
    addresses = Addresses(database_url="postgresql://x", redis_url="redis://y")
    owner.publish(addresses)
    assert running(tmp_path) == addresses
    owner.unlock()
    assert running(tmp_path) is None


def test_a_folder_without_a_ledger_is_told_apart(tmp_path) -> None:
    with pytest.raises(InputError, match="there is no ledger in"):
        running(tmp_path / "nothing")
    with pytest.raises(InputError, match="there is no ledger in"):
        StateDir.lock(tmp_path / "nothing", create=False)


@pytest.mark.parametrize("below", ["file/dir", "file"])
def test_a_place_that_cannot_be_one_is_refused(tmp_path, below) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot use"):
        StateDir.lock(tmp_path / below, create=True)


def test_passwords_are_kept_private_and_stay_the_same(tmp_path) -> None:
    owner = StateDir.lock(tmp_path / "new", create=True)
    secret = owner.secret("postgres.password")
    assert owner.secret("postgres.password") == secret
    assert owner.secret("valkey.password") != secret
    owner.publish(Addresses(database_url="d", redis_url=None))
    for path in (tmp_path / "new").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    owner.unlock()
