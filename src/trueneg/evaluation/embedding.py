"""Two-dimensional t-SNE embeddings of features, and the silhouettes of the same images, for
figures.
"""

import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray
from openTSNE import TSNE
from pandas import DataFrame
from sklearn.metrics import silhouette_samples

from trueneg.data.mining import normalised_vectors
from trueneg.evaluation.evaluate import first_run
from trueneg.evaluation.images.linear_probe import label_subset
from trueneg.io.files import write_tables
from trueneg.randomness import seed_for

log = logging.getLogger(__name__)

ROUNDING = 1e-6  # differences between normalised float32 features that may be noise


def embed_run(*, images: int, threads: int, embedding: str | Path, **block: Any) -> None:
    """Write t-SNE coordinates and silhouettes of the test images, encoded by the first run of a
    manifest.

    The test images are the same for all objectives of a seed.

    Args:
        images: maximum number of images; if there are more, a stratified subset is used.
        threads: number of CPU threads.
        embedding: output parquet file.
        block: further arguments of :func:`trueneg.evaluation.evaluate.first_run`.
    """
    with first_run(threads=threads, **block) as (run, names):
        test, seed = run.subset.test, run.subset.seed
    if len(test) > images:
        test = test[label_subset(run.source.labels[test], images / len(test), seed)]
    labels = run.source.labels[test]
    class_names = np.array(run.source.class_names)
    features = run.of(test)[0].cpu().numpy()
    table = DataFrame(tsne(features, seed, jobs=threads), columns=["x", "y"]).assign(
        silhouette=silhouettes(features, labels)
    )
    table = table.assign(
        label=class_names[labels], rare=np.isin(labels, list(run.subset.rare_classes)), **names
    )
    write_tables({embedding: table})


def silhouettes(features: ndarray, labels: ndarray) -> ndarray:
    r"""Compute how much nearer each image is to its own class than to the nearest other class
    (Rousseeuw, 1987).

    .. math:: s_i = \frac{b_i - a_i}{\max(a_i, b_i)} \in [-1, 1]

    :math:`a_i` is the mean cosine distance to the other images of the class and :math:`b_i` the
    least mean distance to another class, in the encoder's feature space, because distances in the
    plane of the t-SNE have no meaning.

    Args:
        features: shape (n, D).
        labels: class of each image, shape (n,).

    Returns:
        shape (n,); NaN if there is only one class, or no two images share one.

    Example:
        >>> silhouettes(
        ...     np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]), np.array([0, 0, 1, 1])
        ... ).tolist()
        [1.0, 1.0, 1.0, 1.0]
    """
    if not 1 < len(np.unique(labels)) < len(labels):
        return np.full(len(labels), np.nan)
    return silhouette_samples(features, labels, metric="cosine")


def tsne(features: ndarray, seed: int, perplexity: float = 30, jobs: int = 1) -> ndarray:
    """Compute t-SNE with cosine distance, initialised by PCA.

    The features are L2-normalised and compared by Euclidean distance, whose square is 2 − 2 cos, so
    the neighbours are those of the cosine distance and the PCA uses the same points. Neighbours are
    exact, so nothing depends on an approximate index.

    Args:
        features: shape (n, D), n ≥ 4, D ≥ 2.
        seed: the run's seed.
        perplexity: capped at (n − 1) / 3, because t-SNE uses 3 · perplexity neighbours.
        jobs: number of threads. With one thread, results are reproducible on the same machine; with
            more, rounding may differ.

    Returns:
        float64, shape (n, 2); zeros, with a warning in the log, if all normalised features are
            equal up to float32's rounding, because their neighbours would be those of the noise.

    Example:
        >>> tsne(np.eye(8), seed=0).shape
        (8, 2)
    """
    features = normalised_vectors(np.asarray(features, np.float64))
    if np.ptp(features, axis=0).max() < ROUNDING:
        log.warning(f"All {len(features):,} features are equal, so t-SNE shows a single point.")
        return np.zeros((len(features), 2))
    # The defaults of openTSNE apply: PCA for initialisation, and Euclidean distance.
    embedding = TSNE(
        perplexity=min(perplexity, (len(features) - 1) / 3),
        neighbors="exact",
        n_jobs=jobs,
        random_state=seed_for(seed, "t-SNE") % 2**32,
    ).fit(features)
    return np.asarray(embedding)
