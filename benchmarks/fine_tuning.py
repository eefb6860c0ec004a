"""Compare what corrections gain with all layers trained and with a head, paired by seed.

    python benchmarks/fine_tuning.py > docs/results/fine_tuning_compared.csv

The gain of a method is its difference to CL at its setting (docs/protocols/fine_tuning.md). The
difference of both gains has a p value, with Holm's correction over the methods of a collection and
a measurement, and one of equivalence within a point.
"""

from pathlib import Path

import pandas as pd

from trueneg.stats.comparison import holm, outcome, paired_differences, subtracted
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import COLUMNS as TIDY

ROWS = Path(__file__).parents[1] / "docs/results/fine_tuning.csv"
HEAD, ALL = "head", "all layers"
TRAINED = {"frozen": HEAD, "fine_tuned": ALL}  # by how the names of studies begin
METHODS = ["Hardness", "Guided-MiniLM", "Guided-EMA", "Oracle"]
MEASURES = {
    "5-NN accuracy": Measurement("knn", "accuracy", "seen"),
    "nDCG@10": Measurement("retrieval", "nDCG", "seen", k=10),
    "linear probe": Measurement("linear probe", "accuracy", "seen"),
}
MARGIN = 0.01
GAINS = {"mean": "gain with all layers", "baseline mean": "gain with a head"}
SHOWN = ["collection", "measured", "method", "seeds", *GAINS.values(), "difference", "low", "high"]
SHOWN += ["p", "p Holm", "p equivalence", "p equivalence Holm", "outcome"]


def compared() -> pd.DataFrame:
    """Return one row per collection, measurement and method."""
    rows = pd.read_csv(ROWS).reindex(columns=TIDY)  # those of the csv are not empty
    named = rows["study"].str.extract(r"(?P<trained>fine_tuned|frozen)_(?P<collection>.+)")
    trained = named["trained"].map(TRAINED)
    rows = rows.assign(study=named["collection"], trained=trained, run="")
    rows = rows[rows["split"] == "test"]
    tables = []
    for collection, part in rows.groupby("study", sort=False):
        for name, measured in MEASURES.items():
            of_task = measured.rows_of(part)
            table = pd.concat([_differences(of_task, method, measured) for method in METHODS])
            table = table.assign(collection=collection, measured=name, method=METHODS)
            for p in ("p", "p equivalence"):
                table[f"{p} Holm"] = holm(table[p])
            tested = table[["difference", "p Holm", "p equivalence Holm"]].to_numpy()
            tables.append(table.assign(outcome=[outcome(*values) for values in tested]))
    return pd.concat(tables).rename(columns=GAINS)[SHOWN]


def _differences(rows: pd.DataFrame, method: str, measured: Measurement) -> pd.DataFrame:
    gains = [
        subtracted(part, method, f"CL-as-{method}").assign(objective=trained)
        for trained, part in rows.groupby("trained")
    ]
    return paired_differences(pd.concat(gains), HEAD, [ALL], {measured: MARGIN})


def main() -> None:
    print(compared().to_csv(index=False, float_format="%.6g"), end="")


if __name__ == "__main__":
    main()
