"""What is known before training about a run's false negatives: how many to expect, and how many its objective corrects for."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from trueneg.class_probability import expected_false_negatives, from_class_frequency
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import Subset
from trueneg.data.pairs.pair_source import PairSource, probability_name
from trueneg.data.pairs.pair_splits import PairSubset
from trueneg.store.identity import model_of

MOST = 0.99  # share of the anchors whose η is at most the one called ``most``
ETAS = ("class_probability", "switched_off_by")  # settings of an objective that hold η

Facts = dict[str, Any]


def of_views(source: ImageSource, subset: Subset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on two views: ``negatives`` (N), ``expected``, ``frequencies``, ``eta`` and ``dose``.

    ``expected``: number of negatives per anchor by what they share with it. ``frequencies``: smallest and largest share of a
    class, for rare and common classes if any class is rare. ``eta``: range of each η that the objective uses. ``dose``: what the
    objective corrects for, in negatives per anchor (:attr:`trueneg.specs.objectives.base.Objective.DOSE`).
    """
    labels, rare = source.labels[subset.train], subset.rare_classes
    negatives = 2 * settings["training"]["batch_size"] - 2
    shares = np.bincount(labels[labels >= 0], minlength=len(source.class_names)) / (labels >= 0).sum()
    is_rare = np.isin(np.arange(len(shares)), rare)
    groups = {"rare": shares[is_rare], "common": shares[~is_rare]} if rare else {"": shares}
    eta = {"low": subset.eta_low, "high": subset.eta_high, "true": np.asarray(from_class_frequency(labels[labels >= 0]))}
    expected = {"classes": expected_false_negatives(labels, negatives)}
    frequencies = {group: [float(part.min()), float(part.max())] for group, part in groups.items()}
    return _facts(settings, negatives, expected, lambda value: eta.get(value, value)) | {"frequencies": frequencies}


def of_pairs(source: PairSource, subset: PairSubset, settings: Mapping[str, Any]) -> Facts:
    """Return the facts of a run on pairs, as :func:`of_views` does; anchors are the texts."""
    negatives, objective = settings["training"]["batch_size"] - 1, settings["objective"]
    shares, is_trained = _shares(source, subset, settings["training"]["unit"])

    def eta_of(value: Any) -> Any:
        if not isinstance(value, str | Mapping):
            return value
        name = probability_name(value)
        is_known = name in source.class_probabilities
        return source.class_probability(name, objective.get("a"), objective.get("k"))[is_trained] if is_known else None

    return _facts(settings, negatives, {key: negatives * share for key, share in shares.items()}, eta_of)


@functools.lru_cache(1)
def _shares(source: PairSource, subset: PairSubset, unit: str) -> tuple[dict[str, float], np.ndarray]:
    """Return the share of the other pairs that have an anchor's text or match it, and which sentences are trained on."""
    reports, images = np.unique(source.reports[subset.train], return_counts=True)
    is_trained = source.sentences["report"].isin(reports).to_numpy()
    table = source.sentences[is_trained]
    owners = np.searchsorted(reports, table["report"].to_numpy(reports.dtype))
    repeats = images if unit == "image" else np.ones_like(images)
    shares = {"texts": expected_false_negatives(table["sentence"].factorize()[0], 1, owners, repeats)}
    if "eta true" in table:
        shares["matches"] = float(np.average(table["eta true"], weights=(repeats / np.bincount(owners))[owners]))
    return shares, is_trained


def _facts(settings: Mapping[str, Any], negatives: int, expected: dict[str, float], eta_of: Callable[[Any], Any]) -> Facts:
    objective: Any = settings["objective"]
    model: Any = model_of(settings, "objective")
    eta = {}
    for key in ETAS:
        values = None if objective.get(key) is None else eta_of(objective[key])
        if values is not None:
            numbers = (*np.quantile(values, (0, 0.5, MOST, 1)), np.mean(values))
            eta[key] = dict(zip(("minimum", "median", "most", "maximum", "mean"), map(float, numbers), strict=True))
    doses = expected | {key: negatives * of["most"] for key, of in eta.items()}
    return {"negatives": negatives, "expected": expected, "eta": eta, "dose": doses.get(model.dose(objective))}
