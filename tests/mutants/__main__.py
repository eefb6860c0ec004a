"""Mutation testing: change one line of a copy of the package, and run the tests nearest to it.

    python -m tests.mutants [PART OF A FILE'S NAME ...]

A mutation that no test notices survives. It needs a test, or a reason in mutants.yaml. Prints the
processor time. Exits with 1 if one survives without a reason, or a test is missing.
"""

import compileall
import gc
import os
import py_compile
import shutil
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis  # noqa: F401  imported once here, and not by every process that runs tests
import pandas  # noqa: F401
import pytest
import scipy.stats  # noqa: F401
import torch  # noqa: F401

from tests.mutants.listed import Mutant, mutants
from tests.projects import ROOT

SECONDS = 300  # a mutation may loop forever, which its tests notice


def run_tests(mutant: Mutant, package: Path) -> tuple[int, float]:
    """Run the tests of a mutation in another process, on the copy of the package; return its exit
    code and seconds of processor time.
    """
    process = os.fork()
    if process:
        _, status, usage = os.wait4(process, 0)
        return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    signal.alarm(SECONDS)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  until the process ends
    options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={package.parents[1]}/{process}"]
    options += ["-o", f"pythonpath={package.parent}"]
    os._exit(pytest.main([*options, *mutant.tests.split()]))


def main(parts: list[str]) -> int:
    sys.dont_write_bytecode = True  # it would hide a mutation
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.chdir(ROOT)
    bad = 0
    counts = Counter[str]()
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        package = Path(folder, "src/trueneg")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src/trueneg", package, ignore=ignored)
        # checked by content: a mutation may have the size and time of what it replaces
        by_content = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(package, quiet=1, invalidation_mode=by_content)
        gc.freeze()
        for mutant in mutants():
            if parts and not any(part in mutant.file for part in parts):
                continue
            path = package / mutant.file
            original = path.read_text(encoding="utf-8")
            path.write_text(mutant.applied(original), encoding="utf-8")
            code, seconds = run_tests(mutant, package)
            total += seconds
            path.write_text(original, encoding="utf-8")
            noticed = code in (1, -signal.SIGALRM)
            outcome = "noticed" if noticed else "SURVIVED" if code == 0 else f"NO TESTS ({code})"
            counts[outcome] += 1
            about = f"{mutant.file}: {mutant.becomes.strip()}  {mutant.reason}"
            print(f"{outcome} in {seconds:.0f} s: {about}", flush=True)
            bad += not noticed and not (code == 0 and mutant.reason)
    listed = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    print(f"{counts.total()} mutations in {total:.0f} s: {listed}")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
