"""Two-dimensional pictures of features."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch

from trueneg.compute.devices import leased_device
from trueneg.evaluation.images import encoded
from trueneg.evaluation.images.linear_probe import label_subset
from trueneg.evaluation.training_records import first_run_names
from trueneg.io.files import written_whole
from trueneg.randomness import seed_for
from trueneg.store.run_store import RunStore, read_manifest


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
    torch.set_num_threads(threads)
    kept = RunStore(store)
    with leased_device(device) as leased:
        data = {"source": source, "subsets": subsets}
        ((run,),) = encoded(read_manifest(manifest, kept)[:1], kept, data, leased)
    test, names = run.subset.test, first_run_names(manifest, run.subset.seed)
    if len(test) > images:
        test = test[label_subset(run.source.labels[test], images / len(test), run.subset.seed)]
    points, labels = tsne(run.of(test)[0].cpu().numpy(), run.subset.seed, jobs=threads), run.source.labels[test]
    table = pd.DataFrame(
        {
            **names,
            "x": points[:, 0],
            "y": points[:, 1],
            "label": np.array(run.source.class_names)[labels],
            "rare": np.isin(labels, list(run.subset.rare_classes)),
        }
    )
    with written_whole(embedding) as path:
        table.to_parquet(path, index=False)


def effective_perplexity(perplexity: float, count: int) -> float:
    """The perplexity that a number of points allows: ``min(perplexity, (count − 1) / 3)``.

    t-SNE looks at three times as many neighbours as the perplexity; a point has no more than count − 1.

    Example:
        >>> effective_perplexity(30, 1797), effective_perplexity(30, 61)
        (30, 20.0)
    """
    return min(perplexity, (count - 1) / 3)


def tsne(features: np.ndarray, seed: int, perplexity: float = 30, jobs: int = 1) -> np.ndarray:
    """t-SNE by cosine distance, from a PCA start.

    The features are L2-normalised and compared by Euclidean distance, whose square is 2 − 2 cos: the
    neighbours of the cosine distance, and a PCA of the same points. Neighbours are exact, so that nothing
    depends on an index.

    Args:
        features: shape (n, D), n ≥ 4, D ≥ 2.
        seed: the study's seed.
        perplexity: lowered to (n − 1) / 3 where there are fewer points than it needs; see
            :func:`effective_perplexity`.
        jobs: threads. One job gives the same picture every time on one machine; more may round differently.

    Returns:
        float64, shape (n, 2).

    Raises:
        ValueError: if the features are not finite.

    Example:
        >>> tsne(np.eye(8), seed=0).shape
        (8, 2)
    """
    features = np.asarray(features, dtype=np.float64)
    if not np.isfinite(features).all():
        raise ValueError("some features are not finite; the encoder's training has diverged")
    # Every evaluation job imports this module, and openTSNE takes 1.5 s of CPU time to import.
    from openTSNE import TSNE

    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    embedding = TSNE(
        perplexity=effective_perplexity(perplexity, len(features)),
        metric="euclidean",
        initialization="pca",
        neighbors="exact",
        n_jobs=jobs,
        random_state=seed_for(seed, "t-SNE") % 2**32,
    ).fit(features / np.maximum(lengths, np.finfo(np.float64).tiny))
    return np.asarray(embedding)
