"""Draw what corrections gain with few labels per run and with many, from the committed comparisons.

    python benchmarks/label_cells.py docs/images/few_labels_cells

Rows are the cells of config/studies/few_labels.yaml with their share of false negatives. Left, the
difference from CL at its own temperature; right, from CL at the method's. Bars are 95 % paired t
intervals over 16 seeds, not corrected.
"""

import sys
from pathlib import Path

import pandas as pd

from trueneg.report.drawing import add_legend, dots, finish, in_style, line_styles, save
from trueneg.report.plots import facets, forest

RESULTS = Path(__file__).parents[1] / "docs/results"
# name and share of false negatives
CELLS = {
    "few_labels_8": "8 labels: 12 %",
    "few_labels": "24 labels: 4 %",
    "few_labels_48": "48 labels: 2 %",
    "few_labels_tail": "8 labels, long tail: 20 %",
    "few_labels_dropout": "8 labels, dropout: 12 %",
}
METHODS = {
    "Oracle": "CL-as-Oracle",
    "DCL-frequency": "CL-as-DCL",
    "HCL-frequency": "CL-as-HCL",
    "Guided-EMA": "CL-as-Guided",
}


def compared() -> pd.DataFrame:
    """Return the differences in 5-NN accuracy of all cells and methods, from both baselines."""
    tables = [
        pd.read_csv(RESULTS / f"{name}_contrasts.csv").assign(cell=cell)
        for name, cell in CELLS.items()
    ]
    table = pd.concat(tables)
    table = table[(table["task"] == "knn") & table["group"].isna()]
    panels = []
    for over, baselines in (
        ("CL at its own temperature", dict.fromkeys(METHODS, "CL")),
        ("CL at the method's temperature", METHODS),
    ):
        is_shown = table["baseline"] == table["objective"].map(baselines)
        panels.append(table[is_shown].assign(over=over))
    shown = {"difference low": "low", "difference high": "high"}
    return pd.concat(panels).rename(columns=shown)


@in_style()
def main() -> None:
    table = compared()
    styles = line_styles(METHODS)
    figure, panels = facets(
        table,
        "over",
        size=(4.4, 3.6),
        title="Over {}",
        xlabel="Difference in 5-NN accuracy (points)",
    )
    limits = 100 * table["low"].min() - 0.1, 100 * table["high"].max() + 0.1
    for plot, _, part in panels:
        plot.axvline(0, color="0.1", linewidth=1)
        forest(
            plot,
            part,
            styles,
            "objective",
            [*CELLS.values()],
            row="cell",
            y="difference",
            factor=100,
            apart=8,
        )
        plot.set_xlim(limits)
    add_legend(figure, dots(styles))
    finish(
        figure,
        "BANKING77, frozen MiniLM with a head; rows: labels per run and share of false negatives."
        " Bars: 95 % paired t intervals over 16 seeds, not corrected. A method gains in a cell only"
        " if it is better in both panels.",
    )
    save(figure, sys.argv[1], "From few labels to many")


if __name__ == "__main__":
    main()
