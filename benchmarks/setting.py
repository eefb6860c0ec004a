"""Summarise pilot studies of a setting: the best temperature of each objective, and how much an
hour of training can show.

    snakemake rows --configfile config/studies/tuned_baseline_setting.yaml
    python benchmarks/setting.py results/tuned_baseline_width_*
    snakemake rows --configfile config/studies/digits_pilot.yaml
    python benchmarks/setting.py results/digits_pilot --seeds 6

Headroom: the primary measurement of the oracle minus that of the baseline on the test split, each
at the temperature with the largest mean on the validation split. Standard deviation: that of the
paired difference at equal temperatures, pooled over all. The ratio is headroom / (standard
deviation · √ hours per run): the test statistic that a fixed time buys, up to a factor. Power: that
of a two-sided paired t test at 5 % with --seeds seeds, from the headroom and its own standard
deviation over seeds.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import stats

from trueneg.report.gathered import Gathered


def measured(gathered):
    """Return the primary measurement by objective and temperature (rows), and split and seed
    (columns).
    """
    rows = gathered.primary.rows_of(gathered.variants)
    temperature = rows["condition"].map(lambda text: json.loads(text)["temperature"])
    return rows.assign(t=temperature).pivot_table(
        index=["objective", "t"], columns=["split", "seed"], values="value"
    )


def power(gain, seeds):
    """Return the power of a two-sided paired t test at 5 % with this many seeds, if the pilot's
    differences are the truth.
    """
    noncentrality = np.sqrt(seeds) * abs(gain.mean()) / gain.std(ddof=1)
    critical = stats.t.ppf(0.975, seeds - 1)
    return stats.nct.sf(critical, seeds - 1, noncentrality)  # the other tail is negligible


def described(gathered, values, seeds):
    """Return a study's hours per run, headroom with its standard error, standard deviation, ratio
    and power.
    """
    primary, best = gathered.study.primary, chosen(values)
    oracle, baseline = (
        values.loc[(name, best[name]), "test"] for name in (primary.oracle, primary.baseline)
    )
    paired = values.loc[primary.oracle, "test"] - values.loc[primary.baseline, "test"]
    deviation = np.sqrt(paired.var(axis="columns", ddof=1).mean())
    seconds = [run["seconds"] for run in json.loads((gathered.folder / "runs.json").read_text())]
    gain, hours = (oracle - baseline), np.mean(seconds) / 3600
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    return (
        hours,
        gain.mean(),
        error,
        deviation,
        gain.mean() / (deviation * np.sqrt(hours)),
        power(gain, seeds),
    )


def chosen(values):
    """Return the temperature of each objective with the largest mean on the validation split."""
    means = values["validation"].mean(axis="columns").unstack()
    return means.idxmax(axis="columns")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", type=Path, nargs="+", help="results folder of a study")
    parser.add_argument(
        "--seeds", type=int, default=12, help="seeds of the study that the power is computed for"
    )
    arguments = parser.parse_args()
    studies = [(folder.name, Gathered(folder / "artefacts")) for folder in arguments.study]
    table = [(name, gathered, measured(gathered)) for name, gathered in studies]
    print(
        "| study | seconds per run | headroom (points) | standard error | standard deviation |"
        " ratio | power |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, gathered, values in table:
        hours, gain, error, deviation, ratio, found = described(gathered, values, arguments.seeds)
        numbers = (
            f"{100 * gain:+.2f} | {100 * error:.2f} | {100 * deviation:.2f} | {ratio:.2f} |"
            f" {found:.3f}"
        )
        print(f"| {name} | {3600 * hours:.0f} | {numbers} |")
    for name, _, values in table:
        best, means = chosen(values), 100 * values["validation"].mean(axis="columns").unstack()
        print(f"\n{name}: mean on the validation split by temperature (%); bold: chosen\n")
        print(f"| objective | {' | '.join(f'{t:g}' for t in means.columns)} |")
        print(f"|---|{'--:|' * means.shape[1]}")
        for objective, row in means.iterrows():
            cells = (
                f"**{value:.1f}**" if t == best[objective] else f"{value:.1f}"
                for t, value in row.items()
            )
            print(f"| {objective} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
