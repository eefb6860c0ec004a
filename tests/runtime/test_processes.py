"""Worker processes of a script that must not run again in the workers."""

import signal
import subprocess
import sys
import time

import psutil

SCRIPT = """
import math
from trueneg.runtime.processes import map_in_processes

if __name__ != "__main__":
    raise RuntimeError("the script was run again")
print(list(map_in_processes(math.sqrt, [1.0, 4.0, 9.0], processes=2, chunksize=1)))
print(__file__)
"""


def test_workers_do_not_run_the_main_script(tmp_path):
    path = tmp_path / "job.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["[1.0, 2.0, 3.0]", str(path)], done.stderr


LONG_JOB = """
import time
from functools import partial
from trueneg.runtime.processes import map_in_processes

own_id = partial(eval, "__import__('os').getpid()")
process_ids = map_in_processes(own_id, [{}] * 50, processes=2, chunksize=1)
print(*{next(process_ids) for _ in range(49)}, flush=True)
time.sleep(600)
"""


def test_workers_end_when_their_parent_is_killed(tmp_path):
    path = tmp_path / "job.py"
    path.write_text(LONG_JOB)
    with subprocess.Popen([sys.executable, str(path)], stdout=subprocess.PIPE, text=True) as job:
        workers = [int(process) for process in job.stdout.readline().split()]
        job.send_signal(signal.SIGKILL)
    assert workers
    end = time.monotonic() + 120
    while any(_runs(process) for process in workers) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(_runs(process) for process in workers)


def _runs(process: int) -> bool:
    """Whether a process has not ended, even if nobody has waited for it yet."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
