"""Compute η for every sentence, and controls derived from these values."""

import logging
from pathlib import Path

from trueneg.class_probability import LIKELIHOODS, PERMUTED, log_linear
from trueneg.io import privacy
from trueneg.randomness import rng_for
from trueneg.specs.sections import Section

log = logging.getLogger(__name__)


def write_class_probabilities(
    likelihoods: str | Path, *, settings: Section, seed: int, eta: str | Path
) -> None:
    """Convert likelihoods to class probabilities.

    Args:
        likelihoods: table written by :func:`trueneg.text.scoring.score_sentences`.
        settings: ``a``, ``k``, ``maximum``, ``per_token``.
        seed: seed of the permutation.
        eta: parquet file to write: ``report``, ``index``, ``eta``, its controls ``eta permuted``,
            ``eta constant`` and ``eta by length`` (:func:`trueneg.class_probability.log_linear`),
            and what another a and k need: ``log_likelihood`` (per token if so set), the same values
            permuted, and ``tokens``.
    """
    table, restricted = privacy.read_table(likelihoods)
    if settings["per_token"]:
        table["log_likelihood"] /= table["tokens"]
    generator = rng_for(seed, "permuted class probabilities")
    table[PERMUTED] = generator.permutation(table["log_likelihood"])
    names = {
        "eta": "language model",
        "eta permuted": "permuted",
        "eta constant": "constant mean",
        "eta by length": "length",
    }
    etas = {
        column: log_linear(name, table, settings["a"], settings["k"], settings["maximum"])
        for column, name in names.items()
    }
    log.info(
        f"η: mean {etas['eta'].mean():.4f}, at least 0.01 for {(etas['eta'] >= 0.01).mean():.1%}"
        " of sentences"
    )
    privacy.write_table(table[["report", "index", *LIKELIHOODS]].assign(**etas), eta, restricted)
