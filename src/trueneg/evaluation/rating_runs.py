"""How finished image–text runs, and what needs no run, rank the negatives that people call false."""

import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from trueneg.compute.devices import leased_device
from trueneg.data.pairs.pair_source import PROBABILITY_COLUMNS, PairSource, read_pairs
from trueneg.data.pairs.pair_splits import PairSubset, read_pair_subsets
from trueneg.evaluation.human_ratings import (
    calibration,
    expert_agreement,
    false_negatives,
    rank_correlation,
    rates_by_anchor,
)
from trueneg.evaluation.implied_scores import captions_similarity, false_negative_probability, text_features, word_features
from trueneg.evaluation.pairs import encoded
from trueneg.evaluation.rated_pairs import RatedPairs, anchor_rows, area_rows, rated_pairs
from trueneg.evaluation.training_records import manifest_names
from trueneg.io.files import written_whole
from trueneg.store.records import read_rows
from trueneg.store.rows import IDENTITY
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training.image_text import ImageText
from trueneg.training.image_text_objectives import DIRECTIONS

log = logging.getLogger(__name__)

SIMILARITY = "similarity"
EXPERT, WORDS, TEXTS = "one expert", "TF-IDF", "text encoder at first"
CALIBRATION_COLUMNS = ["anchors", "bin", "pairs", "implied", "rated"]


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
    """Measure how the runs that a manifest lists rank false negatives, and how the probabilities that they imply are calibrated.

    Raises:
        UserError: if too little is rated.
    """
    torch.set_num_threads(settings["threads"])
    kept, table = RunStore(store), read_rows(ratings)
    listed, ranked, binned = read_manifest(manifest, kept), [], []
    with leased_device(device) as leased:
        for (run,) in encoded(listed, kept, {"source": source, "subsets": subsets}, leased):
            rated = rated_pairs(run.source, table, run.subset.test)
            scores = run.similarities(rated.texts, "test")
            labels = {**names, "seed": run.subset.seed, "run": run.id}
            ranked.append(area_rows({SIMILARITY: scores[rated.text, rated.image]}, rated).assign(**labels))
            binned.append(calibration_rows(kept.record(run.id)["settings"]["objective"], scores, rated).assign(**labels))
            log.info("seed %d: %s rated pairs", run.subset.seed, f"{len(rated.image):,}")
    _write(ranked, areas)
    _write(binned, bins)


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
    """Measure what needs no finished network: the experts against each other, words, the text encoder at first, and η.

    The manifest is of an objective that trains: its runs' settings tell the text encoder.
    """
    torch.set_num_threads(settings["threads"])
    kept, names = RunStore(store), manifest_names(manifest) | {"condition": "", "objective": "", "variant": ""}
    pairs, table, by_seed = read_pairs(source), read_rows(ratings), read_pair_subsets(subsets)
    ranked, of_captions, correlated = [], [], []
    with leased_device(device) as leased:
        for run in read_manifest(manifest, kept):
            subset, labels = by_seed[run["seed"]], {**names, "seed": run["seed"], "run": ""}
            rated = rated_pairs(pairs, table, subset.test)
            # What a training begins with: the very encoder whose cosine remove, reweight and resample go by.
            networks = ImageText(kept.record(run["id"])["settings"], run["seed"], pairs, subset, leased).networks
            networks.model.eval()
            features = {
                WORDS: word_features(rated.texts, training_captions(pairs, subset)),
                TEXTS: text_features(networks, rated.texts, leased),
            }
            experts = anchor_rows(EXPERT, rated, partial(expert_agreement, rated.ratings))
            ranked += [experts.assign(**labels), area_rows(text_scores(features, rated), rated).assign(**labels)]
            captions = eta_rows(rated)
            of_captions.append(captions.assign(**labels))
            correlated.append(correlation_rows(captions, run["seed"]).assign(**labels))
    _write(ranked, areas)
    _write(of_captions, eta)
    _write(correlated, correlations)


def calibration_rows(objective: Mapping[str, Any], scores: np.ndarray, rated: RatedPairs) -> pd.DataFrame:
    """The probability of being a false negative that an objective implies for each rated pair, beside what people say.

    BCL's 1 − p(TN), among all images (or captions) of the split but the anchor's own; DCL's and HCL's η of the anchor. An
    image's η is the mean of its captions', of which a batch draws one. The anchors are those of the objective's directions.

    Args:
        objective: a run's settings.
        scores: (T, m) similarities of texts and images.
        rated: pairs.

    Returns:
        ``anchors``, and the columns of :func:`trueneg.evaluation.human_ratings.calibration`; no row where the objective states
        no probability.
    """
    if "class_probability" not in objective:
        return pd.DataFrame(columns=CALIBRATION_COLUMNS)
    captions, given = rated.captions, objective["class_probability"]
    of_caption = captions[PROBABILITY_COLUMNS[given]] if isinstance(given, str) else pd.Series(float(given), captions.index)
    eta = {"text": of_caption.to_numpy(), "image": of_caption.groupby(captions["image"]).mean().to_numpy()}
    own = captions["image"].to_numpy()[:, None] == np.arange(len(rated.positions))
    false, parts = false_negatives(rated.ratings), []
    for kind in DIRECTIONS[objective["directions"]]:
        anchor, numbers = rated.anchors[kind], np.unique(rated.anchors[kind])
        implied = eta[kind][anchor]
        if objective["name"] == "bcl":
            matrix, mine, candidate = scores[captions["text"].to_numpy()], own, rated.image
            if kind == "image":
                matrix, mine, candidate = matrix.T, mine.T, rated.caption
            form = {key: objective[key] for key in ("alpha", "form")}
            found = false_negative_probability(matrix[numbers], mine[numbers], eta=eta[kind][numbers], **form)
            implied = found[np.searchsorted(numbers, anchor), candidate]
        parts.append(calibration(implied, false).assign(anchors=kind))
    return pd.concat(parts, ignore_index=True)[CALIBRATION_COLUMNS]


def text_scores(features: Mapping[str, Any], rated: RatedPairs) -> dict[str, np.ndarray]:
    """Similarity of the rated caption with the image's own captions, by kind of features: with the one that a batch draws (n, K),
    and the mean and the nearest of all (n,).
    """
    found = {}
    for name, values in features.items():
        each = captions_similarity(values, rated.text, rated.own_texts[rated.image])
        found |= {f"{name}, drawn": each, f"{name}, mean": each.mean(1), f"{name}, nearest": each.max(1)}
    return found


def eta_rows(rated: RatedPairs) -> pd.DataFrame:
    """What people say of each rated caption's images, beside every η that the source knows of the caption.

    Returns:
        A row a caption: ``anchor`` (its name), ``pairs``, ``rate``, ``mean rating``, and a column for each η, by its name in a
        config.
    """
    found = rates_by_anchor(rated.ratings, rated.caption)
    own = rated.captions.iloc[found["anchor"]].reset_index(drop=True)
    known = {name: own[column] for name, column in PROBABILITY_COLUMNS.items() if column in own}
    return found.assign(anchor=rated.anchor_names("text")[found["anchor"]], **known)


def correlation_rows(captions: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Spearman's ρ across captions of every η with the rate of false negatives, and with the mean rating.

    Args:
        captions: of :func:`eta_rows`.
        seed: of the bootstrap over captions.

    Returns:
        ``eta``, ``with``, ``rho``, ``low``, ``high`` (95 %; NaN where the η is constant), ``captions``.
    """
    found = []
    for name in (name for name in PROBABILITY_COLUMNS if name in captions):
        for outcome in ("rate", "mean rating"):
            interval = rank_correlation(captions[name], captions[outcome], seed=seed)
            ends = {"rho": interval.estimate, "low": interval.low, "high": interval.high}
            found.append({"eta": name, "with": outcome, **ends, "captions": len(captions)})
    return pd.DataFrame(found, columns=["eta", "with", "rho", "low", "high", "captions"])


def training_captions(source: PairSource, subset: PairSubset) -> list[str]:
    """The captions that a seed trains on."""
    return source.sentences.loc[source.sentences["report"].isin(source.reports[subset.train]), "sentence"].tolist()


def _write(parts: list[pd.DataFrame], path: str | Path) -> None:
    labels = IDENTITY
    table = pd.concat(parts, ignore_index=True)
    with written_whole(path) as temporary:
        table[[*labels, *(name for name in table.columns if name not in labels)]].to_parquet(temporary, index=False)
