"""Kill a script in the middle of its work."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]


def kill_after(module: str, folder: Path, pattern: str, count: int) -> list[Path]:
    """Run `python -m MODULE FOLDER`, kill it when `count` files match the pattern, and return the
    files that match.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", module, folder], cwd=PROJECT, env=environment, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 300
    while len(list(folder.glob(pattern))) < count:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return list(folder.glob(pattern))
