"""Two-dimensional embeddings of features for figures."""

from pathlib import Path

import numpy as np
import pandas as pd

from trueneg.evaluation.evaluate import Data, encoded_runs
from trueneg.evaluation.images.linear_probe import label_subset
from trueneg.evaluation.training_records import first_run_names, write_tables
from trueneg.randomness import seed_for


def embed_run(
    *,
    source: str | Path,
    subsets: str | Path,
    manifest: str | Path,
    store: str | Path,
    images: int,
    device: str,
    threads: int,
    embedding: str | Path,
) -> None:
    """Write t-SNE coordinates of test images, encoded by a manifest's first run.

    The test images are the same for all objectives of a seed. If there are more than `images`, a stratified subset is used.
    """
    with encoded_runs(manifest, store, Data(source, subsets), device, threads, count=1) as (_, runs):
        ((run,),) = runs
    test, names = run.subset.test, first_run_names(manifest, run.subset.seed)
    if len(test) > images:
        test = test[label_subset(run.source.labels[test], images / len(test), run.subset.seed)]
    labels, class_names = run.source.labels[test], np.array(run.source.class_names)
    table = pd.DataFrame(tsne(run.of(test)[0].cpu().numpy(), run.subset.seed, jobs=threads), columns=["x", "y"])
    table = table.assign(label=class_names[labels], rare=np.isin(labels, list(run.subset.rare_classes)), **names)
    write_tables({embedding: table})


def tsne(features: np.ndarray, seed: int, perplexity: float = 30, jobs: int = 1) -> np.ndarray:
    """Compute t-SNE with cosine distance, initialised by PCA.

    The features are L2-normalised and compared by Euclidean distance, whose square is 2 − 2 cos, so the neighbours are those of
    the cosine distance and the PCA uses the same points. Neighbours are exact, so nothing depends on an approximate index.

    Args:
        features: shape (n, D), n ≥ 4, D ≥ 2.
        seed: the study's seed.
        perplexity: capped at (n − 1) / 3, because t-SNE uses three times as many neighbours.
        jobs: number of threads. One is reproducible on the same machine; results with more may differ by rounding.

    Returns:
        float64, shape (n, 2).

    Example:
        >>> tsne(np.eye(8), seed=0).shape
        (8, 2)
    """
    features = np.asarray(features, dtype=np.float64)
    # Imported here because every evaluation job imports this module, and openTSNE takes 1.5 s of CPU time to import.
    from openTSNE import TSNE

    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    embedding = TSNE(
        perplexity=min(perplexity, (len(features) - 1) / 3),
        metric="euclidean",
        initialization="pca",
        neighbors="exact",
        n_jobs=jobs,
        random_state=seed_for(seed, "t-SNE") % 2**32,
    ).fit(features / np.maximum(lengths, np.finfo(np.float64).tiny))
    return np.asarray(embedding)
