"""Table of the human ratings: AUC within anchors, paired differences, and calibration errors of the
implied probabilities.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd

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
from trueneg.report.formats import Cell, Table
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import format_metric
from trueneg.report.tables.building import (
    compare,
    difference_cell,
    group_title,
    headroom_remarks,
    records,
)
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.stats.measurement import measurements

ORDER = 30
KIND = TrainedStudy
THRESHOLDS = (THRESHOLD, 2.0, 3.0)
SENTENCES = (
    (
        f"A false negative has a mean rating by three experts above {THRESHOLD:g}. AUC: probability"
        " that a false negative of an anchor scores higher than a true one (ties count ½),"
        " averaged over seeds and over the anchors that have both kinds, with a 95 % bootstrap"
        " interval over ANCHORS. Weighted: all comparisons within anchors have the same weight."
    ),
    SELECTION,
    (
        "The data do not name the expert behind a rating, so the AUC of one expert averages over"
        " leaving out each rating in turn."
    ),
    (
        "The η of DCL and HCL is the same for all negatives of an anchor: AUC ½ by construction."
        " BCL's 1 − p(TN) increases with the similarity within an anchor, so its AUC is that of the"
        " similarity. HCL's hardness, InfoNCE's softmax and ReCo's max(0, s) give MORE weight to"
        " similar pairs: as weights against false negatives, their AUC is one minus that of the"
        " similarity."
    ),
    (
        "One caption: expected AUC if one caption of the image is drawn, as in the batches of"
        " remove, resample and reweight by text."
    ),
    (
        "Calibration error: mean absolute difference between implied probability and rated share"
        " over bins; captions as anchors."
    ),
)


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the table of an image–text study with human ratings of pairs."""
    if not study.is_rated:
        return []
    return [Drawing("human_ratings", draw, *HEADING, ("study.yaml", "comparison.json", *RATINGS))]


def draw(gathered: Gathered) -> Table:
    """Build a table with one line per reference and objective: both kinds of anchors, other
    thresholds, and calibration.
    """
    references, networks, rows, calibration = ratings_of(gathered)
    baseline = gathered.baseline
    remarks = headroom_remarks(gathered.headroom)
    summary = pd.concat([references, networks], ignore_index=True)
    values = summary.merge(
        compare(rows, baseline, measurements(rows)).assign(score="similarity"),
        how="left",
        on=["study", "dataset", "objective", "score", "direction", "labels"],
        suffixes=("", " over seeds"),
    )
    of_texts = calibration.query("anchors == 'text'")
    errors = of_texts.groupby(["dataset", "objective"])["error"].first()
    lines = []
    for dataset, of_dataset in values.groupby("dataset", sort=False):
        rows_by_key = {
            (row["objective"] or row["score"], row["anchors"], row["threshold"]): row
            for row in records(of_dataset)
        }
        trained = {name: name for name in of_dataset["objective"].unique() if name}
        expert = {EXPERT: f"{EXPERT} against the other two"}
        for name, shown in (expert | REFERENCES | trained).items():
            sides = [
                [rows_by_key.get((name, side, threshold)) for threshold in THRESHOLDS]
                for side in SIDES
            ]
            if not any(map(any, sides)):
                continue
            title = "one expert, and similarity of captions"
            if name in trained:
                title = "similarity in the trained networks"
            error = f"{errors[dataset, name]:.3f}" if (dataset, name) in errors else "–"
            cells = [*_side(sides[0]), *_side(sides[1]), Cell(error)]
            lines.append((group_title(dataset, remarks, title), shown, cells))
    heads = ("anchors", "AUC", f"− {baseline}", "weighted", "above 2", "above 3")
    columns = [
        *itertools.product(SIDES.values(), heads),
        ("implied probability", "calibration error"),
    ]
    sentences = [
        *SENTENCES,
        f"Differences from {baseline} are paired within seeds and have 95 % t intervals over"
        " SEEDS; * p < 0.05 (paired t test with Holm's correction over the objectives of a"
        " column).",
        *gathered.data_notes,
    ]
    return Table(values, columns, lines, sentences, corner="ranked by")


def _side(of_thresholds: Sequence[Any]) -> list[Cell]:
    """Return the cells for one kind of anchor; dashes if no anchor has both kinds of negatives."""
    row, *stricter = of_thresholds
    if row is None:
        return [Cell("–")] * 6
    others = ["–" if other is None else format_metric(other["AUC"], "AUC") for other in stricter]
    texts = [f"{row['count']:.0f}", area_text(row), "", area_text(row, "weighted "), *others]
    is_trained = pd.notna(row["runs"])  # references have no trained network
    cells = [Cell(text, runs=row["runs"] if is_trained else "") for text in texts]
    if is_trained:
        cells[2] = difference_cell(row)
    return cells
