"""Draw how many mined hard negatives are false, and what mining gains, from the committed results.

    python benchmarks/hard_negatives.py docs/images

Of each collection with mined hard negatives: hard_negatives_ranks, the share of false ones among
the nearest; and hard_negatives_gains, the difference in MAP of each filter from CL, at its own
temperature and at the filter's. Bars are 95 % paired t intervals over 16 seeds, not corrected.
"""

import sys
from pathlib import Path

import pandas as pd

from trueneg.report.drawing import add_legend, dots, finish, in_style, line_styles, save
from trueneg.report.plots import Axis, draw_intervals, facets, forest, set_ticks

RESULTS = Path(__file__).parents[1] / "docs/results"
COLLECTIONS = {
    "hard_negatives": "BANKING77",
    "hard_negatives_medquad": "MedQuAD",
}
# hard negatives, and CL at their temperature
FILTERS = {
    "Unfiltered": "CL-as-Unfiltered",
    "Window": "CL-as-Window",
    "Relative": "CL-as-Relative",
    "Oracle": "CL-as-Oracle",
}
BASELINES = ("CL", "CL at the same temperature")


def compared() -> pd.DataFrame:
    """Return the differences in MAP over both baselines."""
    table = pd.concat(
        pd.read_csv(RESULTS / f"{name}_contrasts.csv").assign(collection=collection)
        for name, collection in COLLECTIONS.items()
    )
    judged = table["labels"].eq("seen by label").groupby(table["collection"]).transform("any")
    is_judged = table["labels"] == judged.map({True: "seen by label", False: "seen"})
    table = table[(table["metric"] == "MAP") & is_judged]
    parts = []
    for over, baselines in zip(BASELINES, (dict.fromkeys(FILTERS, "CL"), FILTERS), strict=True):
        is_shown = table["baseline"] == table["objective"].map(baselines)
        parts.append(table[is_shown].assign(over=over))
    shown = {"difference low": "low", "difference high": "high"}
    return pd.concat(parts).drop_duplicates(["collection", "contrast"]).rename(columns=shown)


@in_style()
def draw_gains(path: Path) -> None:
    styles = line_styles(BASELINES)
    figure, panels = facets(
        compared(), "collection", size=(3.6, 2.2), title="{}", xlabel="Difference in MAP (points)"
    )
    for plot, _, part in panels:
        plot.axvline(0, color="0.1", linewidth=1)
        names = [*FILTERS]
        forest(
            plot, part, styles, "over", names, row="objective", y="difference", factor=100, apart=6
        )
    add_legend(figure, dots(styles))
    finish(
        figure,
        "Differences of hard negatives with in-batch negatives from in-batch negatives alone (CL)."
        " Bars: 95 % paired t intervals over 16 seeds, not corrected. A filter gains only if both"
        " are better.",
    )
    save(figure, path, "What mined hard negatives gain")


@in_style()
def draw_ranks(path: Path) -> None:
    table = pd.read_csv(RESULTS / "hard_negatives_ranks.csv")
    table = table.assign(collection=table["study"].map(COLLECTIONS), all="")
    styles = line_styles([*COLLECTIONS.values()])
    figure, [(plot, _, part)] = facets(
        table, "all", size=(5.0, 3.0), ylabel="False negatives among them (%)"
    )
    draw_intervals(plot, part, styles, "collection", x="ranks", y="share", factor=100, band=True)
    set_ticks(plot, sorted(part["ranks"].unique()), Axis("Number of the nearest texts", True))
    plot.set_ylim(bottom=0)
    add_legend(figure, styles)
    finish(
        figure,
        "Share of the nearest training texts, by the frozen MiniLM, that are right answers by their"
        " label. Bands: from the smallest to the largest share of 16 draws of labels.",
    )
    save(figure, path, "How many mined hard negatives are false")


def main() -> None:
    images = Path(sys.argv[1])
    draw_ranks(images / "hard_negatives_ranks")
    draw_gains(images / "hard_negatives_gains")


if __name__ == "__main__":
    main()
