"""Synthetic radiology reports with known latent classes and class probabilities: the text of the phantom.

A report has zero, one or two findings of different types, drawn with exactly the class probabilities of
:mod:`trueneg.data.phantom.classes`; sentences that deny absent findings; and filler. The number of wordings of a class, how
evenly they are used, and their length are drawn independently of the frequency of the class, unless a correlation is set.
Therefore, by default, a likely sentence does not indicate a common class.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from trueneg.data.phantom.classes import FINDINGS, PhantomClass, phantom_classes
from trueneg.data.phantom.wordings import PHRASES, Wordings, wordings_of
from trueneg.randomness import seed_for

FINDINGS_PER_REPORT = (0.3, 0.4, 0.3)  # probabilities of 0, 1 and 2 findings
DENIED, FILLED = 0.35, 0.3  # mean probabilities that an absent finding is denied and that a filler occurs
POSITIVE, NEGATED, FILLER = "positive", "negated", "filler"
FILLERS = list(PHRASES[FILLER])


class PhantomReports(NamedTuple):
    """Reports with their ground truth.

    Attributes:
        reports: ``report``, ``text``.
        sentences: ``report``, ``index``, ``sentence``, ``class`` (row of `classes`), in order.
        classes: ``class``, ``kind`` (positive, negated, filler), ``finding``, ``side``, ``zone``, ``severity``,
            ``probability`` (of the class among all sentences; sums to 1), ``image_probability`` (probability that the sentence
            is true of a random radiograph; NaN for filler), ``entropy`` (of its wordings, in nats) and ``words`` (mean length).
    """

    reports: pd.DataFrame
    sentences: pd.DataFrame
    classes: pd.DataFrame


def phantom_reports(count: int, seed: int, exponent: float = 1.0, correlation: float = 0.0) -> PhantomReports:
    """Draw reports; the same arguments yield the same reports.

    Args:
        count: number of reports.
        seed: seed of all random draws, including the classes' ranks and wordings.
        exponent: exponent of Zipf's law over the fine-grained classes.
        correlation: correlation of a class's wording entropy, and of its length, with its log probability (all standardised):
            with 0 they are independent of the frequency of the class, with 1 common classes have the most varied and longest
            wordings, with −1 the reverse.

    Example:
        >>> made = phantom_reports(200, seed=0)
        >>> made.classes["probability"].sum().round(9), (made.classes["kind"] == "positive").sum()
        (np.float64(1.0), np.int64(51))
    """
    findings = phantom_classes(exponent, seed)
    rates = _rates(seed)
    classes = _class_table(findings, rates)
    entropy, length = _styles(classes["probability"].to_numpy(), correlation, seed)
    wordings = wordings_of(classes, entropy, length, seed)
    classes["entropy"] = [one.entropy for one in wordings]
    classes["words"] = [one.mean_length for one in wordings]
    drawn = _draw(count, findings, rates, seed)
    sentences = _write(drawn, wordings, seed)
    texts = sentences.groupby("report", sort=False)["sentence"].agg(" ".join).reset_index(name="text")
    return PhantomReports(texts, sentences, classes)


def _rates(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates at which absent findings are denied and fillers occur; both follow Zipf's law in an order of their own."""
    generator = np.random.default_rng(seed_for(seed, "phantom rates"))

    def zipf(size: int, mean: float) -> np.ndarray:
        shares = 1 / np.arange(1, size + 1)
        return np.minimum(generator.permutation(shares * mean * size / shares.sum()), 0.95)

    return zipf(len(FINDINGS), DENIED), zipf(len(FILLERS), FILLED)


def _class_table(findings: Sequence[PhantomClass], rates: tuple[np.ndarray, np.ndarray]) -> pd.DataFrame:
    """Compute class probabilities among sentences from the known expected number of sentences per report and class."""
    denied, filled = rates
    per_report = np.dot(np.arange(len(FINDINGS_PER_REPORT)), FINDINGS_PER_REPORT)
    rows = [
        (POSITIVE, one.finding, one.side, one.zone, one.severity, per_report * one.probability, per_report * one.probability)
        for one in findings
    ]
    for finding, rate in zip(FINDINGS, denied, strict=True):
        absent = 1 - per_report * sum(one.probability for one in findings if one.finding == finding.name)
        rows.append((NEGATED, finding.name, "", "", "", rate * absent, absent))
    rows += [(FILLER, name, "", "", "", rate, np.nan) for name, rate in zip(FILLERS, filled, strict=True)]
    # A report without sentences gets the first filler.
    empty = FINDINGS_PER_REPORT[0] * np.prod(1 - denied) * np.prod(1 - filled)
    rows[len(findings) + len(FINDINGS)] = (FILLER, FILLERS[0], "", "", "", filled[0] + empty, np.nan)
    columns = ["kind", "finding", "side", "zone", "severity", "expected", "image_probability"]
    table = pd.DataFrame(rows, columns=columns).rename_axis("class").reset_index()
    table.insert(6, "probability", table["expected"] / table["expected"].sum())
    return table.drop(columns="expected")


def _styles(probability: np.ndarray, correlation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw two standardised scores per class with the exact correlation to the log probability, otherwise uncorrelated."""
    generator = np.random.default_rng(seed_for(seed, "phantom styles"))
    known = [np.ones(len(probability))]
    noise = []
    for values in (np.log(probability), *generator.normal(size=(2, len(probability)))):
        for other in known:
            values = values - other * (values @ other) / (other @ other)
        known.append(values / values.std())
        noise.append(known[-1])
    common, *others = noise
    return tuple(correlation * common + np.sqrt(1 - correlation**2) * other for other in others)


def _draw(
    count: int, findings: Sequence[PhantomClass], rates: tuple[np.ndarray, np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the report (n,) and class (n,) of every sentence, ordered by report and in random order within a report."""
    generator = np.random.default_rng(seed_for(seed, "phantom reports"))
    denied, filled = rates
    of_finding = [[one for one in findings if one.finding == finding.name] for finding in FINDINGS]
    shares = np.array([sum(one.probability for one in group) for group in of_finding])
    edges = [np.cumsum([one.probability for one in group]) / share for group, share in zip(of_finding, shares, strict=True)]
    numbers = generator.choice(len(FINDINGS_PER_REPORT), count, p=FINDINGS_PER_REPORT)
    says = np.concatenate(
        [np.zeros((count, len(findings)), bool), generator.random((count, len(denied) + len(filled))) < np.r_[denied, filled]],
        axis=1,
    )
    for report in np.flatnonzero(numbers):
        for kind in _systematic(shares * numbers[report], generator):
            place = min(int(np.searchsorted(edges[kind], generator.random(), side="right")), len(edges[kind]) - 1)
            says[report, of_finding[kind][place].number] = True
            says[report, len(findings) + kind] = False  # findings that are present are not denied
    says[~says.any(1), len(findings) + len(denied)] = True  # reports without sentences get the first filler
    reports, classes = np.nonzero(says)
    order = np.lexsort((generator.random(len(reports)), reports))
    return reports[order], classes[order]


def _systematic(inclusion: np.ndarray, generator: np.random.Generator) -> list[int]:
    """Draw distinct elements with exactly these inclusion probabilities, which must sum to an integer (Madow, 1949)."""
    order = generator.permutation(len(inclusion))
    edges = np.cumsum(inclusion[order])
    points = generator.random() + np.arange(round(edges[-1]))
    return order[np.minimum(np.searchsorted(edges, points, side="right"), len(order) - 1)].tolist()


def _write(drawn: tuple[np.ndarray, np.ndarray], wordings: Sequence[Wordings], seed: int) -> pd.DataFrame:
    generator = np.random.default_rng(seed_for(seed, "phantom words"))
    table = pd.DataFrame(dict(zip(("report", "class"), drawn, strict=True)))
    table["sentence"] = ""
    for number, one in enumerate(wordings):
        places = np.flatnonzero(table["class"] == number)
        picked = generator.choice(len(one.texts), len(places), p=one.probability)
        table.loc[places, "sentence"] = np.array(one.texts, dtype=object)[picked]
    table["index"] = table.groupby("report").cumcount().astype("int32")
    table["report"] = "P" + table["report"].astype(str).str.zfill(6)
    return table[["report", "index", "sentence", "class"]]
