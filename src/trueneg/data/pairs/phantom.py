"""The phantom as image–text data: radiographs, the sentences of their reports, and the ground truth
about both.
"""

import numpy as np
from pandas import DataFrame

from trueneg.data.pairs.pair_images import PairImages, Tables, check_count
from trueneg.data.pairs.statements import findings_said, statements_shown
from trueneg.data.phantom.classes import POSITIVE
from trueneg.data.phantom.radiographs import (
    CHEX5,
    chexpert_labels,
    phantom_images,
    positive_classes,
)
from trueneg.specs.sections import Section


def read_images(settings: Section, tables: Tables, threads: int) -> PairImages:
    """Draw the radiographs of synthetic reports, given ``contrast`` and ``seed``; the table
    ``boxes`` locates the findings.
    """
    check_count(
        settings["images"],
        len(tables["reports"]),
        "reports (reports.reports of the likelihood study)",
    )
    reports = tables["reports"].iloc[: settings["images"]]
    assigned = tables["assigned"]
    if settings["images"] is not None:
        assigned = assigned[assigned["report"].isin(reports["report"])].reset_index(drop=True)
    findings = positive_classes(reports["report"].tolist(), assigned)
    images, boxes = phantom_images(
        findings, settings["resolution"], settings["seed"], settings["contrast"], threads
    )
    names = np.array(list(findings))
    positive = int((tables["classes"]["kind"] == POSITIVE).sum())
    return PairImages(
        images,
        names,
        reports["patient"].to_numpy(str),
        labels=DataFrame(chexpert_labels(findings), columns=list(CHEX5)),
        assigned=assigned,
        probabilities=tables["classes"],
        shown=statements_shown(tables["classes"], findings_said(assigned, names, positive)),
        tables={"boxes": boxes},
    )
