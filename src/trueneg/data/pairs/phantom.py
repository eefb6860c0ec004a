"""The phantom as image–text data: its radiographs beside the sentences of its reports, with all that is known about both."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.data.pairs.pair_source import PairSource, beside, join_sentences, write_pairs
from trueneg.data.pairs.statements import findings_said, statements_shown
from trueneg.data.phantom.radiographs import CHEX5, chexpert_labels, phantom_images, positive_classes
from trueneg.data.phantom.reports import POSITIVE
from trueneg.errors import UserError
from trueneg.text import privacy

log = logging.getLogger(__name__)


def prepare(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Draw the radiographs of synthetic reports, and join them with the reports' sentences.

    Args:
        settings: ``images`` (of how many reports, the first; None: all), ``resolution``, ``contrast``, ``seed`` (of the
            reports, and of the radiographs).
        text: parquet files by name: ``reports``, ``assigned`` and ``classes`` of
            :func:`trueneg.data.phantom.corpus.prepare_phantom`, ``sentences``, and ``eta`` of
            :func:`trueneg.text.eta.write_class_probabilities`.
        pairs: .npz file to write, the sentences and the other tables beside it:
            the findings' boxes (of :func:`trueneg.data.phantom.radiographs.phantom_images`).
        cache: unused: nothing is decoded.
        threads: processes that draw.

    Raises:
        UserError: if a table is missing or damaged, there are fewer reports than images, or the tables do not belong together.
    """
    tables = {name: privacy.read_table(path)[0] for name, path in text.items()}
    if settings["images"] is not None:
        if settings["images"] > len(tables["reports"]):
            raise UserError(
                f"dataset.images is {settings['images']:,}, but {text['reports']} holds {len(tables['reports']):,} reports; "
                "lower it, or raise reports.reports of the likelihood study."
            )
        chosen = tables["reports"]["report"].iloc[: settings["images"]]
        for name in ("reports", "sentences", "assigned", "eta"):
            tables[name] = tables[name][tables[name]["report"].isin(chosen)].reset_index(drop=True)
    try:
        findings = positive_classes(tables["reports"]["report"].tolist(), tables["assigned"])
    except ValueError as error:
        raise UserError(f"{text['assigned']}: does not belong to {text['reports']}: {error} Have both made again.") from error
    reports = np.array(list(findings))
    images, boxes = phantom_images(findings, settings["resolution"], settings["seed"], settings["contrast"], threads)
    privacy.write_table(boxes, beside(pairs, "boxes"), restricted=False)
    try:
        table = join_sentences(tables["sentences"], assigned=tables["assigned"], classes=tables["classes"], eta=tables["eta"])
    except ValueError as error:
        raise UserError(f"{text['sentences']}: does not fit the tables beside it: {error}") from error
    positive = int((tables["classes"]["kind"] == POSITIVE).sum())
    source = PairSource(
        "phantom",
        images=images,
        reports=reports,
        patients=tables["reports"]["patient"].to_numpy(str),
        sentences=table,
        labels=chexpert_labels(findings),
        label_names=CHEX5,
        shown=statements_shown(tables["classes"], findings_said(table, reports, positive)),
    )
    write_pairs(source, pairs)
    log.info("%s images with %s sentences", f"{len(source.images):,}", f"{len(table):,}")


def write_eta_by_class(pairs: str | Path, *, classes: str | Path, table: str | Path) -> None:
    """Write the estimated η of each class's sentences beside the probability that an image shows what they say.

    Args:
        pairs: the sentences of a source (the parquet file of :func:`trueneg.data.pairs.pair_source.write_pairs`).
        classes: parquet file of :func:`trueneg.data.phantom.corpus.prepare_phantom`.
        table: parquet file to write, a row a class that occurs: ``class``, ``name``, ``kind``, ``sentences`` (how many), ``eta``
            (median), ``eta low`` and ``eta high`` (5th and 95th percentile), ``image probability``.

    Raises:
        UserError: if a table is missing or damaged.
    """
    of_class = privacy.read_table(pairs)[0].groupby("class")["eta"]
    found = of_class.agg(sentences="count", eta="median").reset_index()
    found["eta low"], found["eta high"] = of_class.quantile(0.05).to_numpy(), of_class.quantile(0.95).to_numpy()
    known = privacy.read_table(classes)[0].set_index("class").loc[found["class"]]
    parts = known[["severity", "finding", "side", "zone"]].fillna("").astype(str)
    found.insert(1, "name", parts.agg(lambda row: " ".join(filter(None, row)), axis=1).to_numpy())
    found.insert(2, "kind", known["kind"].to_numpy())
    privacy.write_table(found.assign(**{"image probability": known["image_probability"].to_numpy()}), table, restricted=False)
