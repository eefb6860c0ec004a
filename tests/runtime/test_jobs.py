"""A job that a signal ends is reported in a sentence, whichever process the signal reaches."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from trueneg.runtime.jobs import failed_jobs

SCRIPT = """
import ctypes, logging, os, signal, sys, time
from trueneg.runtime.jobs import job

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
print("before", end=" ")  # still in the buffer when the job starts
with job(sys.argv[1]):
    logging.getLogger("trueneg.work").info("epoch 7")
    print("at work", flush=True)
    match sys.argv[2]:
        case "SIGSEGV": ctypes.string_at(0)
        case "waits":
            for _ in range(6000): time.sleep(0.1)  # a signal just before a long sleep would be noticed after it
        case "exits": sys.exit(3)
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
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
    assert ('File "<string>", line' in logged) == (name in ("SIGSEGV", "SIGABRT"))  # the stack of a crash
    assert ("mem_mb" in logged) == (name == "SIGKILL")


@pytest.mark.parametrize(("ending", "code", "rest"), [("ends", 0, "after\n"), ("exits", 3, "")])
def test_a_job_ends_with_the_status_of_its_work_and_prints_everything_once(start, ending, code, rest):
    process, path = start(ending)
    assert process.communicate() == (BEGINNING + rest, "")
    assert process.returncode == code
    assert "epoch 7" in path.read_text()


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


TIME = "2026-11-24 12:00:00  "
CRASH = """Error: the job failed
    Traceback (most recent call last):
      File "a.py", line 1, in a
    KeyError: 'a'

    During handling of the above exception, another exception occurred:

    Traceback (most recent call last):
      File "b.py", line 2, in b
        b()
    RuntimeError: the device failed
    Compile with other options.
"""


SNAKEFILE = """
from trueneg.runtime.jobs import failed_jobs

rule all:
    input: "refused", "crashed", "killed", "lost", "retried"

for name in ("refused", "crashed", "killed", "lost"):
    rule:
        name: name
        output: name
        log: f"{name}.log"
        shell: "cp {output}.said {log}; exit 1"

rule retried:
    output: "retried"
    log: "retried.log"
    retries: 1
    shell: "cp crashed.said {log}; test -f tried || {{ touch tried; exit 1; }}; touch {output}"

onerror:
    Path("summary").write_text(failed_jobs(workflow.scheduler.failed))
"""


def test_the_summary_gives_the_error_of_each_job_that_failed_for_good(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "refused.said").write_text(f"{TIME}epoch 1\n{TIME}Error: table.csv: 2 problems.\n    line 2\n    line 7\n")
    (tmp_path / "crashed.said").write_text(f"{TIME}epoch 1\n{TIME}{CRASH}")
    (tmp_path / "killed.said").write_text(f"{TIME}epoch 3 of 9\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--keep-going"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 1
    title, *entries = (tmp_path / "summary").read_text().strip().split("\n")
    assert title == "Failed jobs:"
    summary = "\n".join(entries)
    assert "refused: table.csv: 2 problems.\n    line 2\n    line 7\n  Log: refused.log" in summary
    assert "crashed: RuntimeError: the device failed\n  Log: crashed.log" in summary
    assert "killed: ended without an error message; the last entry of its log is: epoch 3 of 9\n  Log: killed.log" in summary
    logs = [entry for entry in entries if entry.startswith("  Log: ")]
    assert len(logs) == 4
    assert logs == sorted(logs)
    assert "  Log: lost.log" in summary
    assert failed_jobs([]) == ""


def test_of_a_failed_group_the_summary_has_the_jobs_with_an_error(tmp_path):
    def job(name, content=None):
        path = tmp_path / f"{name}.log"
        if content is not None:
            path.write_text(f"{TIME}{content}\n")
        return SimpleNamespace(rule=SimpleNamespace(name=name), log=[str(path)], is_group=lambda: False)

    def group(*jobs):
        return SimpleNamespace(jobs=jobs, is_group=lambda: True)

    finished, failed, waiting = job("finished", "epoch 9 of 9"), job("draw_my-study.2", "Error: no space."), job("waiting")
    summary = failed_jobs([group(finished, failed, waiting)])
    assert summary.count("  Log: ") == 1
    assert f"draw_my-study.2: no space.\n  Log: {failed.log[0]}\n" in summary
    assert failed_jobs([group(finished, waiting)]).count("  Log: ") == 2
