"""Compare what corrections gain with all layers trained and with a head, paired by seed.

    python benchmarks/fine_tuning.py docs/images > docs/results/fine_tuning_compared.csv

The gain of a method is its difference to CL at its setting (docs/protocols/fine_tuning.md). The
difference of both gains has a p value, with Holm's correction over the methods of a collection and
a measurement, and one of equivalence within a point. The figure fine_tuning shows the gains.
"""

import sys
from pathlib import Path

import pandas as pd

from trueneg.report.drawing import add_legend, dots, finish, in_style, line_styles, save
from trueneg.report.plots import facets, forest
from trueneg.stats.comparison import holm, outcome, paired_differences, subtracted
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import COLUMNS as TIDY

RESULTS = Path(__file__).parents[1] / "docs/results"
HEAD, ALL = "a head", "all layers"
# names of the committed results
COLLECTIONS = {"CLINC150": {HEAD: "fine_tuning_head", ALL: "fine_tuning"}}
METHODS = ["Hardness", "Guided-MiniLM", "Guided-EMA", "Oracle"]
MEASURES = {
    "5-NN accuracy": Measurement("knn", "accuracy", "seen"),
    "nDCG@10": Measurement("retrieval", "nDCG", "seen", k=10),
    "linear probe": Measurement("linear probe", "accuracy", "seen"),
}
MARGIN = 0.01
GAINS = {"mean": f"gain with {ALL}", "baseline mean": f"gain with {HEAD}"}
SHOWN = ["collection", "measured", "method", "seeds", *GAINS.values(), "difference", "low", "high"]
SHOWN += ["p", "p Holm", "p equivalence", "p equivalence Holm", "outcome"]


def gains() -> pd.DataFrame:
    """Return the gains by seed in tidy rows, whose objective is what was trained."""
    tables = []
    for collection, files in COLLECTIONS.items():
        for trained, name in files.items():
            rows = pd.read_csv(RESULTS / f"{name}.csv").reindex(columns=TIDY)
            rows = rows.assign(study=collection, run="")[rows["split"] == "test"]
            for method in METHODS:
                of_method = subtracted(rows, method, f"CL-as-{method}")
                tables.append(of_method.assign(objective=trained, method=method))
    return pd.concat(tables)


def compared() -> pd.DataFrame:
    """Return one row per collection, measurement and method."""
    tables = []
    for collection, rows in gains().groupby("study", sort=False):
        for name, measured in MEASURES.items():
            of_task = measured.rows_of(rows)
            by_method = of_task.groupby("method", sort=False)
            table = pd.concat(
                paired_differences(part.drop(columns="method"), HEAD, [ALL], {measured: MARGIN})
                for _, part in by_method
            ).assign(collection=collection, measured=name, method=METHODS)
            for p in ("p", "p equivalence"):
                table[f"{p} Holm"] = holm(table[p])
            tested = table[["difference", "p Holm", "p equivalence Holm"]].to_numpy()
            tables.append(table.assign(outcome=[outcome(*values) for values in tested]))
    return pd.concat(tables).rename(columns=GAINS)[SHOWN]


def with_intervals() -> pd.DataFrame:
    """Return the gains of each study with their intervals, as its own tables have them."""
    tables = []
    for collection, files in COLLECTIONS.items():
        for trained, name in files.items():
            table = pd.read_csv(RESULTS / f"{name}_contrasts.csv")
            gained = table[table["baseline"] == "CL-as-" + table["objective"]]
            for task, measured in MEASURES.items():
                of_task = measured.rows_of(gained).assign(measured=f"{collection}: {task}")
                tables.append(of_task.assign(trained=trained))
    return pd.concat(tables).rename(columns={"difference low": "low", "difference high": "high"})


@in_style()
def draw(path: Path) -> None:
    styles = line_styles([HEAD, ALL])
    figure, panels = facets(
        with_intervals(),
        "measured",
        size=(3.6, 2.2),
        title="{}",
        xlabel="Gain over CL (points)",
    )
    for plot, _, part in panels:
        plot.axvline(0, color="0.1", linewidth=1)
        drawn = {"row": "objective", "y": "difference", "factor": 100, "apart": 6}
        forest(plot, part, styles, "trained", METHODS, **drawn)
    add_legend(figure, dots(styles))
    finish(
        figure,
        "Gains over CL at the method's setting, on test texts of the same labels and seeds."
        " Bars: 95 % paired t intervals over seeds, not corrected.",
    )
    save(figure, path, "What corrections gain with a head and with all layers trained")


def main() -> None:
    print(compared().to_csv(index=False, float_format="%.6g"), end="")
    draw(Path(sys.argv[1]) / "fine_tuning")


if __name__ == "__main__":
    main()
