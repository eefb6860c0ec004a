"""The share of false negatives among mined hard negatives: how near is too near?"""

from trueneg.config import runs
from trueneg.report.declared import Drawing
from trueneg.report.drawing import Figure, add_legend, finish, line_styles
from trueneg.report.gathered import Gathered
from trueneg.report.labels import seed_count
from trueneg.report.plots import Axis, draw_intervals, facets, set_ticks
from trueneg.specs.hard_negatives import DEPTH
from trueneg.specs.kinds.texts import TextStudy

ORDER = 7
KIND = TextStudy
FEWEST = 100  # pairs of an interval of similarities that is drawn
AXES = {
    "rank": Axis("Number of nearest texts", logarithmic=True),
    "similarity": Axis("Similarity to the anchor"),
}


def drawings(study: TextStudy) -> list[Drawing]:
    """Declare the figure of a study that mines hard negatives and knows which ones are false."""
    is_mined = any(getattr(each, "hard_negatives", None) for each in study.objectives.values())
    if not (is_mined and study.provided["known matches"]):
        return []
    return [
        Drawing(
            "false_negatives_mined",
            false_negatives_mined,
            "False negatives among the nearest texts",
            "How many of the texts nearest to an anchor have its label, so that they would be false"
            " negatives? A window of ranks skips the left end of the first panel, a margin or"
            " max_score the right end of the second.",
            ("study.yaml", *(f"mined/{label}.parquet" for label in runs.datasets(study))),
        )
    ]


def false_negatives_mined(gathered: Gathered) -> Figure:
    """Draw the share of false negatives by the number of nearest texts and by similarity."""
    labels = [*runs.datasets(gathered.study)]
    shares = gathered.read(*(f"mined/{label}.parquet" for label in labels))
    keys = ["dataset", "by", "miner", "at"]
    points = shares.groupby(keys, sort=False).agg(
        shown=("share", "mean"),
        low=("share", "min"),
        high=("share", "max"),
        pairs=("pairs", "sum"),
        seeds=("seed", "nunique"),
    )
    points = points[points["pairs"] >= FEWEST].reset_index()
    figure, panels = facets(
        points,
        "dataset",
        "by",
        size=(3.2, 2.6),
        title="{}, by {}" if len(labels) > 1 else "By {1}",
        ylabel="False negatives (%)",
    )
    styles = line_styles(points["miner"])
    for plot, (_, by), part in panels:
        draw_intervals(plot, part, styles, by="miner", factor=100, x="at")
        set_ticks(plot, sorted({*part["at"]}), AXES[by])
        plot.set_ylim(bottom=0)
    add_legend(figure, styles)
    return finish(
        figure,
        f"Of an anchor's nearest texts, at most {DEPTH:,}, those with its label; pairs with an"
        f" unknown label do not count, and points with fewer than {FEWEST} pairs"
        " are not drawn. Bars: from the smallest to the largest share of a seed"
        f" ({seed_count(points['seeds'])}). All training pairs are counted, so a share has no"
        " sampling error; it is one of these data.",
        gathered.study_note,
    )
