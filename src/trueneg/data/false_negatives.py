"""What is known before training about a run's false negatives: how many to expect, and η, which corrects for them."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from trueneg.class_probability import from_class_frequency, probability_of_shared_class
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import Subset
from trueneg.data.pairs.pair_source import PairSource, probability_name
from trueneg.data.pairs.pair_splits import PairSubset

MOST = 0.99  # share of the anchors whose η is at most the one called ``most``
ETAS = ("class_probability", "switched_off_by")  # settings of an objective that hold η
OTHERS = ("alpha", "beta", "decoupled", "targets")  # those with which a loss differs from the uncorrected one even if η is 0

Facts = dict[str, Any]


def of_views(source: ImageSource, subset: Subset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on two views.

    Returns:
        ``negatives`` (N); ``expected``: number of them per anchor, by what they share with it; ``eta``: ``minimum``, ``mean``,
        ``most`` and ``maximum`` of the objective's η, if it has any; ``only_eta``: whether the loss differs from the uncorrected
        one only by η.
    """
    labels = source.labels[subset.train]
    labels = labels[labels >= 0]
    eta = {"low": subset.eta_low, "high": subset.eta_high, "true": from_class_frequency(labels)}
    expected = {"classes": probability_of_shared_class(labels, np.ones(len(labels)))}
    return _facts(settings, 2 * settings["training"]["batch_size"] - 2, expected, lambda value: eta.get(value, value))


def of_pairs(source: PairSource, subset: PairSubset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on pairs, as :func:`of_views` does; anchors are the texts."""
    objective, (rows, weights) = settings["objective"], _trained(source, subset, settings["training"]["unit"])
    table = source.sentences.iloc[rows]
    expected = {"texts": probability_of_shared_class(table["sentence"].factorize()[0], weights)}
    if "eta true" in table:
        expected["matches"] = np.average(table["eta true"], weights=weights)

    def eta_of(value: Any) -> Any:
        if not isinstance(value, str | Mapping):
            return value
        name = probability_name(value)
        is_ready = name in source.class_probabilities
        return source.class_probability(name, objective.get("a"), objective.get("k"))[rows] if is_ready else None

    return _facts(settings, settings["training"]["batch_size"] - 1, expected, eta_of)


@functools.lru_cache(1)
def _trained(source: PairSource, subset: PairSubset, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the training sentences, and how often an epoch draws each of them on average."""
    reports, images = source.sentences["report"], pd.Series(source.reports[subset.train]).value_counts()
    rows = np.flatnonzero(reports.isin(images.index))
    weights = (reports.map(images) if unit == "image" else 1.0) / reports.groupby(reports).transform("size")
    return rows, weights.to_numpy()[rows]


def _facts(settings: Mapping[str, Any], negatives: int, shares: Mapping[str, float], eta_of: Callable[[Any], Any]) -> Facts:
    objective = settings["objective"]
    facts: Facts = {"negatives": negatives, "expected": {key: float(negatives * share) for key, share in shares.items()}}
    for value in (objective[key] for key in ETAS if objective.get(key) is not None):
        if (eta := eta_of(value)) is not None:
            numbers = (*np.quantile(eta, (0, MOST, 1)), np.mean(eta))
            facts["eta"] = dict(zip(("minimum", "most", "maximum", "mean"), map(float, numbers), strict=True))
            facts["only_eta"] = not any(objective.get(key) for key in OTHERS)
    return facts
