"""What is known before training about a run's false negatives: how many to expect, and η, which
corrects for them.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from trueneg.class_probability import from_class_frequency, probability_of_shared_class
from trueneg.data.images.image_source import ImageSource
from trueneg.data.pairs.pair_source import PairSource, probability_name
from trueneg.data.samples import Subset
from trueneg.data.texts.text_source import TextSource
from trueneg.store.identity import model_of
from trueneg.text.cleaning import normalised

MOST = 0.99  # share of the anchors whose η is at most the one called ``most``
ETAS = ("class_probability", "switched_off_by")  # settings of an objective that hold η
# those with which a loss differs from the uncorrected one even if η is 0
OTHERS = ("alpha", "beta", "decoupled", "targets")

Facts = dict[str, Any]


def of_views(source: ImageSource, subset: Subset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on two views.

    Returns:
        ``negatives`` (N); ``expected``: number of them per anchor, by what they share with it;
            ``eta``: ``minimum``, ``mean``,
        ``most`` and ``maximum`` of the objective's η, if it has any; ``only_eta``: whether the loss
            differs from the uncorrected
        one only by η; ``draws``: how often the run draws each sample (``mean``), if the objective
            says how often it should at
        ``least``; ``warnings`` of the objective, if it has any.
    """
    labels = source.labels[subset.train]
    labels = labels[labels >= 0]
    eta = {"low": subset.eta_low, "high": subset.eta_high, "true": from_class_frequency(labels)}
    expected = {"classes": probability_of_shared_class(labels, np.ones(len(labels)))}
    negatives = 2 * settings["training"]["batch_size"] - 2
    return _facts(settings, negatives, expected, lambda value: eta.get(value, value)) | _draws(
        settings, len(subset.train)
    )


def of_pairs(source: PairSource, subset: Subset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on pairs, as :func:`of_views` does; anchors are the texts.

    ``texts`` counts ``all`` training sentences, and those that are ``repeated``: equal to another
    one after normalisation.
    """
    rows, weights, numbers = _trained(source, subset, settings["training"]["unit"])
    table = source.sentences.iloc[rows]
    expected = {"texts": probability_of_shared_class(numbers, weights)}
    if "eta true" in table:
        expected["matches"] = np.average(table["eta true"], weights=weights)
    eta_of = functools.partial(_eta, source, settings["objective"], rows)
    reports = (
        len(set(source.reports[subset.train].tolist()))
        if settings["training"]["unit"] == "study"
        else None
    )
    facts = _facts(settings, settings["training"]["batch_size"] - 1, expected, eta_of) | _repeated(
        numbers
    )
    return facts | _draws(settings, len(subset.train), reports)


def of_texts(source: TextSource, subset: Subset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on pairs of texts, as :func:`of_pairs` does."""
    labels, numbers, batch = (
        source.labels[subset.train],
        source.text_numbers[subset.train, 0],
        settings["training"]["batch_size"],
    )
    negatives = batch * (source.pairs.shape[1] - 1 if len(source.pairs) else 1) - 1
    expected = {"texts": probability_of_shared_class(numbers, np.ones(len(numbers)))}
    if source.label_names:  # which hard negatives lack
        expected["classes"] = (
            probability_of_shared_class(labels, np.ones(len(labels))) * (batch - 1) / negatives
        )
    eta_of = functools.partial(
        _eta,
        source,
        settings["objective"],
        source.anchors[subset.train],
        from_class_frequency(labels),
    )
    return (
        _facts(settings, negatives, expected, eta_of)
        | _repeated(numbers)
        | _draws(settings, len(subset.train))
    )


def _eta(source: Any, objective: Mapping[str, Any], rows: np.ndarray, *true: Any) -> Any:
    """Return η as one number, or as one per row of a source's sentences; None: not computed yet.

    Args:
        source: sentences with class probabilities.
        objective: settings of the objective.
        rows: rows of the sentences.
        true: the true η if the source does not hold it, then a setting that names η.
    """
    *known, value = true
    if not isinstance(value, str | Mapping):
        return value
    if known and probability_name(value) == "true":
        return known[0]
    is_ready = probability_name(value) in source.class_probabilities
    return (
        source.class_probability(probability_name(value), objective.get("a"), objective.get("k"))[
            rows
        ]
        if is_ready
        else None
    )


def _repeated(numbers: np.ndarray) -> Facts:
    """Return how many texts there are, given a number for each, and how many of them equal another
    one.
    """
    return {
        "texts": {"all": len(numbers), "repeated": int((np.bincount(numbers)[numbers] > 1).sum())}
    }


@functools.lru_cache(1)
def _trained(
    source: PairSource, subset: Subset, unit: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows of the training sentences, how often an epoch draws each, and a number for
    each normalised text.
    """
    reports, images = (
        source.sentences["report"],
        pd.Series(source.reports[subset.train]).value_counts(),
    )
    rows = np.flatnonzero(reports.isin(images.index))
    weights = (reports.map(images) if unit == "image" else 1.0) / reports.groupby(
        reports
    ).transform("size")
    text_of, texts = source.sentences["sentence"].iloc[rows].factorize()
    return rows, weights.to_numpy()[rows], pd.Index(texts).map(normalised).factorize()[0][text_of]


def _facts(
    settings: Mapping[str, Any],
    negatives: int,
    shares: Mapping[str, float],
    eta_of: Callable[[Any], Any],
) -> Facts:
    objective = settings["objective"]
    facts: Facts = {
        "negatives": negatives,
        "expected": {key: float(negatives * share) for key, share in shares.items()},
    }
    model: Any = model_of(settings, "objective")
    if warnings := model.warnings(settings, negatives):
        facts["warnings"] = warnings
    for value in (objective[key] for key in ETAS if objective.get(key) is not None):
        if (eta := eta_of(value)) is not None:
            numbers = (*np.quantile(eta, (0, MOST, 1)), np.mean(eta))
            facts["eta"] = dict(
                zip(("minimum", "most", "maximum", "mean"), map(float, numbers), strict=True)
            )
            facts["only_eta"] = not any(objective.get(key) for key in OTHERS)
    return facts


def _draws(settings: Mapping[str, Any], samples: int, per_epoch: int | None = None) -> Facts:
    """Return how often a run draws each of its samples, if the objective needs that; by default,
    once per epoch.
    """
    training, least = settings["training"], getattr(model_of(settings, "objective"), "DRAWS", 0)
    if not least:
        return {}
    updates = training["updates"] or training["epochs"] * (
        (per_epoch or samples) // training["batch_size"]
    )
    return {"draws": {"mean": updates * training["batch_size"] / samples, "least": least}}
