"""Test whether class probability is log-linear in likelihood.

Scores sentences with known classes in several ways and writes tidy tables without text.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame, Series

from trueneg.io import privacy
from trueneg.text.folds import with_folds
from trueneg.text.log_linear import bootstrap_spearman, fit_log_linear, weighted_spearman
from trueneg.text.words import WORD_OR_MARK

log = logging.getLogger(__name__)

# kinds of phantom classes and a class of Open-I that affirm no finding
NORMAL = ("negated", "filler", "normal")
COLUMNS = [
    "corpus",
    "scorer",
    "class",
    "finding",
    "log_class_probability",
    "log_likelihood",
    "tokens",
    "count",
]
ALL = "all sentences"
FINDINGS = "findings only"


def check_assumption(
    sentences: str | Path,
    *,
    assigned: str | Path,
    classes: str | Path,
    likelihoods: Mapping[str, str | Path],
    corpus: str,
    folds: int,
    seed: int,
    tables: Mapping[str, str | Path],
) -> None:
    """Compare likelihoods with class probabilities, for language models and simpler baselines.

    Unigrams and sentences are counted in the reports of the other folds, on which the language
    models are also trained.

    Args:
        sentences: table written by :func:`trueneg.text.sentences.split_reports`.
        assigned: table with ``report``, ``index`` and ``class`` of the sentences with a known
            class.
        classes: table with ``class``, ``probability`` and optionally ``kind``.
        likelihoods: for each language model, the file written by
            :func:`trueneg.text.scoring.score_sentences`.
        corpus: name of the corpus.
        folds: number of folds used for the language models.
        seed: the study's seed.
        tables: three parquet files to write. ``points`` has one row per unique sentence, class and
            scorer: ``corpus``, ``scorer``, ``class``, ``finding`` (whether the sentence affirms
            one), ``log_class_probability``, ``log_likelihood``, ``tokens``, ``count``. It contains
            no text. ``summary`` is described in :func:`summarise`. ``calibration`` has the columns
            ``corpus``, ``sentences``, ``scorer``, ``bin``, ``texts``, ``log_likelihood``,
            ``predicted``, ``actual``.

    Raises:
        UserError: if a table is missing or damaged.
    """
    table, restricted = privacy.read_table(sentences)
    truth = privacy.read_table(classes)[0].set_index("class")
    table = with_folds(table, folds, seed).merge(
        privacy.read_table(assigned)[0], on=["report", "index"], how="left"
    )
    frames = []
    for name, path in likelihoods.items():
        scores = privacy.read_table(path)[0][["report", "index", "log_likelihood", "tokens"]]
        frames.append(table.merge(scores, on=["report", "index"], how="left").assign(scorer=name))
    frames += [cross_fitted(table, scorer).assign(scorer=name) for name, scorer in SIMPLE.items()]
    scored = pd.concat(frames).dropna(subset="class")
    points = (
        scored.groupby(["scorer", "sentence", "class"], sort=False)
        .agg(
            log_likelihood=("log_likelihood", "mean"),
            tokens=("tokens", "first"),
            count=("report", "size"),
        )
        .reset_index()
    )
    kinds = truth["kind"] if "kind" in truth else truth.index.to_series()
    points["finding"] = ~points["class"].map(kinds).isin(NORMAL)
    # Round, because means of equal numbers can differ in the last digit and would then get
    # different ranks.
    points["log_likelihood"] = points["log_likelihood"].round(9)
    points["log_class_probability"] = np.log(points["class"].map(truth["probability"]))
    points = points.astype({"class": str}).assign(corpus=corpus)[COLUMNS]
    totals, bins = summarise(points, seed)
    for row in totals.itertuples():
        log.info(
            f"{row.corpus}, {row.sentences}, {row.scorer}: Spearman {row.spearman:.3f}"
            f" [{row.low:.3f}, {row.high:.3f}]",
        )
    for name, frame in (("points", points), ("summary", totals), ("calibration", bins)):
        privacy.write_table(frame, tables[name], restricted)


def summarise(points: DataFrame, seed: int, draws: int = 1000) -> tuple[DataFrame, DataFrame]:
    """Compute rank correlation, fit and calibration of every scorer, on all sentences and on those
    that affirm a finding.

    Args:
        points: table written by :func:`check_assumption`.
        seed: seed of the bootstrap.
        draws: number of bootstrap samples.

    Returns:
        A table with ``corpus``, ``sentences``, ``scorer``, ``texts`` (with repetitions),
            ``unique``, ``classes``, ``spearman``, ``low`` and ``high`` (its 95 % interval over
            classes), ``spearman of classes`` (from the mean likelihood of each class, with equal
            weights), ``a``, ``k`` and ``error`` (mean |predicted − actual| class probability); and
            the calibration table.
    """
    rows = []
    bins = []
    for (corpus, scorer), frame in points.groupby(["corpus", "scorer"], sort=False):
        for name, chosen in ((ALL, frame), (FINDINGS, frame[frame["finding"]])):
            x = chosen["log_likelihood"].to_numpy()
            y = chosen["log_class_probability"].to_numpy()
            count = chosen["count"].to_numpy()
            if len(np.unique(x)) < 2:
                continue
            keys: dict[str, Any] = {"corpus": corpus, "sentences": name, "scorer": scorer}
            groups = pd.factorize(chosen["class"])[0]
            fit = fit_log_linear(x, np.exp(y), count)
            low, high = bootstrap_spearman(x, y, count, groups, seed, draws)
            weight = np.bincount(groups, count)
            mean_x, mean_y = (np.bincount(groups, values * count) / weight for values in (x, y))
            of_classes = weighted_spearman(mean_x, mean_y, np.ones(len(weight)))
            error = float(np.average(np.abs(fit.a * np.exp(fit.k * x) - np.exp(y)), weights=count))
            rows.append(
                {
                    **keys,
                    "texts": int(count.sum()),
                    "unique": len(chosen),
                    "classes": len(weight),
                    "spearman": fit.spearman,
                    "low": low,
                    "high": high,
                    "spearman of classes": of_classes,
                    "a": fit.a,
                    "k": fit.k,
                    "error": error,
                }
            )
            bins.append(fit.calibration.rename_axis("bin").reset_index().assign(**keys))
    return DataFrame(rows), pd.concat(bins, ignore_index=True)


def unigram(training: Iterable[str], sentences: Sequence[str]) -> ndarray:
    """Return (S,) sums of log (count + 1)/(total + vocabulary + 1) over each sentence's words, with
    counts from `training`.

    Example:
        >>> unigram(["Clear lungs."], ["Clear lungs."]).round(
        ...     4
        ... ).tolist()  # three tokens, 2/(3 + 3 + 1) each
        [-3.7583]
    """
    counts = Counter(word for sentence in training for word in words_of(sentence))
    total = counts.total() + len(counts) + 1

    def score(sentence: str) -> float:
        return sum(np.log((counts[word] + 1) / total) for word in words_of(sentence))

    return np.array([score(sentence) for sentence in sentences])


def frequency(training: Iterable[str], sentences: Sequence[str]) -> ndarray:
    """Return (S,) values log (count + 1)/(total + unique sentences + 1), one per whole sentence,
    with counts from `training`.

    Example:
        >>> frequency(["Clear lungs."], ["Clear lungs.", "Edema."]).round(4).tolist()
        [-0.4055, -1.0986]
    """
    counts = Counter(training)
    total = counts.total() + len(counts) + 1
    return np.array([np.log((counts[sentence] + 1) / total) for sentence in sentences])


def shortness(training: Iterable[str], sentences: Sequence[str]) -> ndarray:
    """Return (S,) negated word counts: the baseline that uses length alone."""
    return -np.array([len(words_of(sentence)) for sentence in sentences], float)


SIMPLE = {"unigram": unigram, "sentence frequency": frequency, "length": shortness}


def cross_fitted(
    sentences: DataFrame, scorer: Callable[[Iterable[str], Sequence[str]], ndarray]
) -> DataFrame:
    """Score each sentence with counts from the other folds.

    Args:
        sentences: table with ``sentence`` and ``fold``.
        scorer: function (training sentences, sentences) → (S,) scores.

    Returns:
        The sentences with added columns ``log_likelihood`` and ``tokens`` (number of words).
    """
    parts = []
    for fold, part in sentences.groupby("fold"):
        unique = part["sentence"].unique().tolist()
        training = sentences.loc[sentences["fold"] != fold, "sentence"]
        parts.append(part["sentence"].map(Series(scorer(training, unique), unique)))
    return sentences.assign(
        log_likelihood=pd.concat(parts), tokens=sentences["sentence"].map(words_of).map(len)
    )


def words_of(sentence: str) -> list[str]:
    """Split a sentence into lower-case words and punctuation marks; see :mod:`trueneg.text.words`.

    Example:
        >>> words_of("No 1.4 cm nodule.")
        ['no', '1', '.', '4', 'cm', 'nodule', '.']
    """
    return WORD_OR_MARK.findall(sentence.lower())
