"""Two-dimensional pictures of features."""

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
    """Write t-SNE coordinates of test images under the encoder of a manifest's first run.

    The test images are the same for all objectives of a seed; of more than `images`, every class gives the same share.
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
    """t-SNE by cosine distance, from a PCA start.

    The features are L2-normalised and compared by Euclidean distance, whose square is 2 − 2 cos: the
    neighbours of the cosine distance, and a PCA of the same points. Neighbours are exact, so that nothing
    depends on an index.

    Args:
        features: shape (n, D), n ≥ 4, D ≥ 2.
        seed: the study's seed.
        perplexity: at most (n − 1) / 3, as t-SNE looks at three times as many neighbours.
        jobs: threads. One job gives the same picture every time on one machine; more may round differently.

    Returns:
        float64, shape (n, 2).

    Example:
        >>> tsne(np.eye(8), seed=0).shape
        (8, 2)
    """
    features = np.asarray(features, dtype=np.float64)
    # Every evaluation job imports this module, and openTSNE takes 1.5 s of CPU time to import.
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
