"""Table of the accuracy of each class, and of the classes that are most often confused."""

from typing import Any

import pandas as pd

from trueneg.config import runs
from trueneg.report.advice import advice
from trueneg.report.declared import ROWS, Drawing, primary_dataset
from trueneg.report.formats import Cell, Table
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import full_name
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.store.records import read_rows

ORDER = 15
KIND = TrainedStudy
CONFUSED = 10  # number of pairs of classes to list
CLASSES = ["label", "predicted"]


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the table if the study keeps the predicted class of each test sample."""
    primary = study.primary
    is_kept = primary.over != "runs" and primary.metric == "accuracy"
    if not is_kept or getattr(study.dataset, "restricted", False):
        return []
    files = tuple(
        f"samples/{job.dataset}/{job.objective}/{job.block}.parquet"
        for job in runs.jobs("", study)
        if job.dataset == primary_dataset(study) and not job.is_pilot
    )
    return [
        Drawing(
            "by_class",
            by_class,
            "Which classes are hard, and what are they taken for?",
            "Accuracy by class with counts, and the classes that are confused most often.",
            (*ROWS, *files),
            {"files": files},
        )
    ]


def by_class(gathered: Gathered, files: tuple[str, ...]) -> Table:
    """Build a table with a line per class, and one for each of the most frequent confusions, of the
    towers before training, the baseline and the advised method or else the treatment.
    """
    table = pd.concat([read_rows(gathered.folder / file, CLASSES) for file in files])
    study = gathered.study
    advised = advice(gathered).name
    if advised in (None, gathered.baseline):
        advised = study.primary.treatment
    names = dict.fromkeys((study.first_baseline, *study.compared, gathered.baseline, advised))
    table = table[table["objective"].isin(names)]
    samples = table.groupby("label")["sample"].nunique()
    counts = table.groupby([*CLASSES, "objective"]).size().unstack(fill_value=0)
    right = pd.MultiIndex.from_arrays([samples.index, samples.index], names=CLASSES)
    counts = counts.reindex(counts.index.union(right), fill_value=0)
    counts = counts[[name for name in names if name in counts]]
    shares = 100 * counts / counts.groupby(level="label").transform("sum")
    confused = counts.drop(right).sum(axis=1).nlargest(CONFUSED)
    lines = []
    for title, pairs in (("accuracy", right), ("most often confused", confused.index)):
        for label, predicted in pairs:
            cells = [Cell(f"{samples[label]:,}")]
            cells += [Cell(f"{share:.1f}") for share in shares.loc[(label, predicted)]]
            lines.append(
                (title, label if title == "accuracy" else f"{label} as {predicted}", cells)
            )
    heads = [("", "test samples"), *(("share of the class (%)", str(name)) for name in shares)]
    sentences = [
        f"Test split: {full_name(gathered.primary._replace(group=None))}. Shares are of the"
        " predictions of all seeds; test samples: those of the class, each counted once. Most"
        " often: over these objectives together.",
        *gathered.table_notes,
    ]
    stacked: Any = shares.stack()
    tidy = stacked.rename("share").reset_index()
    return Table(tidy, heads, lines, sentences, corner="class")
