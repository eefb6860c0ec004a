"""The phantom as image–text data: radiographs, the sentences of their reports, and the ground truth about both."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_images import PairImages, check_count
from trueneg.data.pairs.statements import findings_said, statements_shown
from trueneg.data.phantom.classes import POSITIVE
from trueneg.data.phantom.radiographs import CHEX5, chexpert_labels, phantom_images, positive_classes
from trueneg.io import privacy


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """Draw the radiographs of synthetic reports, given ``contrast`` and ``seed``; the table ``boxes`` locates the findings."""
    check_count(settings["images"], len(tables["reports"]), "reports (reports.reports of the likelihood study)")
    reports, assigned = tables["reports"].iloc[: settings["images"]], tables["assigned"]
    if settings["images"] is not None:
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
    """Write a table that compares the estimated η of each class's sentences with the probability that they are true of an image.

    Args:
        pairs: sentences of a source (parquet file written by :func:`trueneg.data.pairs.pair_source.write_pairs`).
        classes: parquet file written by :func:`trueneg.data.phantom.corpus.prepare_phantom`.
        table: parquet file to write, with one row per class that occurs: ``class``, ``name``, ``kind``, ``sentences`` (number
            of sentences), ``eta`` (median), ``eta low`` and ``eta high`` (5th and 95th percentiles), ``image probability``.

    Raises:
        UserError: if a table is missing or damaged.
    """
    eta = privacy.read_table(pairs)[0].groupby("class")["eta"]
    summary = eta.agg(sentences="count", eta="median")
    truth = privacy.read_table(classes)[0].set_index("class").loc[summary.index]
    parts = truth[["severity", "finding", "side", "zone"]].fillna("").astype(str)
    summary.insert(0, "name", parts.agg(" ".join, axis=1).str.split().str.join(" "))
    summary.insert(1, "kind", truth["kind"])
    summary["eta low"], summary["eta high"] = eta.quantile(0.05), eta.quantile(0.95)
    summary["image probability"] = truth["image_probability"]
    privacy.write_table(summary.reset_index(), table, restricted=False)
