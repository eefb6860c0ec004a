"""Measure how well image–text runs, and references without a trained network, rank false negatives
found by human raters.
"""

import itertools
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame, Series
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import TfidfVectorizer
from torch.nn import functional

from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.scored_sentences import PROBABILITY_COLUMNS
from trueneg.evaluation.evaluate import encoded_runs
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
)
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.evaluation.rated_pairs import RatedCaptions, anchor_rows, rated_pairs
from trueneg.io.files import write_tables
from trueneg.losses.cross_modal import DIRECTIONS
from trueneg.specs.sections import Section
from trueneg.store.evaluations import listed_for
from trueneg.store.records import Manifest, read_json, read_rows
from trueneg.store.run_store import RunStore
from trueneg.text.words import TERM
from trueneg.training.text_similarity import embeddings_of

log = logging.getLogger(__name__)

Measure = Callable[[EmbeddedPairs, RatedCaptions, Mapping[str, Any]], dict[str, DataFrame]]
REFERENCE = dict.fromkeys(("condition", "objective", "variant", "run"), "")  # names of no objective


def measure_ratings(
    measure: Measure,
    tables: Mapping[str, str | Path],
    *,
    ratings: str | Path,
    names: Mapping[str, str],
    settings: Section,
    **block: Any,
) -> None:
    """Apply `measure` to the rated pairs of each run of a manifest; write its tables, labelled by
    seed and run.

    Args:
        measure: :func:`of_run` or :func:`of_references`, which maps an encoded run, its rated pairs
            and its settings to tables by name.
        tables: output parquet files by name.
        ratings: parquet file with the ratings (:func:`trueneg.data.pairs.flickr8k.read_ratings`).
        names: columns that label the tables; missing ones are taken from the manifest, and ``run``
            is the run's id by default.
        settings: the study's evaluation settings.
        block: further arguments of :func:`trueneg.evaluation.evaluate.encoded_runs`.

    Raises:
        UserError: if too few pairs are rated.
    """
    all_ratings = read_rows(ratings)
    names = {**listed_for(read_json(block["manifest"], Manifest)), **names}
    store = RunStore(block["store"])
    parts: dict[str, list[DataFrame]] = {name: [] for name in tables}
    with encoded_runs(threads=settings["threads"], **block) as encoded:
        for (run,) in encoded:
            rated = rated_pairs(run.source, all_ratings, run.subset.test)
            seed = run.subset.seed
            measured = measure(run, rated, store.record(run.id)["settings"])
            for name, table in measured.items():
                parts[name].append(table.assign(**{"run": run.id, **names}, seed=seed))
            log.info(f"seed {seed}: {len(rated.image):,} rated pairs")
    write_tables({tables[name]: pd.concat(part, ignore_index=True) for name, part in parts.items()})


def of_run(run: EmbeddedPairs, rated: RatedCaptions, settings: Section) -> dict[str, DataFrame]:
    """Return how well a trained run's similarity ranks false negatives (``areas``:
    :func:`trueneg.evaluation.rated_pairs.anchor_rows`), and how well its objective's implied
    probability is calibrated (``bins``: :func:`calibration_rows`).
    """
    scores = run.similarities(rated.texts, "test")
    similarity = partial(drawn_areas, scores[rated.text, rated.image])
    return {
        "areas": anchor_rows({"similarity": similarity}, rated),
        "bins": calibration_rows(settings["objective"], scores, rated, run.source),
    }


def of_references(
    run: EmbeddedPairs, rated: RatedCaptions, settings: Section
) -> dict[str, DataFrame]:
    """Return the same for scores that need no training: expert agreement, TF-IDF, and embeddings by
    a language model or a frozen tower (``areas``); and η by caption (``eta``: :func:`eta_rows`)
    with its correlations (``correlations``: :func:`correlation_rows`).
    """
    pairs, subset = run.source, run.subset
    trained_on = pairs.sentences["report"].isin(pairs.reports[subset.train])
    corpus = pairs.sentences.loc[trained_on, "sentence"].tolist()
    # The text criterion of the remove, reweight and resample objectives is the cosine between these
    # embeddings.
    embeddings = embeddings_of(pairs, rated.texts, run.device) - embeddings_of(
        pairs, corpus, run.device
    ).mean(0)
    # words outside the corpus are ignored
    vectors = TfidfVectorizer(tokenizer=TERM.findall, token_pattern=None).fit(corpus)
    features = {
        "TF-IDF": csr_array(vectors.transform(rated.texts)),
        "language model": functional.normalize(embeddings, dim=1).cpu().numpy(),
    }
    frozen = run.networks.frozen
    if frozen.texts is not None:
        tower = torch.from_numpy(
            frozen.texts.values[[frozen.rows[text] for text in rated.texts], 0, :, 0]
        )
        features["text tower"] = functional.normalize(tower, dim=1).numpy()
    scores = {
        name: partial(drawn_areas, values) for name, values in text_scores(features, rated).items()
    }
    captions = eta_rows(rated)
    return {
        "areas": anchor_rows({"one expert": expert_agreement, **scores}, rated),
        "eta": captions,
        "correlations": correlation_rows(captions, subset.seed),
    }


def calibration_rows(
    objective: Section, scores: ndarray, rated: RatedCaptions, source: PairSource
) -> DataFrame:
    """Compare the probability of a false negative that an objective implies for each rated pair
    with the human ratings.

    For BCL, the probability is 1 − p(TN), where all images (or captions) of the split except the
    anchor's own are negatives; for DCL and HCL, it is the anchor's η. The η of an image is the mean
    over its captions, of which a batch draws one. The objective's directions determine the anchors.

    Args:
        objective: objective settings of a run.
        scores: (T, m) similarities between texts and images.
        rated: the rated pairs.
        source: source of the captions and their class probabilities.

    Returns:
        ``anchors`` and the columns of :func:`trueneg.evaluation.human_ratings.calibration`; no rows
            if the objective implies no probability.
    """
    if "class_probability" not in objective:
        return DataFrame(columns=["bin", "pairs", "implied", "rated", "anchors"])
    captions = rated.captions
    eta_or_name = objective["class_probability"]
    if isinstance(eta_or_name, str):
        of_sentence = source.class_probability(eta_or_name, objective.get("a"), objective.get("k"))
        of_caption = Series(of_sentence[captions["row"]], captions.index)
    else:
        of_caption = Series(float(eta_or_name), captions.index)
    eta = {
        "text": of_caption.to_numpy(),
        "image": of_caption.groupby(captions["image"]).mean().to_numpy(),
    }
    by_caption = scores[captions["text"].to_numpy()]
    is_own = captions["image"].to_numpy()[:, None] == np.arange(len(rated.positions))
    grids = {"text": (by_caption, is_own), "image": (by_caption.T, is_own.T)}
    parts = []
    for kind in DIRECTIONS[objective["directions"]]:
        implied = eta[kind][rated.anchors[kind]]
        if "alpha" in objective:  # the probability also depends on the similarity
            grid = false_negative_probability(
                *grids[kind], alpha=objective["alpha"], eta=eta[kind], form=objective["form"]
            )
            implied = (grid if kind == "text" else grid.T)[rated.caption, rated.image]
        parts.append(calibration(implied, false_negatives(rated.ratings)).assign(anchors=kind))
    return pd.concat(parts, ignore_index=True)


def text_scores(features: Mapping[str, Any], rated: RatedCaptions) -> dict[str, ndarray]:
    """Return similarities between each rated caption and the captions of the rated image, by
    features and aggregation.

    ``drawn``: one per caption of the image, any of which a batch may draw (n, K); ``mean``,
    ``nearest``: their mean and maximum.
    """
    scores: dict[str, ndarray] = {}
    for name, values in features.items():
        drawn = captions_similarity(values, rated.text, rated.own_texts[rated.image])
        scores |= {
            f"{name}, drawn": drawn,
            f"{name}, mean": drawn.mean(1),
            f"{name}, nearest": drawn.max(1),
        }
    return scores


def eta_rows(rated: RatedCaptions) -> DataFrame:
    """Summarise each caption's ratings over its rated images, and add every η that the source
    provides for the caption.

    Returns:
        One row per caption: ``anchor`` (its name), ``pairs``, ``rate`` (share of false negatives),
            ``mean rating``, and one column per η, named as in the config.
    """
    rates = rates_by_anchor(rated.ratings, rated.caption)
    captions = rated.captions.iloc[rates["anchor"]].reset_index(drop=True)
    etas = {
        name: captions[column] for name, column in PROBABILITY_COLUMNS.items() if column in captions
    }
    return rates.assign(anchor=rated.anchor_names("text")[rates["anchor"]], **etas)


def correlation_rows(captions: DataFrame, seed: int) -> DataFrame:
    """Compute Spearman's ρ over captions between each η and the rate of false negatives, and
    between each η and the mean rating.

    Args:
        captions: table returned by :func:`eta_rows`.
        seed: seed for the bootstrap over captions.

    Returns:
        ``eta``, ``with``, ``rho``, ``low``, ``high`` (95 %; NaN if η is constant), ``captions``.
    """
    pairs = itertools.product(
        [name for name in PROBABILITY_COLUMNS if name in captions], ("rate", "mean rating")
    )
    rows = [
        (eta, outcome, *rank_correlation(captions[eta], captions[outcome], seed=seed))
        for eta, outcome in pairs
    ]
    return DataFrame(rows, columns=["eta", "with", "rho", "low", "high"]).assign(
        captions=len(captions)
    )
