"""How well each method ranks the false negatives identified by human ratings, and whether η tracks
their frequency.
"""

import pandas as pd
from pandas import DataFrame, Series

from trueneg.report.declared import Drawing
from trueneg.report.drawing import (
    Axes,
    Figure,
    LineStyle,
    Styles,
    add_legend,
    draw_message,
    finish,
    line_styles,
    panels,
    styles_of,
)
from trueneg.report.gathered import Gathered
from trueneg.report.labels import seed_count
from trueneg.report.metrics import with_interval
from trueneg.report.plots import facets, forest
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.stats.comparison import selected

ORDER = 90
KIND = TrainedStudy
RATINGS = (
    "human_ratings/summary.parquet",
    "human_ratings/rows.parquet",
    "human_ratings/calibration.parquet",
)
ETA = ("human_ratings/eta.parquet", "human_ratings/correlations.parquet")
HEADING = (
    "Ranking of the negatives that people rate as false",
    (
        "Flickr8k's experts rated captions of other images: does the weight that a method gives a"
        " pair follow their ratings?"
    ),
)
THRESHOLD = 2.5  # mean rating above which a negative counts as false
EXPERT = "one expert"
# References that need no trained network: name in the summary, and display name.
REFERENCES = {
    f"{scorer}, {kind}": f"{scorer}, {captions}"
    for scorer in ("TF-IDF", "language model", "text tower")
    for kind, captions in (
        ("drawn", "one caption"),
        ("mean", "mean of five"),
        ("nearest", "nearest of five"),
    )
}
SIDES = {"text": "Caption as anchor", "image": "Image as anchor"}
GREY = LineStyle("0.45", "o", "-")
CAPTION = LineStyle("#0072b2", "o", "")
MEAN = LineStyle("0.1", "s", "-")
CEILING = "#009e73"
GROUPS = 10  # number of groups of captions by η
SELECTION = (
    "Rated pairs were retrieved, not drawn at random: they are more similar than the negatives of a"
    " batch."
)


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the figures of an image–text study with human ratings of pairs."""
    if not study.is_rated:
        return []
    return [
        Drawing(
            "human_ratings", human_ratings, *HEADING, ("study.yaml", "comparison.json", *RATINGS)
        ),
        Drawing(
            "eta_by_anchor",
            eta_by_anchor,
            "Class probability against the rate of false negatives",
            "η belongs to a caption, not to a pair: does it rise with the fraction of rated images"
            " that the caption describes?",
            ("study.yaml", *ETA),
        ),
    ]


def ratings_of(gathered: Gathered) -> list[DataFrame]:
    """Return the summary of the references, then the summary, rows and calibration of the selected
    variants.
    """
    tables = list(map(gathered.read, RATINGS))
    summary = tables[0]
    return [
        summary[summary["objective"] == ""],
        *(selected(table, gathered.selection) for table in tables),
    ]


def human_ratings(gathered: Gathered) -> Figure:
    """Plot the AUC within anchors of every reference and objective, and implied probabilities
    against human ratings.

    One line marks chance, another the AUC of one expert against the other two. The third panel
    shows the objectives that state a probability; on the diagonal, this probability equals the
    fraction of false negatives among the rated pairs.
    """
    references, networks, _, calibration = (
        table[table["dataset"] == gathered.dataset] for table in ratings_of(gathered)
    )
    styles = line_styles(gathered.study.objectives)
    references = references.assign(name=references["score"].replace(REFERENCES))
    areas = pd.concat([references, networks.assign(name=networks["objective"])])
    areas = areas[areas["threshold"] == THRESHOLD]
    names = [name for name in (*REFERENCES.values(), *styles) if name in set(areas["name"])]
    looks = {name: styles.get(name, GREY) for name in names}
    figure, axes = panels(1, 3, width=10.8, height=max(3.6, 1.7 + 0.24 * len(names)))
    for plot, (side, title) in zip(axes[0], SIDES.items(), strict=False):
        rows = areas[areas["anchors"] == side]
        by_name = rows.set_index("name")
        expert = by_name.loc[EXPERT]
        plot.axvspan(expert["low"], expert["high"], color=CEILING, alpha=0.15, linewidth=0)
        ceiling = plot.axvline(expert["AUC"], color=CEILING, linestyle=(0, (5, 1.5)))
        chance = plot.axvline(0.5, color="0.1", linewidth=1)
        forest(plot, rows, looks, "name", names, row="name", y="AUC")
        plot.set_xlabel("AUC within an anchor")
        plot.set_title(f"{title}\n({by_name.loc[names, 'count'].max():.0f} anchors)", fontsize=9.5)
    axes[0, 1].set_yticklabels([])
    axes[0, 0].sharex(axes[0, 1])
    axes[0, 1].autoscale_view()
    _draw_calibration(axes[0, 2], calibration.query("anchors == 'text'"), styles)
    add_legend(figure, {"chance": chance, "one expert against the other two": ceiling})
    return finish(
        figure,
        f"False negative: mean of three experts' ratings above {THRESHOLD:g}. AUC within an"
        " anchor: mean over the anchors that have both true and false negatives. Bars: 95 %"
        f" bootstrap intervals over anchors for the mean over {seed_count(networks['seeds'])}.",
        SELECTION,
        gathered.note_on({gathered.dataset}, {*networks["objective"]}),
    )


def eta_by_anchor(gathered: Gathered) -> Figure:
    """Plot each caption's rate of false negatives among its rated images against its η, one panel
    per kind of η that varies.
    """
    captions, correlations = (
        table[table["dataset"] == gathered.dataset] for table in map(gathered.read, ETA)
    )
    names = list(dict.fromkeys(correlations["eta"]))
    shown = [name for name in names if captions[name].nunique() > 1]
    figure, parts = facets(
        captions.melt(["rate", "pairs"], shown, "kind", "η"),
        "kind",
        size=(3.4, 2.7),
        columns=len(shown),
        xlabel="η of the caption",
        ylabel=f"Fraction of rated images\nabove {THRESHOLD:g} (false negatives)",
        empty="No η varies between captions.",
    )
    rho = correlations.query("`with` == 'rate'").set_index("eta")
    for plot, (name,), part in parts:
        plot.scatter(
            part["η"],
            part["rate"],
            s=3 + 2.0 * part["pairs"],
            color=CAPTION.color,
            alpha=0.2,
            linewidths=0,
            label="captions",
        )
        ranks = part["η"].rank(method="first")
        groups = part.groupby(pd.qcut(ranks, min(GROUPS, len(part)), labels=False))
        plot.plot(groups["η"].median(), groups["rate"].mean(), label="groups", **MEAN._asdict())
        plot.set_xscale("log")
        plot.set_title(f"{name}\nρ {rho_text(rho.loc[name])}", fontsize=9.5)
    if shown:
        entries = {
            "caption (area: number of rated images)": CAPTION,
            "mean of a tenth of the captions, by η": MEAN,
        }
        add_legend(figure, entries)
    constant = ", ".join(name for name in names if name not in shown)
    return finish(
        figure,
        f"{len(captions)} captions. ρ: Spearman's correlation over captions, with its 95 %"
        " bootstrap interval.",
        f"η {constant}: omitted because it is the same for all captions." if constant else "",
        SELECTION,
        gathered.study_note,
    )


def _draw_calibration(plot: Axes, calibration: DataFrame, styles: Styles) -> None:
    """Draw the calibration panel."""
    if calibration.empty:
        draw_message(plot, "No objective assigns probabilities to the negatives of a caption.")
        return
    for name, style in styles_of(calibration["objective"], styles).items():
        bins = calibration[calibration["objective"] == name].sort_values("implied")
        plot.plot(bins["implied"], bins["rated"], label=name, **style._asdict())
    end = 1.05 * float(calibration[["implied", "rated"]].to_numpy().max())
    plot.plot([0, end], [0, end], color="0.1", linewidth=1, linestyle=(0, (1.5, 1.5)))
    plot.set_title("Stated probability,\ncaption as anchor", fontsize=9.5)
    plot.set(xlabel="Stated: mean of a bin", ylabel="Rated: fraction of false negatives")
    plot.legend(fontsize=8, loc="best")


def area_text(row: Series, prefix: str = "") -> str:
    """Format an AUC with its interval over anchors."""
    return with_interval(row[f"{prefix}AUC"], row[f"{prefix}low"], row[f"{prefix}high"], "AUC")


def rho_text(row: Series) -> str:
    """Format ρ with its interval; a dash if it is undefined."""
    return with_interval(row["rho"], row["low"], row["high"], "ρ", signed=True)
