"""Choose the setting of a tuned comparison of texts from pilot studies; only their validation split
is read.

    snakemake rows --configfile config/studies/banking77_setting.yaml
    python benchmarks/text_setting.py results/banking77_setting_*

A row is a study and a condition. CL and the oracle have the logit scale with the largest mean over
the seeds. The standard error of their difference is the standard deviation of the paired difference
at equal logit scales, pooled over these, by √seeds. Chosen is the row with the largest headroom /
standard error among those in which CL is above the untrained tower.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from trueneg.report.gathered import Gathered

COLUMNS = (
    "study",
    "condition",
    "CL − untrained",
    "its best scale",
    "the oracle's",
    "headroom",
    "standard error",
    "ratio",
)


def described(gathered):
    """Yield each condition of a study, with CL's gain over the untrained tower, both scales,
    headroom, and its standard error.
    """
    primary, rows = gathered.study.primary, gathered.primary.rows_of(gathered.variants)
    rows = rows[rows["split"] == "validation"]
    untrained = (
        rows[rows["objective"] == gathered.study.first_baseline].groupby("seed")["value"].first()
    )
    rows = rows.assign(scale=rows["variant"].map(lambda text: json.loads(text).get("logit_scale")))
    for condition, part in rows.groupby("condition"):
        by_scale = part.dropna(subset="scale").pivot_table(
            index=["objective", "scale"], columns="seed", values="value"
        )
        oracle, baseline = by_scale.loc[primary.oracle], by_scale.loc[primary.baseline]
        best = [side.mean(axis="columns").idxmax() for side in (baseline, oracle)]
        tuned = baseline.loc[best[0]], oracle.loc[best[1]]
        error = np.sqrt((oracle - baseline).var(axis="columns", ddof=1).mean() / by_scale.shape[1])
        yield condition, (tuned[0] - untrained).mean(), *best, (tuned[1] - tuned[0]).mean(), error


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("study", type=Path, nargs="+", help="results folder of a study")
    table = [
        (folder.name, *found)
        for folder in parser.parse_args().study
        for found in described(Gathered(folder / "artefacts"))
    ]
    eligible = [row for row in table if row[2] > 0]
    chosen = max(eligible, key=lambda row: row[5] / row[6], default=None)
    print(f"| {' | '.join(COLUMNS)} |\n|---|---|{'--:|' * (len(COLUMNS) - 2)}")
    for row in table:
        study, condition, gain, scale, of_oracle, headroom, error = row
        settings = ", ".join(f"{key} {value:g}" for key, value in json.loads(condition).items())
        numbers = (
            f"{100 * gain:+.2f}",
            f"{scale:g}",
            f"{of_oracle:g}",
            f"{100 * headroom:+.2f}",
            f"{100 * error:.2f}",
        )
        cells = [study, settings, *numbers, f"{headroom / error:.1f}"]
        print(f"| {' | '.join(f'**{cell}**' if row is chosen else cell for cell in cells)} |")
    if chosen is None:
        print("\nNo tuned CL is above the untrained tower: the comparison is not run.")


if __name__ == "__main__":
    main()
