"""Table of the human ratings: AUC within anchors, paired differences, and calibration errors of stated probabilities."""

import itertools
from collections.abc import Collection, Sequence
from typing import Any

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
from trueneg.report.tables.building import compare, difference_text, failed_gates, group_title, runs_of_difference
from trueneg.specs.settings import Study
from trueneg.stats.measurement import measurements

ORDER = 30
METRIC = "AUC"
THRESHOLDS = (THRESHOLD, 2.0, 3.0)
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
    """Declare the table of an image–text study with human ratings of pairs."""
    if not isinstance(study, ImageTextStudy) or not study.dataset.rated:
        return []
    return [Drawing("human_ratings", draw, *HEADING, ("study.yaml", "comparison.json", *RATINGS))]


def draw(gathered: Gathered) -> Table:
    """Build the table; nothing is marked on data sets whose gate failed."""
    references, networks, rows, calibration = ratings_of(gathered)
    summary, failed = pd.concat([references, networks], ignore_index=True), failed_gates(gathered.gate)
    return human_ratings_table(summary, rows, calibration, gathered.baseline, failed, gathered.data_notes)


def human_ratings_table(
    summary: pd.DataFrame,
    rows: pd.DataFrame,
    calibration: pd.DataFrame,
    baseline: str,
    failed: Collection[str] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Build a table with one line per reference and objective: both kinds of anchors, other thresholds, and calibration.

    Args:
        summary: summary of the references and of the networks, from
            :func:`trueneg.report.figures.human_ratings.ratings_of`.
        rows: rows of the networks, from the same function.
        calibration: calibration of the networks, from the same function.
        baseline: objective that is subtracted.
        failed: data sets whose gate failed.
        notes: sentences under the table.
    """
    values = summary.merge(
        compare(rows, baseline, measurements(rows)).assign(score="similarity"),
        how="left",
        on=["study", "dataset", "objective", "score", "direction", "labels"],
        suffixes=("", " over seeds"),
    )
    errors = calibration[calibration["anchors"] == "text"].groupby(["dataset", "objective"])["error"].first()
    groups = []
    for dataset, own in values.groupby("dataset", sort=False):
        found = {(row["objective"] or row["score"], row["anchors"], row["threshold"]): row for _, row in own.iterrows()}
        known, trained = {name for name, _, _ in found}, [name for name in own["objective"].unique() if name]
        shown = {TEXTS: {EXPERT: EXPERT_LINE} | REFERENCES, NETWORKS: dict(zip(trained, trained, strict=True))}
        for title, names in shown.items():
            lines = []
            for name in [name for name in names if name in known]:
                of_sides = ([found.get((name, side, threshold)) for threshold in THRESHOLDS] for side in SIDES)
                cells = [cell for of_side in of_sides for cell in _side(of_side, baseline, dataset not in failed)]
                error = errors.get((dataset, name))
                lines.append((names[name], [*cells, Cell("–" if error is None else f"{error:.3f}")]))
            groups.append(Group(group_title(dataset, failed, title), lines))
    heads = ("anchors", METRIC, f"− {baseline}", "weighted", "above 2", "above 3")
    columns = [*itertools.product(SIDES.values(), heads), ("stated probability", "calibration error")]
    sentences = [
        *SENTENCES,
        f"Differences to {baseline} are paired within seeds, with their 95 % t intervals over SEEDS; * p < 0.05 (paired t test, "
        "Holm's correction over the objectives of a column).",
        *notes,
    ]
    return Table(values, columns, groups, sentences, corner="ranked by")


def _side(of_thresholds: Sequence[Any], baseline: str, marked: bool) -> list[Cell]:
    """Return the cells for one kind of anchor; dashes if no anchor has both kinds of negatives."""
    row, *stricter = of_thresholds
    if row is None:
        return [Cell("–")] * 6
    others = ["–" if other is None else written(other["AUC"], METRIC) for other in stricter]
    texts = [f"{row['count']:.0f}", area_text(row), "", area_text(row, "weighted "), *others]
    if pd.isna(row["runs"]):  # a reference without a trained network
        return [Cell(text) for text in texts]
    cells = [Cell(text, runs=row["runs"]) for text in texts]
    cells[2] = Cell(difference_text(row, baseline, starred=marked), runs=runs_of_difference(row))
    return cells
