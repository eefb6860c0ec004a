"""Print the smallest difference that a number of seeds detects, from the committed rows of a pilot
on two seeds.

    python benchmarks/power.py evidence/tuned_baseline_small.tar.xz --pilot 100 101 --seeds 12

Standard deviation of a paired difference: a seed shifts all objectives alike, so a configuration's
change from one pilot seed to the other has, over the configurations, the variance of the difference
between two configurations. Detected: by a two-sided paired t test with a power of 80 %, at 5 % and
at Holm's first step among --tests tests. The measurement is the primary one of
tuned_baseline_small.yaml.
"""

import argparse
from pathlib import Path

import pandas as pd
from statsmodels.stats.power import tt_solve_power

from trueneg.store.archive import read_archive

MEASURED = {
    "task": "linear probe",
    "metric": "accuracy",
    "labels": "all",
    "fraction": 0.1,
    "split": "test",
}


def measured(rows, seed):
    """Return the test accuracy of every configuration that has rows of this seed."""
    is_measured = (rows[list(MEASURED)] == pd.Series(MEASURED)).all(axis="columns")
    kept = rows[is_measured & rows["group"].isna() & (rows["seed"] == seed)]
    return kept.set_index(["objective", "variant"])["value"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archive", type=Path, help="exported study")
    parser.add_argument("--pilot", type=int, nargs=2, required=True, metavar="SEED")
    parser.add_argument("--seeds", type=int, required=True, help="seeds of the comparison")
    parser.add_argument("--tests", type=int, default=6, help="tests that share Holm's correction")
    arguments = parser.parse_args()
    rows = read_archive(arguments.archive).rows()
    first, second = (measured(rows, seed) for seed in arguments.pilot)
    changes = (first - second).dropna()
    deviation = changes.std()
    print(
        f"standard deviation of a paired difference: {100 * deviation:.2f} points, over"
        f" {len(changes)} configurations"
    )
    for level in (0.05, 0.05 / arguments.tests):
        effect = tt_solve_power(nobs=arguments.seeds, alpha=level, power=0.8)
        print(
            f"detected by {arguments.seeds} seeds at {100 * level:.2g} %:"
            f" {100 * deviation * effect:.2f} points"
        )


if __name__ == "__main__":
    main()
