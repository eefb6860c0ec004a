"""The phantom as image–text data: radiographs, the sentences of their reports, and the ground truth about both."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_images import PairImages
from trueneg.data.pairs.statements import findings_said, statements_shown
from trueneg.data.phantom.classes import POSITIVE
from trueneg.data.phantom.radiographs import CHEX5, chexpert_labels, phantom_images, positive_classes
from trueneg.errors import UserError
from trueneg.text import privacy


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """Draw the radiographs of synthetic reports with ``contrast`` and ``seed``; ``boxes`` holds the boxes of the findings."""
    reports, count = tables["reports"], settings["images"]
    if count is not None and count > len(reports):
        raise UserError(
            f"dataset.images is {count:,}, but there are {len(reports):,} reports; lower it, or raise reports.reports of the "
            "likelihood study."
        )
    assigned = tables["assigned"]
    if count is not None:
        reports = reports.iloc[:count]
        assigned = assigned[assigned["report"].isin(reports["report"])].reset_index(drop=True)
    findings = positive_classes(reports["report"].tolist(), assigned)
    images, boxes = phantom_images(findings, settings["resolution"], settings["seed"], settings["contrast"], threads)
    names = np.array(list(findings))
    positive = int((tables["classes"]["kind"] == POSITIVE).sum())
    return PairImages(
        images,
        names,
        reports["patient"].to_numpy(str),
        labels=pd.DataFrame(chexpert_labels(findings), columns=list(CHEX5)),
        assigned=assigned,
        probabilities=tables["classes"],
        shown=statements_shown(tables["classes"], findings_said(assigned, names, positive)),
        tables={"boxes": boxes},
    )


def write_eta_by_class(pairs: str | Path, *, classes: str | Path, table: str | Path) -> None:
    """Write the estimated η of each class's sentences next to the probability that these sentences are true of an image.

    Args:
        pairs: sentences of a source (parquet file written by :func:`trueneg.data.pairs.pair_source.write_pairs`).
        classes: parquet file written by :func:`trueneg.data.phantom.corpus.prepare_phantom`.
        table: parquet file to write, with one row per class that occurs: ``class``, ``name``, ``kind``, ``sentences`` (number
            of sentences), ``eta`` (median), ``eta low`` and ``eta high`` (5th and 95th percentiles), ``image probability``.

    Raises:
        UserError: if a table is missing or damaged.
    """
    of_class = privacy.read_table(pairs)[0].groupby("class")["eta"]
    found = of_class.agg(sentences="count", eta="median").reset_index()
    found["eta low"], found["eta high"] = of_class.quantile(0.05).to_numpy(), of_class.quantile(0.95).to_numpy()
    known = privacy.read_table(classes)[0].set_index("class").loc[found["class"]]
    parts = known[["severity", "finding", "side", "zone"]].fillna("").astype(str)
    found.insert(1, "name", parts.agg(" ".join, axis=1).str.split().str.join(" ").to_numpy())
    found.insert(2, "kind", known["kind"].to_numpy())
    privacy.write_table(found.assign(**{"image probability": known["image_probability"].to_numpy()}), table, restricted=False)
