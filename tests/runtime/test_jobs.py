"""A job that a signal ends is reported in a sentence, whichever process the signal reaches."""

import re
import signal
import subprocess
import sys

import pytest

from trueneg.io.seals import seal

SCRIPT = """
import ctypes, logging, os, signal, sys, time
from trueneg.runtime.jobs import job

# Ignored where the tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("before", end=" ")  # still in the buffer when the job starts
with job(sys.argv[1]):
    logging.getLogger("trueneg.work").info("epoch 7")
    print("at work", flush=True)
    match sys.argv[2]:
        case "SIGSEGV": ctypes.string_at(0)
        case "waits":
            # A signal just before a long sleep would be noticed after it.
            for _ in range(6000): time.sleep(0.1)
        case "exits": sys.exit(3)
        case "MemoryError": raise MemoryError
        case "torch.OutOfMemoryError": raise type("OutOfMemoryError", (RuntimeError,), {})
        case name if name != "ends": os.kill(os.getpid(), signal.Signals[name])
print("after")
"""
BEGINNING = "before at work\n"


@pytest.fixture
def start(tmp_path):
    """Starts a job; returns its process and its log."""
    started = []

    def start(ending):
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "log"), ending]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        if ending == "waits":  # nothing follows, so nothing is lost in the buffer of this line
            assert process.stdout.readline() == BEGINNING
        return process, tmp_path / "log"

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"])
def test_a_death_by_signal_is_named_in_the_log_and_on_stderr(start, name):
    process, path = start(name)
    _, said = process.communicate()
    logged = path.read_text()
    assert process.returncode == 128 + signal.Signals[name]
    assert [line for line in said.splitlines() if name in line and str(path) in line]
    assert "epoch 7" in logged.splitlines()[0]
    assert name in logged.splitlines()[-1]
    # the stack of a crash
    assert ('File "<string>", line' in logged) == (name in ("SIGSEGV", "SIGABRT"))
    assert ("mem_mb" in logged) == (name == "SIGKILL")


@pytest.mark.parametrize(("ending", "code", "rest"), [("ends", 0, "after\n"), ("exits", 3, "")])
def test_a_job_ends_with_the_status_of_its_work_and_prints_everything_once(
    start, ending, code, rest
):
    process, path = start(ending)
    assert process.communicate() == (BEGINNING + rest, "")
    assert process.returncode == code
    assert "epoch 7" in path.read_text()


@pytest.mark.parametrize(
    ("ending", "remedy"),
    [
        ("MemoryError", "Out of memory: raise mem_mb in this job's section"),
        ("torch.OutOfMemoryError", "The GPU is out of memory: .* set device: cpu in this job's"),
    ],
)
def test_out_of_memory_is_one_sentence_with_the_remedy_for_this_memory(start, ending, remedy):
    process, path = start(ending)
    _, said = process.communicate()
    assert process.returncode == 1
    assert re.fullmatch(rf"{remedy} .*\. Log: {re.escape(str(path))}", said.strip())
    assert "Traceback" in path.read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_job_reaches_its_work(start, number):
    process, path = start("waits")
    process.send_signal(number)
    process.communicate()  # returns only when the work, which holds the pipes too, has ended
    assert process.returncode == 128 + number
    assert number.name in path.read_text().splitlines()[-1]


def test_the_work_ends_when_the_job_is_killed(start):
    process, path = start("waits")
    process.kill()
    process.communicate()
    assert f"(process {process.pid}) has ended" in path.read_text()


def test_a_job_does_not_start_with_a_damaged_input(tmp_path):
    results = tmp_path / "results"
    (results / "study").mkdir(parents=True)
    path = results / "study/rows.parquet"
    path.write_bytes(b"rows")
    script = (
        "import sys; from trueneg.runtime.jobs import job\n"
        "with job('log', ['results/study/rows.parquet']): print('at work')"
    )
    for content, expected in ((b"rows", 0), (b"ROWS", 1)):
        seal(results, [path])
        path.write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == expected
        assert ("at work" in done.stdout) == (expected == 0)
        assert ("rows.parquet was damaged or edited" in done.stderr) == (expected == 1)
