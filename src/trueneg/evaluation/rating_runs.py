"""Measure how finished image–text runs, and references that need no run, rank negatives that people rate as false."""

import itertools
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import PROBABILITY_COLUMNS
from trueneg.evaluation.evaluate import Data, encoded_runs
from trueneg.evaluation.human_ratings import (
    calibration,
    expert_agreement,
    false_negatives,
    rank_correlation,
    rates_by_anchor,
)
from trueneg.evaluation.implied_scores import (
    captions_similarity,
    drawn_areas,
    false_negative_probability,
    text_features,
    word_features,
)
from trueneg.evaluation.rated_pairs import RatedPairs, anchor_rows, rated_pairs
from trueneg.evaluation.training_records import manifest_names, write_tables
from trueneg.store.records import read_rows
from trueneg.store.run_store import RunStore
from trueneg.training.image_text import ImageText
from trueneg.training.image_text_objectives import DIRECTIONS

log = logging.getLogger(__name__)

SIMILARITY = "similarity"
EXPERT, WORDS, TEXTS = "one expert", "TF-IDF", "text encoder at first"


def rate_runs(
    *,
    source: str | Path,
    ratings: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    names: Mapping[str, str],
    store: str | Path,
    settings: Mapping[str, Any],
    device: str,
    areas: str | Path,
    bins: str | Path,
) -> None:
    """Measure how well a manifest's runs rank false negatives and how well their implied probabilities are calibrated.

    Raises:
        UserError: if too few pairs are rated.
    """
    kept, table, ranked, binned = RunStore(store), read_rows(ratings), [], []
    with encoded_runs(manifest, store, Data(source, subsets), device, settings["threads"]) as (_, runs):
        for (run,) in runs:
            rated = rated_pairs(run.source, table, run.subset.test)
            scores = run.similarities(rated.texts, "test")
            labels = {**names, "seed": run.subset.seed, "run": run.id}
            similarity = partial(drawn_areas, scores[rated.text, rated.image])
            ranked.append(anchor_rows({SIMILARITY: similarity}, rated).assign(**labels))
            binned.append(calibration_rows(kept.record(run.id)["settings"]["objective"], scores, rated).assign(**labels))
            log.info("seed %d: %s rated pairs", run.subset.seed, f"{len(rated.image):,}")
    write_tables({areas: pd.concat(ranked, ignore_index=True), bins: pd.concat(binned, ignore_index=True)})


def rate_references(
    *,
    source: str | Path,
    ratings: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    store: str | Path,
    settings: Mapping[str, Any],
    device: str,
    areas: str | Path,
    eta: str | Path,
    correlations: str | Path,
) -> None:
    """Measure references that need no trained network: agreement of experts, words, the initial text encoder, and η.

    The manifest must list the runs of a trained objective; their settings determine the text encoder.
    """
    kept, table = RunStore(store), read_rows(ratings)
    names = manifest_names(manifest) | {"condition": "", "objective": "", "variant": "", "run": ""}
    ranked, of_captions, correlated = [], [], []
    with encoded_runs(manifest, store, Data(source, subsets), device, settings["threads"]) as (_, runs):
        for (run,) in runs:
            seed, subset, pairs = run.subset.seed, run.subset, run.source
            rated, labels = rated_pairs(pairs, table, subset.test), {**names, "seed": seed}
            # The same encoder that training starts from; remove, reweight and resample use its cosine.
            networks = ImageText(kept.record(run.id)["settings"], seed, pairs, subset, run.device).networks
            networks.model.eval()
            trained_on = pairs.sentences["report"].isin(pairs.reports[subset.train])
            features = {
                WORDS: word_features(rated.texts, pairs.sentences.loc[trained_on, "sentence"].tolist()),
                TEXTS: text_features(networks, rated.texts, run.device),
            }
            scores = {name: partial(drawn_areas, values) for name, values in text_scores(features, rated).items()}
            ranked.append(anchor_rows({EXPERT: expert_agreement, **scores}, rated).assign(**labels))
            captions = eta_rows(rated)
            of_captions.append(captions.assign(**labels))
            correlated.append(correlation_rows(captions, seed).assign(**labels))
    tables = {areas: ranked, eta: of_captions, correlations: correlated}
    write_tables({path: pd.concat(parts, ignore_index=True) for path, parts in tables.items()})


def calibration_rows(objective: Mapping[str, Any], scores: np.ndarray, rated: RatedPairs) -> pd.DataFrame:
    """Compare the probability of a false negative that an objective implies for each rated pair with the human ratings.

    The probability is 1 − p(TN) for BCL, among all images (or captions) of the split except the anchor's own, and the anchor's
    η for DCL and HCL. An image's η is the mean over its captions, of which a batch draws one. The objective's directions
    determine the anchors.

    Args:
        objective: objective settings of a run.
        scores: (T, m) similarities of texts and images.
        rated: the rated pairs.

    Returns:
        ``anchors`` and the columns of :func:`trueneg.evaluation.human_ratings.calibration`; no rows if the objective implies
        no probability.
    """
    if "class_probability" not in objective:
        return pd.DataFrame(columns=["bin", "pairs", "implied", "rated", "anchors"])
    captions, given = rated.captions, objective["class_probability"]
    of_caption = captions[PROBABILITY_COLUMNS[given]] if isinstance(given, str) else pd.Series(float(given), captions.index)
    eta = {"text": of_caption.to_numpy(), "image": of_caption.groupby(captions["image"]).mean().to_numpy()}
    by_caption = scores[captions["text"].to_numpy()]
    own = captions["image"].to_numpy()[:, None] == np.arange(len(rated.positions))
    grids = {"text": (by_caption, own), "image": (by_caption.T, own.T)}
    parts = []
    for kind in DIRECTIONS[objective["directions"]]:
        implied = eta[kind][rated.anchors[kind]]
        if objective["name"] == "bcl":
            found = false_negative_probability(*grids[kind], alpha=objective["alpha"], eta=eta[kind], form=objective["form"])
            implied = (found if kind == "text" else found.T)[rated.caption, rated.image]
        parts.append(calibration(implied, false_negatives(rated.ratings)).assign(anchors=kind))
    return pd.concat(parts, ignore_index=True)


def text_scores(features: Mapping[str, Any], rated: RatedPairs) -> dict[str, np.ndarray]:
    """Return similarities of the rated caption with the image's own captions, by name of features and aggregation.

    ``drawn``: with each caption that a batch may draw (n, K); ``mean`` and ``nearest``: over all captions (n,).
    """
    found: dict[str, np.ndarray] = {}
    for name, values in features.items():
        each = captions_similarity(values, rated.text, rated.own_texts[rated.image])
        found |= {f"{name}, drawn": each, f"{name}, mean": each.mean(1), f"{name}, nearest": each.max(1)}
    return found


def eta_rows(rated: RatedPairs) -> pd.DataFrame:
    """Return the ratings of each rated caption's images together with every η that the source provides for the caption.

    Returns:
        One row per caption: ``anchor`` (its name), ``pairs``, ``rate``, ``mean rating``, and one column per η, with its name in
        a config.
    """
    found = rates_by_anchor(rated.ratings, rated.caption)
    own = rated.captions.iloc[found["anchor"]].reset_index(drop=True)
    known = {name: own[column] for name, column in PROBABILITY_COLUMNS.items() if column in own}
    return found.assign(anchor=rated.anchor_names("text")[found["anchor"]], **known)


def correlation_rows(captions: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Compute Spearman's ρ over captions of each η with the rate of false negatives and with the mean rating.

    Args:
        captions: table returned by :func:`eta_rows`.
        seed: seed for the bootstrap over captions.

    Returns:
        ``eta``, ``with``, ``rho``, ``low``, ``high`` (95 %; NaN if η is constant), ``captions``.
    """
    found = []
    for name, outcome in itertools.product(PROBABILITY_COLUMNS, ("rate", "mean rating")):
        if name in captions:
            found.append((name, outcome, *rank_correlation(captions[name], captions[outcome], seed=seed), len(captions)))
    return pd.DataFrame(found, columns=["eta", "with", "rho", "low", "high", "captions"])
