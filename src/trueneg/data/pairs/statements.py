"""Of which images a sentence is true: the one definition of a false negative for sentences and images."""

import numpy as np
import pandas as pd

from trueneg.data.phantom.reports import NEGATED


def statements_shown(classes: pd.DataFrame, findings: np.ndarray) -> np.ndarray:
    """Whether each image shows what a sentence of each class says. An image that does is a FALSE NEGATIVE of such a sentence.

    ==========  =================================================================================================
    class       true of an image
    ==========  =================================================================================================
    positive    that shows this class: the same finding, side, zone and severity
    negated     that shows no class of the finding which is denied
    filler      never: it says nothing that an image shows, so it has no false negatives and nothing is corrected
    ==========  =================================================================================================

    The expectation over images is ``image_probability`` of :class:`trueneg.data.phantom.reports.PhantomReports`, the true η
    of an anchor sentence (0 for filler).

    Args:
        classes: C rows with ``class`` (0 … C − 1, in order), ``kind`` (positive, negated, filler) and ``finding``.
        findings: bool, shape (n, P): which of the P positive classes, the first P rows, each image shows.

    Returns:
        bool, shape (n, C).

    Example:
        >>> kinds, findings = ["positive", "negated", "filler"], ["edema", "edema", "bones"]
        >>> classes = pd.DataFrame({"class": range(3), "kind": kinds, "finding": findings})
        >>> statements_shown(classes, np.array([[True], [False]])).tolist()
        [[True, False, False], [False, True, False]]
    """
    kinds, count = classes["kind"].to_numpy(), findings.shape[1]
    names = classes["finding"].to_numpy()
    shown = np.zeros((len(findings), len(classes)), dtype=bool)
    shown[:, :count] = findings
    for number in np.flatnonzero(kinds == NEGATED):
        shown[:, number] = ~findings[:, names[:count] == names[number]].any(1)
    return shown


def findings_said(sentences: pd.DataFrame, reports: np.ndarray, count: int) -> np.ndarray:
    """Which of the first ``count`` classes the report of each image says; in the phantom, what the image shows.

    Args:
        sentences: ``report``, ``class``.
        reports: (n,) id of each image's report.
        count: P.

    Returns:
        bool, shape (n, P).

    Example:
        >>> sentences = pd.DataFrame({"report": ["a", "a", "b"], "class": [1, 7, 0]})
        >>> findings_said(sentences, np.array(["b", "a"]), count=2).tolist()
        [[True, False], [False, True]]
    """
    positive = sentences[(sentences["class"] >= 0) & (sentences["class"] < count)]
    places = pd.Series(np.arange(len(reports))).groupby(reports).agg(list)
    said = np.zeros((len(reports), count), dtype=bool)
    for report, number in zip(positive["report"], positive["class"], strict=True):
        said[places.get(report, []), number] = True
    return said
