"""The table of the human ratings: AUC within anchors, paired differences, and the errors of what is stated."""

from collections.abc import Sequence

import pandas as pd

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing
from trueneg.report.figures.human_ratings import (
    EXPERT,
    HEADING,
    RATINGS,
    REFERENCES,
    SELECTION,
    SIDES,
    THRESHOLD,
    area_text,
    ratings_of,
)
from trueneg.report.formats import Cell, Group, Table
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import written
from trueneg.report.tables.building import compare, difference_text, runs_of_difference
from trueneg.specs.settings import Study
from trueneg.stats.measurement import measurements

ORDER = 30
METRIC = "AUC"
EXPERT_LINE = f"{EXPERT} against the other two"
NETWORKS = "similarity under the trained networks"
TEXTS = "people, and similarity of captions"
SENTENCES = (
    f"A false negative: mean of three experts' ratings above {THRESHOLD:g}. AUC: probability that, of an anchor's negatives, a "
    "false one scores higher than a true one (ties ½); mean over the anchors that have both, of the mean over seeds, with its "
    "95 % bootstrap interval over ANCHORS. Weighted: all comparisons within anchors count the same.",
    SELECTION,
    "The file does not tell which expert gave which rating: one expert is the mean over all ways to take one out.",
    "The η of DCL and HCL is the same for all negatives of an anchor: AUC ½ by construction. BCL's 1 − p(TN) rises with the "
    "similarity within an anchor: its AUC is the similarity's. HCL's hardness, InfoNCE's softmax and ReCo's max(0, s) give MORE "
    "weight to what is similar: as weights against false negatives they have one minus this AUC.",
    "One caption: the expectation over the caption that a batch draws for the image, which is what remove, resample and "
    "reweight by text go by.",
    "Calibration error: mean distance of stated probability and rated share, caption as anchor, over bins of about equal count.",
)


def drawings(study: Study) -> list[Drawing]:
    """Of an image–text study whose pairs people have rated."""
    if not isinstance(study, ImageTextStudy) or not study.dataset.rated:
        return []
    return [Drawing("human_ratings", draw, *HEADING, ("study.yaml", "comparison.json", *RATINGS))]


def draw(gathered: Gathered) -> Table:
    """Nothing is marked on a data set whose gate failed."""
    failed = gathered.gate.loc[~gathered.gate["passed"].astype(bool), "dataset"].tolist()
    return human_ratings_table(*ratings_of(gathered), gathered.baseline, failed, gathered.data_notes)


def human_ratings_table(
    references: pd.DataFrame,
    networks: pd.DataFrame,
    rows: pd.DataFrame,
    calibration: pd.DataFrame,
    baseline: str,
    failed: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Table:
    """One line per reference and objective: both kinds of anchors, other thresholds, calibration; the frames of
    :func:`trueneg.report.figures.human_ratings.ratings_of`.
    """
    summary = pd.concat([references, networks], ignore_index=True)
    compared = compare(rows, baseline, measurements(rows))
    errors = calibration[calibration["anchors"] == "text"].groupby(["dataset", "objective"])["error"].first()
    groups = []
    for dataset, own in summary.groupby("dataset", sort=False):
        remark = " (uninformative at this size)" if dataset in failed else ""
        places = {
            TEXTS: {EXPERT: EXPERT_LINE} | REFERENCES,
            NETWORKS: {name: name for name in own.loc[own["objective"] != "", "objective"].unique()},
        }
        for title, names in places.items():
            of_group = own[(own["objective"] == "") == (title == TEXTS)]
            key = "score" if title == TEXTS else "objective"
            lines = []
            for name, shown in names.items():
                one = of_group[of_group[key] == name]
                if one.empty:
                    continue
                differences = compared[(compared["dataset"] == dataset) & (compared["objective"] == name)]
                if title == TEXTS:
                    differences = differences.iloc[:0]
                cells = [cell for side in SIDES for cell in _side(one, differences, side, baseline, dataset not in failed)]
                error = errors.get((dataset, name)) if title == NETWORKS else None
                lines.append((shown, [*cells, Cell("–" if error is None else f"{error:.3f}")]))
            groups.append(Group(f"{dataset}; {title}{remark}", lines))
    columns = [
        (title, name)
        for title in SIDES.values()
        for name in ("anchors", METRIC, f"− {baseline}", "weighted", "above 2", "above 3")
    ]
    sentences = [
        *SENTENCES,
        f"Differences to {baseline} are paired within seeds, with their 95 % t intervals over SEEDS; * p < 0.05 (paired t test, "
        "Holm's correction over the objectives of a column).",
        *notes,
    ]
    values = summary.merge(
        compared.assign(score="similarity"),
        how="left",
        on=["study", "dataset", "objective", "score", "direction", "labels"],
        suffixes=("", " over seeds"),
    )
    return Table(values, [*columns, ("stated probability", "calibration error")], groups, sentences, corner="ranked by")


def _side(one: pd.DataFrame, differences: pd.DataFrame, side: str, baseline: str, marked: bool) -> list[Cell]:
    own = one[one["anchors"] == side].set_index("threshold")
    if THRESHOLD not in own.index:
        return [Cell("–")] * 6
    row = own.loc[THRESHOLD]
    pair = differences[(differences["direction"] == row["direction"]) & (differences["labels"] == row["labels"])]
    difference, runs, pairs = "", "", ""
    if len(pair):
        difference, runs = difference_text(pair.iloc[0], baseline, starred=marked), pair.iloc[0]["runs"]
        pairs = runs_of_difference(pair.iloc[0])
    others = [written(own["AUC"].get(threshold, float("nan")), METRIC) for threshold in (2.0, 3.0)]
    texts = [f"{row['count']:.0f}", area_text(row), difference, area_text(row, "weighted "), *others]
    return [Cell(text, runs=pairs if place == 2 else runs) for place, text in enumerate(texts)]
