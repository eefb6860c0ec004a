"""Synthetic radiology reports with known latent classes and class probabilities: the text of the
phantom.

A report has zero, one or two findings of different types, drawn with exactly the class
probabilities of :mod:`trueneg.data.phantom.classes`; sentences that deny absent findings; and
filler. The number of wordings of a class, how evenly they are used, and their length are drawn
independently of the frequency of the class, unless a correlation is set. Therefore, by default, a
likely sentence does not indicate a common class.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.phantom.classes import FILLER, FINDINGS, OWNERS, TABLE, class_probability
from trueneg.data.phantom.wordings import Wordings, wordings_of
from trueneg.randomness import rng_for

FINDINGS_PER_REPORT = (0.3, 0.4, 0.3)  # probabilities of 0, 1 and 2 findings
DENIED = 0.35  # mean probability that an absent finding is denied
FILLED = 0.3  # mean probability that a filler sentence occurs
# class of the only sentence of an otherwise empty report
FIRST_FILLER = int((TABLE["kind"] == FILLER).argmax())


class PhantomReports(NamedTuple):
    """Reports with their ground truth.

    Attributes:
        reports: ``report``, ``text``.
        sentences: ``report``, ``index``, ``sentence``, ``class`` (row of `classes`), in order.
        classes: ``class``, ``kind`` (positive, negated, filler), ``finding``, ``side``, ``zone``,
            ``severity``, ``probability`` (of the class among all sentences; sums to 1),
            ``image_probability`` (probability that the sentence is true of a random radiograph; NaN
            for filler), ``entropy`` (of its wordings, in nats) and ``words`` (mean length).
    """

    reports: DataFrame
    sentences: DataFrame
    classes: DataFrame


def phantom_reports(
    count: int, seed: int, exponent: float = 1.0, correlation: float = 0.0
) -> PhantomReports:
    """Draw reports; the same arguments yield the same reports.

    Args:
        count: number of reports.
        seed: seed of all random draws, including the classes' ranks and wordings.
        exponent: exponent of Zipf's law over the positive classes.
        correlation: correlation of the entropy and the length of a class's wordings with its log
            probability (all standardised): with 0 they are independent of the frequency of the
            class, with 1 common classes have the most varied and longest wordings, with −1 the
            reverse.

    Example:
        >>> made = phantom_reports(200, seed=0)
        >>> round(float(made.classes["probability"].sum()), 9)
        1.0
        >>> int((made.classes["kind"] == "positive").sum())
        51
    """
    probability = class_probability(exponent, seed)
    rates = _rates(seed)
    classes = _class_table(probability, *rates)
    entropy, length = _styles(classes["probability"].to_numpy(), correlation, seed)
    wordings = wordings_of(classes, entropy, length, seed)
    classes["entropy"] = [-(share * np.log(share)).sum() for _, share in wordings]
    classes["words"] = [
        float(share @ [len(text.split()) for text in texts]) for texts, share in wordings
    ]
    sentences = _write(_draw(count, probability, *rates, seed), wordings, seed)
    texts = (
        sentences.groupby("report", sort=False)["sentence"].agg(" ".join).reset_index(name="text")
    )
    return PhantomReports(texts, sentences, classes)


def _rates(seed: int) -> tuple[ndarray, ndarray]:
    """Draw the rates at which absent findings are denied and fillers occur; each follows Zipf's law
    in its own order.
    """
    generator = rng_for(seed, "phantom rates")

    def zipf(size: int, mean: float) -> ndarray:
        shares = 1 / np.arange(1, size + 1)
        return np.minimum(generator.permutation(shares * mean * size / shares.sum()), 0.95)

    return zipf(len(FINDINGS), DENIED), zipf(len(TABLE) - FIRST_FILLER, FILLED)


def _class_table(probability: ndarray, denied: ndarray, filled: ndarray) -> DataFrame:
    """Compute class probabilities among sentences from the expected number of sentences per report
    and class.
    """
    shown = np.dot(np.arange(len(FINDINGS_PER_REPORT)), FINDINGS_PER_REPORT) * probability
    absent = 1 - np.bincount(OWNERS, shown)
    expected = np.concatenate([shown, denied * absent, filled])
    expected[FIRST_FILLER] += FINDINGS_PER_REPORT[0] * np.prod(1 - denied) * np.prod(1 - filled)
    classes = TABLE.drop(columns="extent").rename_axis("class").reset_index()
    return classes.assign(
        probability=expected / expected.sum(),
        image_probability=np.concatenate([shown, absent, np.full(len(filled), np.nan)]),
    )


def _styles(probability: ndarray, correlation: float, seed: int) -> tuple[ndarray, ndarray]:
    """Draw two standardised scores per class that have exactly the given correlation with the log
    probability.
    """
    generator = rng_for(seed, "phantom styles")
    scores = [np.ones(len(probability))]
    for values in (np.log(probability), *generator.normal(size=(2, len(probability)))):
        for other in scores:
            values = values - other * (values @ other) / (other @ other)
        scores.append(values / values.std())
    _, common, *others = scores
    return tuple(correlation * common + np.sqrt(1 - correlation**2) * other for other in others)


def _draw(
    count: int, probability: ndarray, denied: ndarray, filled: ndarray, seed: int
) -> DataFrame:
    """Draw the ``report`` and ``class`` of every sentence, ordered by report and in random order
    within a report.
    """
    generator = rng_for(seed, "phantom reports")
    members = [np.flatnonzero(finding == OWNERS) for finding in range(len(FINDINGS))]
    shares = np.bincount(OWNERS, probability)
    numbers = generator.choice(len(FINDINGS_PER_REPORT), count, p=FINDINGS_PER_REPORT)
    says = np.zeros((count, len(TABLE)), bool)
    says[:, len(probability) :] = generator.random(
        (count, len(denied) + len(filled))
    ) < np.concatenate([denied, filled])
    for report in np.flatnonzero(numbers):
        for finding in _systematic(shares * numbers[report], generator):
            candidates = members[finding]
            says[
                report, generator.choice(candidates, p=probability[candidates] / shares[finding])
            ] = True
            # findings that are present are not denied
            says[report, len(probability) + finding] = False
    says[~says.any(1), FIRST_FILLER] = True
    reports, classes = np.nonzero(says)
    order = np.lexsort((generator.random(len(reports)), reports))
    return DataFrame({"report": reports[order], "class": classes[order]})


def _systematic(inclusion: ndarray, generator: np.random.Generator) -> list[int]:
    """Draw distinct elements with exactly these inclusion probabilities, which must sum to an
    integer (Madow, 1949).
    """
    order = generator.permutation(len(inclusion))
    edges = np.cumsum(inclusion[order])
    points = generator.random() + np.arange(round(edges[-1]))
    return order[np.minimum(np.searchsorted(edges, points, side="right"), len(order) - 1)].tolist()


def _write(drawn: DataFrame, wordings: Sequence[Wordings], seed: int) -> DataFrame:
    """Draw the wording of every sentence."""
    generator = rng_for(seed, "phantom words")
    sentences = np.empty(len(drawn), object)
    for number, (texts, probability) in enumerate(wordings):
        places = np.flatnonzero(drawn["class"] == number)
        sentences[places] = generator.choice(texts, len(places), p=probability)
    index = drawn.groupby("report").cumcount().astype("int32")
    return DataFrame(
        {
            "report": [f"P{report:06}" for report in drawn["report"]],
            "index": index,
            "sentence": sentences,
            "class": drawn["class"],
        }
    )
