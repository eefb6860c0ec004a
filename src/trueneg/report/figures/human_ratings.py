"""How well each method ranks negatives that people rate as false, and whether η tracks their rate."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import Axes, Figure, LineStyle, add_legend, add_style_legend, finish, line_styles, panels, say_empty
from trueneg.report.gathered import Gathered
from trueneg.report.labels import seed_count
from trueneg.report.metrics import with_interval
from trueneg.report.plots import facets, forest
from trueneg.specs.settings import Study
from trueneg.stats.comparison import selected

ORDER = 90
RATINGS = ("human_ratings/summary.parquet", "human_ratings/rows.parquet", "human_ratings/calibration.parquet")
ETA = ("human_ratings/eta.parquet", "human_ratings/correlations.parquet")
HEADING = (
    "Which negatives people call false, and who ranks them so",
    "Flickr8k's experts rated captions of other images: does a method's weight of a pair follow what they say?",
)
THRESHOLD = 2.5  # mean rating above which a negative counts as false
EXPERT = "one expert"
# References that need no trained network: name in the summary, and display name.
REFERENCES = {
    "TF-IDF, drawn": "TF-IDF, one caption",
    "TF-IDF, mean": "TF-IDF, mean of five",
    "TF-IDF, nearest": "TF-IDF, nearest of five",
    "text encoder at first, drawn": "text encoder, one caption",
    "text encoder at first, mean": "text encoder, mean of five",
    "text encoder at first, nearest": "text encoder, nearest of five",
}
SIDES = {"text": "Caption as anchor", "image": "Image as anchor"}
GREY = LineStyle("0.45", "o", "-")
CAPTIONS = {
    "a caption (area: number of rated images)": LineStyle("#0072b2", "o", ""),
    "mean of a tenth of the captions, by η": LineStyle("0.1", "s", "-"),
}
CEILING = "#009e73"
GROUPS = 10  # number of groups of captions by η
SELECTION = "Rated pairs were retrieved, not drawn at random: they are nearer than the negatives of a batch."
ABOUT = (
    f"A false negative: mean of three experts' ratings above {THRESHOLD:g}. AUC within an anchor, mean over the anchors that "
    "have both kinds of negatives; bars: 95 % bootstrap intervals over anchors"
)


def drawings(study: Study) -> list[Drawing]:
    """Declare the figures of an image–text study with human ratings of pairs."""
    if not isinstance(study, ImageTextStudy) or not study.dataset.rated:
        return []
    title = "The class probability beside the rate of false negatives"
    caption = "η belongs to a caption, not to a pair: does it rise with the share of its rated images that it describes?"
    return [
        Drawing("human_ratings", draw_ratings, *HEADING, ("study.yaml", "comparison.json", *RATINGS)),
        Drawing("eta_by_anchor", draw_eta, title, caption, ("study.yaml", *ETA)),
    ]


def ratings_of(gathered: Gathered) -> list[pd.DataFrame]:
    """Return the summary of the references, then the summary, rows and calibration of the selected variants."""
    summary, *others = map(gathered.read, RATINGS)
    chosen = [selected(table, gathered.selection) for table in (summary, *others)]
    return [summary[summary["objective"] == ""], *chosen]


def draw_ratings(gathered: Gathered) -> Figure:
    """Draw the human ratings on the primary data set."""
    references, networks, _rows, calibration = (table[table["dataset"] == gathered.dataset] for table in ratings_of(gathered))
    return human_ratings(references, networks, calibration, list(gathered.study.objectives), gathered.note)


def draw_eta(gathered: Gathered) -> Figure:
    """Draw η against the rate of false negatives on the primary data set."""
    captions, correlations = (table[table["dataset"] == gathered.dataset] for table in map(gathered.read, ETA))
    return eta_by_anchor(captions, correlations, gathered.own_note)


def human_ratings(
    references: pd.DataFrame, networks: pd.DataFrame, calibration: pd.DataFrame, objectives: Sequence[str], note: str = ""
) -> Figure:
    """Plot the AUC within anchors of every reference and objective, and stated probabilities against human ratings.

    One line marks chance, another the AUC of one expert against the other two. The third panel shows the objectives that state a
    probability; on the diagonal, this probability equals the fraction of false negatives among the rated pairs.
    """
    styles = line_styles(objectives)
    found = pd.concat([references, networks])
    found = found[found["threshold"] == THRESHOLD]
    found = found.assign(name=found["score"].replace(REFERENCES).where(found["objective"] == "", found["objective"]))
    names = [name for name in (*REFERENCES.values(), *objectives) if name in set(found["name"])]
    figure, axes = panels(1, 3, width=10.8, height=max(3.6, 1.7 + 0.24 * len(names)))
    texts = []
    for plot, (side, title) in zip(axes[0], SIDES.items(), strict=False):
        own: Any = found[found["anchors"] == side].set_index("name")
        rows, expert = own.loc[names], own.loc[EXPERT]
        plot.axvspan(expert["low"], expert["high"], color=CEILING, alpha=0.15, linewidth=0)
        ceiling = plot.axvline(expert["AUC"], color=CEILING, linestyle=(0, (5, 1.5)))
        chance = plot.axvline(0.5, color="0.1", linewidth=1)
        forest(plot, {name: rows.loc[[name]] for name in names}, dict.fromkeys(names, GREY) | styles, names, spread=0, y="AUC")
        plot.set_xlabel("AUC within an anchor")
        plot.set_title(f"{title}\n({rows['count'].max():.0f} anchors)", fontsize=9.5)
        values = "; ".join(f"{name} {area_text(row)}" for name, row in rows.iterrows())
        texts.append(f"{title}: one expert {area_text(expert)}; {values}")
    axes[0, 1].set_yticklabels([])
    axes[0, 0].sharex(axes[0, 1])
    axes[0, 1].autoscale_view()
    texts.append(_calibration(axes[0, 2], calibration[calibration["anchors"] == "text"], styles))
    add_legend(figure, [chance, ceiling], ["chance", "one expert against the other two"])
    about = f"{ABOUT}, of the mean over {seed_count(networks['seeds'])}."
    return finish(figure, [about, SELECTION, note], f"Ranking of false negatives. {'. '.join(texts)}.")


def eta_by_anchor(captions: pd.DataFrame, correlations: pd.DataFrame, note: str = "") -> Figure:
    """Plot each caption's rate of false negatives among its rated images against its η, one panel per non-constant kind of η."""
    names = list(dict.fromkeys(correlations["eta"]))
    shown = [name for name in names if captions[name].nunique() > 1]
    figure, found = facets(
        captions.melt(["rate", "pairs"], shown, "kind", "η"),
        "kind",
        size=(3.4, 2.7),
        columns=len(shown),
        xlabel="η of the caption",
        ylabel=f"Share of its rated images\nabove {THRESHOLD:g}: its false negatives",
        empty="No class probability of the captions is known that varies.",
    )
    rho = {(row["eta"], row["with"]): rho_text(row) for _, row in correlations.iterrows()}
    for plot, (name,), part in found:
        sizes = 3 + 2.0 * part["pairs"]
        plot.scatter(part["η"], part["rate"], s=sizes, color="#0072b2", alpha=0.2, linewidths=0, label="captions")
        groups = part.groupby(pd.qcut(part["η"].rank(method="first"), min(GROUPS, len(part)), labels=False))
        plot.plot(groups["η"].median(), groups["rate"].mean(), color="0.1", marker="s", label="groups")
        plot.set_xscale("log")
        plot.set_title(f"{name}\nρ {rho[name, 'rate']}", fontsize=9.5)
    if shown:
        add_style_legend(figure, CAPTIONS)
    texts = (f"{name}: ρ with the rate {rho[name, 'rate']}, with the mean rating {rho[name, 'mean rating']}" for name in shown)
    constant = ", ".join(name for name in names if name not in shown)
    about = f"{len(captions)} captions. ρ: Spearman's over captions, with its 95 % bootstrap interval."
    said = f"η {constant}: the same for all captions, so there is nothing to correlate." if constant else ""
    return finish(figure, [about, said, SELECTION, note], f"η against the rate of false negatives. {'; '.join(texts)}.")


def _calibration(plot: Axes, calibration: pd.DataFrame, styles: Mapping[str, LineStyle]) -> str:
    """Draw the calibration panel and return its description."""
    if calibration.empty:
        say_empty(plot, "No objective states a probability for a caption's negatives.")
        return "No probabilities"
    texts = []
    for name, style in styles.items():
        own = calibration[calibration["objective"] == name].sort_values("implied")
        if len(own):
            look: dict[str, Any] = {"color": style.color, "marker": style.marker, "linestyle": style.linestyle}
            plot.plot(own["implied"], own["rated"], label=name, **look)
            texts.append(f"{name} {own['error'].iloc[0]:.3f}")
    end = 1.05 * float(calibration[["implied", "rated"]].to_numpy().max())
    plot.plot([0, end], [0, end], color="0.1", linewidth=1, linestyle=(0, (1.5, 1.5)))
    plot.set_title("Stated probability,\ncaption as anchor", fontsize=9.5)
    plot.set(xlabel="Stated: mean of a bin", ylabel="Rated: share of false negatives")
    plot.legend(fontsize=8, loc="best")
    return f"Expected calibration error: {', '.join(texts)}"


def area_text(row: pd.Series, prefix: str = "") -> str:
    """Format an AUC with its interval over anchors."""
    return with_interval(row[f"{prefix}AUC"], row[f"{prefix}low"], row[f"{prefix}high"], "AUC")


def rho_text(row: pd.Series) -> str:
    """Format ρ with its interval; a dash if it is undefined."""
    return with_interval(row["rho"], row["low"], row["high"], "ρ", signed=True)
