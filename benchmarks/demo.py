"""Show where the time of a finished workflow went, by rule, from Snakemake's newest log.

    make demo
    python benchmarks/demo.py

Wall time counts while at least one job of the rule runs. Jobs run in parallel, so the column adds up to more than the total.
"""

import argparse
import re
from collections import defaultdict
from datetime import datetime
from pathlib import Path

STARTED = re.compile(r"^\[(.+)\]\n(?:local)?rule (\w+):\n(?:    .*\n)*?    jobid: (\d+)$", re.MULTILINE)
FINISHED = re.compile(r"^\[(.+)\]\nFinished jobid: (\d+)", re.MULTILINE)
TRAINED = ("train", "evaluate")


def jobs(log):
    """Return the rule, start and end (in seconds since 1970) of every finished job in the text of a log."""
    when = {number: _seconds(text) for text, number in FINISHED.findall(log)}
    return [(rule, _seconds(text), when[number]) for text, rule, number in STARTED.findall(log) if number in when]


def covered(spans):
    """Return the length of the union of intervals (start, end)."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _seconds(text):
    return datetime.strptime(text, "%a %b %d %H:%M:%S %Y").timestamp()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("log", nargs="?", type=Path, help="log of Snakemake; by default the newest in .snakemake/log")
    log = parser.parse_args().log or max(Path(".snakemake/log").glob("*.log"), key=lambda path: path.stat().st_mtime)
    found = jobs(log.read_text())
    by_rule = defaultdict(list)
    for rule, *span in found:
        by_rule[rule].append(span)
    print("| rule | jobs | job time (s) | wall (s) |")
    print("|---|--:|--:|--:|")
    for rule, spans in sorted(by_rule.items(), key=lambda item: -covered(item[1])):
        print(f"| {rule} | {len(spans)} | {sum(end - start for start, end in spans):.0f} | {covered(spans):.0f} |")
    total = max(end for _, _, end in found) - min(start for _, start, _ in found)
    trained = covered([(start, end) for rule, start, end in found if rule in TRAINED])
    print(f"\n{len(found)} jobs in {total:.0f} s; no training or evaluation ran for {total - trained:.0f} s of them.")


if __name__ == "__main__":
    main()
