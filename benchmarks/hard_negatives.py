"""Draw how many mined hard negatives are false, and what mining gains, from the committed results.

    python benchmarks/hard_negatives.py docs/images

Of each collection with mined hard negatives: hard_negatives_ranks, the share of false ones among
the nearest; and hard_negatives_gains, the difference in MAP of each filter from CL, at its own
temperature and at the filter's. Bars are 95 % paired t intervals over 16 seeds, not corrected.

Prints what a recommended filter would lose against the best one of a collection: the best one of
the other collection with the most similar share of false negatives, of all others, or of all.
"""

import sys
from pathlib import Path

import pandas as pd

from trueneg.report.drawing import add_legend, dots, finish, in_style, line_styles, save
from trueneg.report.plots import Axis, draw_intervals, facets, forest, set_ticks

RESULTS = Path(__file__).parents[1] / "docs/results"
COLLECTIONS = {
    "hard_negatives": "BANKING77",
    "hard_negatives_clinc150": "CLINC150",
    "hard_negatives_medquad": "MedQuAD",
}
# hard negatives, and CL at their temperature
FILTERS = {
    "Unfiltered": "CL-as-Unfiltered",
    "Window": "CL-as-Window",
    "Relative": "CL-as-Relative",
    "Oracle": "CL-as-Oracle",
}
MINED = ("Unfiltered", "Window", "Absolute", "Relative")
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


def regrets() -> pd.DataFrame:
    """Return the MAP that each rule loses against the best filter, by collection."""
    means = pd.DataFrame({name: mean_of_filters(name) for name in COLLECTIONS}).T
    losses = means.rsub(means.max(axis=1), axis=0)
    shares = shares_of_nearest()
    found = {}
    for name, collection in COLLECTIONS.items():
        others = losses.drop(name)
        similar = (shares[others.index] - shares[name]).abs().idxmin()
        rules = {
            "best of the most similar share": others.loc[similar].idxmin(),
            "best of all others": others.mean().idxmin(),
            "best constant filter": losses.mean().idxmin(),
        }
        found[collection] = {rule: losses.loc[name, chosen] for rule, chosen in rules.items()}
    return pd.DataFrame(found).T


def shares_of_nearest() -> pd.Series:
    """Return the share of false negatives among the ten nearest texts, by study."""
    ranks = pd.read_csv(RESULTS / "hard_negatives_ranks.csv")
    return ranks[ranks["ranks"] == 10].set_index("study")["share"]


def mean_of_filters(name: str) -> pd.Series:
    """Return the mean MAP of each filter on held-out texts of a collection."""
    rows = pd.read_csv(RESULTS / f"{name}.csv")
    labels = "seen by label" if "seen by label" in set(rows["labels"]) else "seen"
    rows = rows[(rows["metric"] == "MAP") & (rows["labels"] == labels)]
    return rows[rows["objective"].isin(MINED)].groupby("objective")["value"].mean()


@in_style()
def draw_gains(path: Path) -> None:
    styles = line_styles(BASELINES)
    shares = shares_of_nearest()
    names = {of: f"{of}, {100 * shares[study]:.2g} % false" for study, of in COLLECTIONS.items()}
    table = compared()
    figure, panels = facets(
        table.assign(collection=table["collection"].map(names)),
        "collection",
        size=(3.6, 2.2),
        title="{}",
        xlabel="Difference in MAP (points)",
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
        "Differences of hard negatives with in-batch negatives from in-batch negatives alone (CL);"
        " the share of false ones is that of the ten nearest texts."
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
    lost = 100 * regrets()
    lost.loc["mean"] = lost.mean()
    print(lost.round(1).to_string())


if __name__ == "__main__":
    main()
