"""Compare methods in every family of tasks of the text studies, from the evidence.

    python benchmarks/other_tasks.py evidence/banking77_tuned.tar.xz \
        evidence/clinc150_tuned.tar.xz evidence/banking77_finetune.tar.xz

docs/results/other_tasks.csv is its output.

A study names one primary measurement; this table says whether the others agree. Rows are paired
differences of confirming seeds on held-out texts of the training labels, with 95 % t intervals over
the seeds, not corrected for multiple comparisons.
"""

import sys
from pathlib import Path

import pandas as pd

from trueneg.stats.comparison import paired_differences
from trueneg.stats.measurement import Measurement
from trueneg.store.archive import read_archive

TASKS = {
    "5-NN accuracy": Measurement("knn", "accuracy", "seen"),
    "linear probe": Measurement("linear probe", "accuracy", "seen"),
    "nDCG@10": Measurement("retrieval", "nDCG", "seen", k=10),
    "R@1": Measurement("retrieval", "R", "seen", k=1),
    "MRR": Measurement("retrieval", "MRR", "seen"),
    "V-measure": Measurement("clustering", "V-measure", "seen"),
}
METHODS = (
    "Oracle",
    "SupCon",
    "Guided-EMA",
    "Guided-MiniLM",
    "Quantile",
    "DCL",
    "DCL-frequency",
    "ADNCE",
    "BCL",
    "HCL",
    "Hardness",
    "Sigmoid",
    "Global",
    "Random-removal",
    "Oracle-30-20",
    "Oracle-30-60",
    "Oracle-70-20",
    "Oracle-70-60",
)
CONTRASTS = {
    "CL": (*METHODS, "CL-same-scale"),
    "CL-same-scale": METHODS,
    "Random-removal": ("Oracle",),
    "untrained": ("CL", "CL-same-scale", "Oracle", "Guided-EMA", "Guided-MiniLM"),
}
COLUMNS = ["study", "measured", "contrast", "seeds", "difference", "low", "high", "p"]


def compared(path: Path) -> pd.DataFrame:
    """Return the differences of a study, of the seeds that its tuning did not use."""
    archive = read_archive(path)
    rows = archive.rows()
    rows = rows[(rows["split"] == "test") & (rows["seed"] >= 200)]
    tables = []
    for name, measured in TASKS.items():
        of_task = measured.rows_of(rows)
        for baseline, treatments in CONTRASTS.items():
            both = of_task[of_task["objective"].isin([baseline, *treatments])]
            if both["objective"].nunique() > 1:
                table = paired_differences(both, baseline)
                table["contrast"] = table["objective"] + f" − {baseline}"
                tables.append(table.assign(measured=name))
    return pd.concat(tables).assign(study=path.name.partition(".")[0])[COLUMNS]


def main() -> None:
    compared_all = pd.concat(compared(Path(path)) for path in sys.argv[1:])
    print(compared_all.to_csv(index=False, float_format="%.6g"), end="")


if __name__ == "__main__":
    main()
