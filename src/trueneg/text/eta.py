"""Compute η for every sentence, and the controls that need only text."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.class_probability import constant_of_same_mean, from_length, from_log_likelihood, permuted
from trueneg.text import privacy

log = logging.getLogger(__name__)


def write_class_probabilities(likelihoods: str | Path, *, settings: Mapping[str, Any], seed: int, eta: str | Path) -> None:
    """Convert likelihoods to class probabilities.

    Args:
        likelihoods: from :func:`trueneg.text.scoring.score_sentences`.
        settings: ``a``, ``k``, ``maximum``, ``per_token``.
        seed: seed of the permutation.
        eta: parquet file to write: ``report``, ``index``, ``eta``, and the controls ``eta permuted`` (the same values assigned to
            random sentences), ``eta constant`` (their mean) and ``eta by length`` (mean η of sentences of the same length).
    """
    table, restricted = privacy.read_table(likelihoods)
    tokens = table["tokens"].to_numpy()
    likelihood, per_token = table["log_likelihood"].to_numpy(), tokens if settings["per_token"] else None
    values = np.asarray(from_log_likelihood(likelihood, settings["a"], settings["k"], settings["maximum"], per_token))
    controls = {
        "eta permuted": permuted(values, seed),
        "eta constant": constant_of_same_mean(values),
        "eta by length": from_length(values, tokens),
    }
    log.info("η: mean %.4f, at least 0.01 for %.1f %% of sentences", values.mean(), 100 * (values >= 0.01).mean())
    privacy.write_table(table[["report", "index"]].assign(eta=values, **controls), eta, restricted)
