"""Synthetic radiology reports whose latent classes and class probabilities are known: the text half of the phantom.

A report has no, one or two findings, of different kinds, drawn with exactly the class probabilities of
:mod:`trueneg.data.phantom.classes`; sentences that deny findings which it does not have; and filler. How many wordings a
class has, how evenly they are used, and how long they are is drawn independently of how common the class is, unless a
correlation is
asked for: so nothing here makes a likely sentence the sentence of a common class.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from trueneg.data.phantom.classes import FINDINGS, PhantomClass, phantom_classes
from trueneg.data.phantom.wordings import PHRASES, Wordings, wordings_of
from trueneg.randomness import seed_for

FINDINGS_PER_REPORT = (0.3, 0.4, 0.3)  # probability of 0, 1, 2
DENIED, FILLED = 0.35, 0.3  # mean probability that a finding which is absent is denied, and that a filler occurs
POSITIVE, NEGATED, FILLER = "positive", "negated", "filler"
FILLERS = list(PHRASES[FILLER])


class PhantomReports(NamedTuple):
    """Reports with what is true of them.

    Attributes:
        reports: ``report``, ``text``.
        sentences: ``report``, ``index``, ``sentence``, ``class`` (row of `classes`), in order.
        classes: ``class``, ``kind`` (positive, negated, filler), ``finding``, ``side``, ``zone``, ``severity``,
            ``probability`` (of this class among all sentences: they sum to 1), ``image_probability`` (that a random radiograph
            shows what the sentence says; NaN for filler), ``entropy`` (nats, of its wordings) and ``words`` (mean length).
    """

    reports: pd.DataFrame
    sentences: pd.DataFrame
    classes: pd.DataFrame


def phantom_reports(count: int, seed: int, exponent: float = 1.0, correlation: float = 0.0) -> PhantomReports:
    """Draw reports; the same arguments give the same ones.

    Args:
        count: of reports.
        seed: of everything; the classes' ranks and wordings too.
        exponent: of Zipf's law over the fine classes.
        correlation: of a class's wording entropy, and of its length, with its log probability (both standardised): 0 makes them
            independent of how common it is, 1 makes common classes the most varied and longest, −1 the reverse.

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
    """How often each absent finding is denied, and each filler occurs: Zipf's law too, in an order of its own."""
    generator = np.random.default_rng(seed_for(seed, "phantom rates"))

    def zipf(size: int, mean: float) -> np.ndarray:
        shares = 1 / np.arange(1, size + 1)
        return np.minimum(generator.permutation(shares * mean * size / shares.sum()), 0.95)

    return zipf(len(FINDINGS), DENIED), zipf(len(FILLERS), FILLED)


def _class_table(findings: Sequence[PhantomClass], rates: tuple[np.ndarray, np.ndarray]) -> pd.DataFrame:
    """Expected sentences of a report by class are known, so the probability of a class among sentences is too."""
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
    # An empty report gets the first filler.
    empty = FINDINGS_PER_REPORT[0] * np.prod(1 - denied) * np.prod(1 - filled)
    rows[len(findings) + len(FINDINGS)] = (FILLER, FILLERS[0], "", "", "", filled[0] + empty, np.nan)
    columns = ["kind", "finding", "side", "zone", "severity", "expected", "image_probability"]
    table = pd.DataFrame(rows, columns=columns).rename_axis("class").reset_index()
    table.insert(6, "probability", table["expected"] / table["expected"].sum())
    return table.drop(columns="expected")


def _styles(probability: np.ndarray, correlation: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two scores a class, standardised, with exactly the correlation to the log probability, else uncorrelated."""
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
    """(n,) report and (n,) class of every sentence, in the order of the reports, and within a report in any order."""
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
            says[report, len(findings) + kind] = False  # what is there is not denied
    says[~says.any(1), len(findings) + len(denied)] = True  # a report says something: the first filler
    reports, classes = np.nonzero(says)
    order = np.lexsort((generator.random(len(reports)), reports))
    return reports[order], classes[order]


def _systematic(inclusion: np.ndarray, generator: np.random.Generator) -> list[int]:
    """Different elements with exactly these probabilities of inclusion, which sum to a whole number (Madow, 1949)."""
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
