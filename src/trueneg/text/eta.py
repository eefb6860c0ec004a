"""Compute η for every sentence, and controls derived from these values."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.class_probability import from_log_likelihood
from trueneg.io import privacy
from trueneg.randomness import seed_for

log = logging.getLogger(__name__)


def write_class_probabilities(likelihoods: str | Path, *, settings: Mapping[str, Any], seed: int, eta: str | Path) -> None:
    """Convert likelihoods to class probabilities.

    Args:
        likelihoods: table written by :func:`trueneg.text.scoring.score_sentences`.
        settings: ``a``, ``k``, ``maximum``, ``per_token``.
        seed: seed of the permutation.
        eta: parquet file to write: ``report``, ``index``, ``eta``, and the controls ``eta permuted`` (the same values assigned to
            random sentences), ``eta constant`` (their mean: the same correction for every sentence) and ``eta by length`` (mean η
            of sentences of the same length; if it performs as well as η, the language model adds nothing beyond length).
    """
    table, restricted = privacy.read_table(likelihoods)
    likelihood, tokens = table["log_likelihood"].to_numpy(), table["tokens"].to_numpy()
    per_token = tokens if settings["per_token"] else None
    values = np.asarray(from_log_likelihood(likelihood, settings["a"], settings["k"], settings["maximum"], per_token))
    _, length, counts = np.unique(tokens, return_inverse=True, return_counts=True)
    controls = {
        "eta permuted": np.random.default_rng(seed_for(seed, "permuted class probabilities")).permutation(values),
        "eta constant": np.mean(values),
        "eta by length": (np.bincount(length, values) / counts)[length],
    }
    log.info("η: mean %.4f, at least 0.01 for %.1f %% of sentences", values.mean(), 100 * (values >= 0.01).mean())
    privacy.write_table(table[["report", "index"]].assign(eta=values, **controls), eta, restricted)
