"""Determine which images a sentence is true of: the single definition of a false negative for
image–text data.
"""

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.phantom.classes import NEGATED


def statements_shown(classes: DataFrame, findings: ndarray) -> ndarray:
    """Return whether a sentence of each class is true of each image. If so, the image is a FALSE
    NEGATIVE for that sentence.

    ==========  ====================================================================================
    class       true of an image that
    ==========  ====================================================================================
    positive    shows this class: the same finding, side, zone and severity
    negated     shows no class of the denied finding
    filler      (never true: it says nothing about images, so it has no false negatives and needs no
    correction)
    ==========  ====================================================================================

    The expectation over images is ``image_probability`` of
    :class:`trueneg.data.phantom.reports.PhantomReports`, the true η of an anchor sentence (0 for
    filler).

    Args:
        classes: table of C rows with ``class`` (0 … C − 1, in order), ``kind`` (positive, negated,
            filler) and ``finding``.
        findings: bool, shape (n, P): which of the P positive classes (the first P rows of
            `classes`) each image shows.

    Returns:
        bool, shape (n, C).

    Example:
        >>> kinds, findings = ["positive", "negated", "filler"], ["edema", "edema", "bones"]
        >>> classes = pd.DataFrame({"class": range(3), "kind": kinds, "finding": findings})
        >>> statements_shown(classes, np.array([[True], [False]])).tolist()
        [[True, False, False], [False, True, False]]
    """
    kinds = classes["kind"].to_numpy()
    count = findings.shape[1]
    names = classes["finding"].to_numpy()
    shown = np.zeros((len(findings), len(classes)), dtype=bool)
    shown[:, :count] = findings
    for number in np.flatnonzero(kinds == NEGATED):
        shown[:, number] = ~findings[:, names[:count] == names[number]].any(1)
    return shown


def findings_said(sentences: DataFrame, reports: ndarray, count: int) -> ndarray:
    """Return which of the first ``count`` classes each image's report states; in the phantom, these
    are shown in the image.

    Args:
        sentences: table with ``report`` and ``class``.
        reports: (n,) id of each image's report.
        count: P, the number of positive classes.

    Returns:
        bool, shape (n, P).

    Example:
        >>> sentences = pd.DataFrame({"report": ["a", "a", "b"], "class": [1, 7, 0]})
        >>> findings_said(sentences, np.array(["b", "a"]), count=2).tolist()
        [[True, False], [False, True]]
    """
    said = pd.crosstab(sentences["report"], sentences["class"])
    return said.reindex(index=reports, columns=range(count), fill_value=0).to_numpy(bool)
