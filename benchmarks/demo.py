"""Run the default studies as `make demo` does, in an empty folder, and print where the time goes.

python benchmarks/demo.py
python benchmarks/demo.py --config config/studies/theory.yaml
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def stages(results: Path) -> dict[str, list[float]]:
    """Return the wall seconds of each rule's jobs, from the timings that Snakemake writes."""
    seconds: dict[str, list[float]] = {}
    for file in sorted(results.rglob("timings/**/*.jsonl")):
        below = file.relative_to(
            next(folder for folder in file.parents if folder.name == "timings")
        )
        rule = below.parts[0].removesuffix(".jsonl")
        seconds.setdefault(rule, []).append(
            sum(json.loads(line)["s"] for line in file.read_text().splitlines())
        )
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=ROOT / "config/config.yaml")
    parser.add_argument("--cores", default="all")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "--snakefile",
            ROOT / "Snakefile",
            "--directory",
            folder,
            "--configfile",
            arguments.config.resolve(),
        ]
        began, before = time.perf_counter(), os.times()
        done = subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", arguments.cores, *map(str, command)],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        wall, after = time.perf_counter() - began, os.times()
        if done.returncode:
            sys.exit(done.stdout)
        processor = (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        jobs = re.search(r"^total +(\d+)$", done.stdout, flags=re.MULTILINE)[1]
        print(
            f"{jobs} jobs in {wall:.0f} s on {os.cpu_count()} cores, {processor:.0f} s of processor"
            " time\n"
        )
        print("| rule | jobs | seconds of all its jobs |\n|---|--:|--:|")
        for rule, seconds in sorted(
            stages(Path(folder) / "results").items(), key=lambda item: -sum(item[1])
        ):
            print(f"| {rule} | {len(seconds)} | {sum(seconds):.0f} |")
        answers = [line for line in done.stdout.splitlines() if re.match(r"\w+: .*\.$", line)]
        print("\n" + "\n".join(answers))


if __name__ == "__main__":
    main()
