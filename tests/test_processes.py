"""Several processes, asked for by a script that means nothing when it is run again."""

import subprocess
import sys

SCRIPT = """
import math
from trueneg.processes import process_pool

if __name__ != "__main__":
    raise RuntimeError("the script was run again")
with process_pool(2) as pool:
    print(list(pool.map(math.sqrt, [1.0, 4.0, 9.0])))
print(__file__)
"""


def test_the_processes_do_not_run_the_script_that_asks_for_them(tmp_path):
    path = tmp_path / "job.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["[1.0, 2.0, 3.0]", str(path)], done.stderr
