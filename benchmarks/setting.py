"""Which setting can tell most about false negatives per hour, from finished studies that differ in it.

    snakemake rows --configfile config/studies/tuned_baseline_setting.yaml
    python benchmarks/setting.py results/tuned_baseline_width_*

Headroom: the primary measurement of the oracle minus that of the baseline on the test split, each at the temperature with the
largest mean on the validation split. Standard deviation: of the paired difference at equal temperatures, pooled over them.
The ratio is headroom / (standard deviation · √ hours per run): the test statistic that a fixed time buys, up to a factor.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from trueneg.report.gathered import Gathered


def described(folder):
    """Return a study's hours per run, chosen temperatures, headroom with its standard error, standard deviation, and ratio."""
    gathered = Gathered(folder / "artefacts")
    rows, primary = gathered.primary.rows_of(gathered.variants), gathered.study.primary
    temperature = rows["condition"].map(lambda text: json.loads(text)["temperature"])
    values = rows.assign(t=temperature).pivot_table(index=["objective", "t"], columns=["split", "seed"], values="value")
    best = {name: values.loc[name, "validation"].mean(axis="columns").idxmax() for name in (primary.oracle, primary.baseline)}
    oracle, baseline = (values.loc[(name, t), "test"] for name, t in best.items())
    paired = values.loc[primary.oracle, "test"] - values.loc[primary.baseline, "test"]
    deviation = np.sqrt(paired.var(axis="columns", ddof=1).mean())
    seconds = [run["seconds"] for run in json.loads((gathered.folder / "runs.json").read_text())]
    gain, hours = (oracle - baseline), np.mean(seconds) / 3600
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    return hours, best, gain.mean(), error, deviation, gain.mean() / (deviation * np.sqrt(hours))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", type=Path, nargs="+", help="results folder of a study")
    print("| study | seconds per run | temperatures | headroom (points) | standard error | standard deviation | ratio |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for folder in parser.parse_args().study:
        hours, best, gain, error, deviation, ratio = described(folder)
        chosen = ", ".join(f"{name} {t:g}" for name, t in best.items())
        numbers = f"{100 * gain:+.2f} | {100 * error:.2f} | {100 * deviation:.2f} | {ratio:.2f}"
        print(f"| {folder.name} | {3600 * hours:.0f} | {chosen} | {numbers} |")


if __name__ == "__main__":
    main()
