"""Whether the message about a locked folder names its owner and tells a living one from a dead one."""

import os
import socket
import subprocess
import sys

import pytest

from trueneg.planning.folder_lock import LOCKS, OWNER, describe_lock, record_owner


@pytest.fixture(autouse=True)
def locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOCKS.mkdir(parents=True)
    lock = LOCKS / "0.input.lock"
    lock.write_text("results/index.html\n")
    return lock


def test_a_living_owner_is_named_and_its_lock_is_to_stay():
    record_owner()
    assert f"process {os.getpid()} on {socket.gethostname()} is using this folder" in describe_lock()
    assert "Do not unlock" in describe_lock()


def test_a_dead_owner_is_named_and_its_lock_may_be_removed(locked):
    code = "from trueneg.planning.folder_lock import record_owner; record_owner()"
    ended = subprocess.Popen([sys.executable, "-c", code])
    ended.wait()
    assert f"process {ended.pid} on {socket.gethostname()} was killed" in describe_lock()
    locked.unlink()
    assert describe_lock() == ""


def test_another_process_with_the_number_of_the_owner_is_not_the_owner():
    OWNER.write_text(f"{os.getpid()} 1.0 {socket.gethostname()}")
    assert "was killed" in describe_lock()


def test_of_an_owner_on_another_machine_only_its_place_is_known():
    OWNER.write_text(f"{os.getpid()} 1.0 elsewhere")
    assert f"process {os.getpid()} on elsewhere locked this folder" in describe_lock()
    assert "only if" in describe_lock()


def test_the_record_of_an_earlier_owner_says_nothing_about_a_newer_lock(locked):
    assert describe_lock() == ""
    record_owner()
    newer = OWNER.stat().st_mtime_ns + 1
    os.utime(locked, ns=(newer, newer))
    assert describe_lock() == ""
