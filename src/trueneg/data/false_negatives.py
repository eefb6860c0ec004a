"""What is known before training about a run's false negatives: how many to expect, and η, which
corrects for them.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import Series

from trueneg.class_probability import from_class_frequency, probability_of_shared_class
from trueneg.data.images.image_source import ImageSource
from trueneg.data.pairs.pair_source import PairSource, probability_name
from trueneg.data.samples import Subset
from trueneg.data.texts.text_rows import about_certain, cells_of_source
from trueneg.data.texts.text_source import TextSource
from trueneg.legible import counted
from trueneg.specs.sections import RunSettings, Section
from trueneg.store.identity import model_of
from trueneg.text.cleaning import normalised

MOST = 0.99  # share of the anchors whose η is at most the one called ``most``
ETAS = ("class_probability", "switched_off_by")  # settings of an objective that hold η
# those with which a loss differs from the uncorrected one even if η is 0
OTHERS = ("alpha", "beta", "decoupled", "targets")

Facts = dict[str, Any]


def of_views(source: ImageSource, subset: Subset, settings: RunSettings) -> Facts:
    """Return the facts of a run on two views.

    Returns:
        ``negatives`` (N); ``expected``: number of them per anchor, by what they share with it;
            ``eta``: ``minimum``, ``mean``, ``most`` and ``maximum`` of the objective's η, if it has
            any; ``only_eta``: whether the loss differs from the uncorrected one only by η;
            ``draws``: how often the run draws each sample (``mean``), if the objective says how
            often it should at ``least``; ``warnings`` of the objective, if it has any.
    """
    labels = source.labels[subset.train]
    labels = labels[labels >= 0]
    eta = {"low": subset.eta_low, "high": subset.eta_high, "true": from_class_frequency(labels)}
    expected = {"classes": probability_of_shared_class(labels, np.ones(len(labels)))}
    negatives = 2 * settings["training"]["batch_size"] - 2
    return _facts(settings, negatives, expected, lambda value: eta.get(value, value)) | _draws(
        settings, len(subset.train)
    )


def of_pairs(source: PairSource, subset: Subset, settings: RunSettings) -> Facts:
    """Return the facts of a run on pairs, as :func:`of_views` does; anchors are the texts.

    ``texts`` counts ``all`` training sentences, and those that are ``repeated``: equal to another
    one after normalisation. ``certain`` is a sentence about hard negatives that are not images
    of the training split.
    """
    unit = settings["training"]["unit"]
    rows, weights, numbers = _trained(source, subset, unit)
    table = source.sentences.iloc[rows]
    batch = settings["training"]["batch_size"]
    negatives = batch * (1 + source.negatives.shape[1]) - 1
    # It is not known which of the hard negatives are false.
    in_batch = (batch - 1) / negatives
    expected = {"texts": probability_of_shared_class(numbers, weights) * in_batch}
    if "eta true" in table:
        expected["matches"] = np.average(table["eta true"], weights=weights) * in_batch
    eta_of = functools.partial(_eta, source, settings["objective"], rows, None)
    facts = _facts(settings, negatives, expected, eta_of)
    hard = source.negatives[rows]
    count = int((hard >= 0).sum())
    if outside := count - int(np.isin(hard, subset.train).sum()):
        facts["certain"] = (
            f"{outside:,} of {counted(count, 'hard negative')} are left out, because they"
            " are not images of the training split"
        )
    per_epoch = len(subset.train)
    if unit == "study":
        per_epoch = len(set(source.reports[subset.train].tolist()))
    return facts | _repeated(numbers) | _draws(settings, len(subset.train), per_epoch)


def of_texts(source: TextSource, subset: Subset, settings: RunSettings) -> Facts:
    """Return the facts of a run on pairs of texts, as :func:`of_pairs` does.

    ``certain`` is a sentence about given hard negatives that are false whatever a model says.
    """
    labels = source.labels[subset.train]
    numbers = source.text_numbers[subset.train, 0]
    batch = settings["training"]["batch_size"]
    mined = settings["objective"].get("hard_negatives")
    given = source.rows.shape[1] - source.matching.shape[1]
    negatives = batch * (1 + (given if mined is None else mined["num_negatives"])) - 1
    expected = {"texts": probability_of_shared_class(numbers, np.ones(len(numbers)))}
    # Hard negatives lack the label of their anchor where it decides the positives; of given pairs,
    # it is for `trueneg audit` to count those that have it.
    is_known = mined is None and not (given and source.has_positives)
    if source.label_names and is_known:
        shared = probability_of_shared_class(labels, np.ones(len(labels)))
        expected["classes"] = shared * (batch - 1) / negatives
    rows = source.anchors[subset.train]
    true = from_class_frequency(labels) if source.label_names else None
    eta_of = functools.partial(_eta, source, settings["objective"], rows, true)
    facts = _facts(settings, negatives, expected, eta_of)
    if given:
        facts["certain"] = _certain(source, subset)
    return facts | _repeated(numbers) | _draws(settings, len(subset.train))


@functools.lru_cache(1)
def _certain(source: TextSource, subset: Subset) -> str:
    return about_certain(cells_of_source(source, subset.train))


def _eta(
    source: PairSource | TextSource,
    objective: Section,
    rows: ndarray,
    true: Any,
    value: Any,
) -> Any:
    """Return η as one number, or as one per row of a source's sentences; None: not computed yet.

    Args:
        source: sentences with class probabilities.
        objective: settings of the objective.
        rows: rows of the sentences.
        true: the true η; None: the source holds it.
        value: a setting that names η.
    """
    if not isinstance(value, str | Mapping):
        return value
    name = probability_name(value)
    if true is not None and name == "true":
        return true
    if name not in source.class_probabilities:
        return None
    return source.class_probability(name, objective.get("a"), objective.get("k"))[rows]


def _repeated(numbers: ndarray) -> Facts:
    """Return how many texts there are, given a number for each, and how many of them equal another
    one.
    """
    repeated = np.bincount(numbers)[numbers] > 1
    return {"texts": {"all": len(numbers), "repeated": int(repeated.sum())}}


@functools.lru_cache(1)
def _trained(source: PairSource, subset: Subset, unit: str) -> tuple[ndarray, ndarray, ndarray]:
    """Return the rows of the training sentences, how often an epoch draws each, and a number for
    each normalised text.
    """
    reports = source.sentences["report"]
    images = Series(source.reports[subset.train]).value_counts()
    rows = np.flatnonzero(reports.isin(images.index))
    drawn = reports.map(images) if unit == "image" else 1.0
    weights = drawn / reports.groupby(reports).transform("size")
    text_of, texts = source.sentences["sentence"].iloc[rows].factorize()
    numbers, _ = pd.Index(texts).map(normalised).factorize()
    return rows, weights.to_numpy()[rows], numbers[text_of]


def _facts(
    settings: RunSettings,
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
    for key in ETAS:
        eta = eta_of(objective[key]) if objective.get(key) is not None else None
        if eta is not None:
            minimum, most, maximum = np.quantile(eta, (0, MOST, 1)).tolist()
            facts["eta"] = {
                "minimum": minimum,
                "most": most,
                "maximum": maximum,
                "mean": float(np.mean(eta)),
            }
            facts["only_eta"] = not any(objective.get(other) for other in OTHERS)
    return facts


def _draws(settings: RunSettings, samples: int, per_epoch: int | None = None) -> Facts:
    """Return how often a run draws each of its samples, if the objective needs that; by default,
    once per epoch.
    """
    training = settings["training"]
    least = getattr(model_of(settings, "objective"), "DRAWS", 0)
    if not least:
        return {}
    per_epoch = (per_epoch or samples) // training["batch_size"]
    updates = training["updates"] or training["epochs"] * per_epoch
    return {"draws": {"mean": updates * training["batch_size"] / samples, "least": least}}
