"""The message about a locked folder names the owner of the lock and says whether that process still
runs.
"""

import os
import socket
import subprocess
import sys

import pytest

from trueneg.planning.folder_lock import (
    LOCKS,
    OWNERS,
    describe_lock,
    reason_not_to_unlock,
    record_owner,
)


@pytest.fixture(autouse=True)
def locked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    LOCKS.mkdir(parents=True)
    OWNERS.mkdir()
    lock = LOCKS / "0.input.lock"
    lock.write_text("results/index.html\n")
    return lock


def test_a_running_owner_is_named_and_keeps_its_lock():
    record_owner()
    assert (
        f"process {os.getpid()} on {socket.gethostname()} is using this folder" in describe_lock()
    )
    assert "Do not unlock" in describe_lock()
    assert f"process {os.getpid()} on" in reason_not_to_unlock()


def test_a_process_that_has_not_started_its_first_job_keeps_its_lock(tmp_path):
    """Between Snakemake's lock and the record of its owner, it plans jobs."""
    script = tmp_path / "snakemake"
    script.write_text("import sys; print(flush=True); sys.stdin.read()")
    command = [sys.executable, str(script)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as planning:
        planning.stdout.readline()
        assert f"process {planning.pid} on {socket.gethostname()}" in reason_not_to_unlock()
        assert f"process {planning.pid} on" in describe_lock()
        planning.stdin.close()
    assert reason_not_to_unlock() is None


def test_a_killed_owner_is_named_and_its_lock_may_be_removed(locked):
    code = "from trueneg.planning.folder_lock import record_owner; record_owner()"
    ended = subprocess.Popen([sys.executable, "-c", code])
    ended.wait()
    assert f"process {ended.pid} on {socket.gethostname()} was killed" in describe_lock()
    assert reason_not_to_unlock() is None
    locked.unlink()
    assert describe_lock() == ""


def test_a_running_owner_keeps_its_lock_after_another_one_was_killed(locked):
    record_owner()
    other = LOCKS / "1.input.lock"
    other.write_text("results/theory.html\n")
    code = "from trueneg.planning.folder_lock import record_owner; record_owner()"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert len(list(OWNERS.iterdir())) == 2
    assert f"process {os.getpid()} on" in describe_lock()
    assert "is using this folder" in reason_not_to_unlock()
    record_owner()
    (OWNERS / ".1.1").touch()  # of a process that is writing
    record_owner()
    assert [path.name.split("@")[0] for path in OWNERS.glob("[!.]*")] == [str(os.getpid())]


@pytest.mark.parametrize(
    ("host", "facts"),
    [
        (socket.gethostname(), ["was killed"]),
        ("elsewhere", ["on elsewhere locked this folder", "only if"]),
    ],
)
def test_a_process_with_the_id_but_not_the_start_or_host_of_the_owner_is_not_the_owner(host, facts):
    (OWNERS / "1").write_text(f"{os.getpid()} 1.0 {host}")
    assert all(fact in describe_lock() for fact in [f"process {os.getpid()}", *facts])
    assert (reason_not_to_unlock() is None) == (host == socket.gethostname())


def test_only_the_value_1_forces(monkeypatch):
    record_owner()
    monkeypatch.setenv("TRUENEG_FORCE_UNLOCK", "0")
    assert reason_not_to_unlock() is not None
    monkeypatch.setenv("TRUENEG_FORCE_UNLOCK", "1")
    assert reason_not_to_unlock() is None


def test_an_owner_recorded_before_the_lock_is_not_named(locked):
    assert (describe_lock(), reason_not_to_unlock()) == ("", None)
    record_owner()
    newer = next(OWNERS.iterdir()).stat().st_mtime_ns + 1
    os.utime(locked, ns=(newer, newer))
    assert describe_lock() == ""
