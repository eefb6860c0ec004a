"""Retrieval in both directions between phrases and the regions boxed by readers, with RoIAlign on
the region grid.
"""

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
import pandas as pd
import torch
from numpy import ndarray
from pandas import DataFrame
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.ms_cxr import CORNERS
from trueneg.evaluation.pairs import EmbeddedPairs, Measured
from trueneg.evaluation.pairs.grounding import with_boxes
from trueneg.evaluation.pairs.retrieval import both_ways
from trueneg.evaluation.retrieval import Metric, retrieval_both_ways
from trueneg.models.region_similarity import box_features
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield recalls and median ranks for each relevance criterion."""
    for run, split, phrases, texts, crop in with_boxes(runs):
        # never None for runs with boxes
        regions = cast(Tensor, run.images(split).embeddings.regions)
        scores = phrase_region_scores(texts, regions, phrases, crop)
        for labels, values in region_retrieval(
            scores, phrases, settings["region_retrieval"]["ks"]
        ).items():
            yield from both_ways(run, split, Measurement("region retrieval", "", labels), values)


def phrase_region_scores(
    texts: Tensor, regions: Tensor, phrases: DataFrame, crop: tuple[int, int]
) -> ndarray:
    r"""Compute the cosine between every phrase and the boxed region of every phrase.

    .. math::

        s_{pq} = \cos\Bigl(y_p,\;
        \frac{1}{|B_q|} \sum_{b \in B_q} \mathrm{RoIAlign}(x_{i(q)}, b)\Bigr)

    Sample-Specific Debiasing (2023), section 3.2, extracts box features from region features with
    RoIAlign. The mean over a phrase's boxes and over RoIAlign's cells
    (:func:`trueneg.models.region_similarity.box_features`) is our choice. Equal sentences and
    phrases of the same ``region`` are embedded and compared once, so that rounding cannot break
    ties.

    Args:
        texts: (U, D), one embedding per distinct sentence, in order of first occurrence in
            ``phrases``.
        regions: (n, D, h, w) region embeddings of the images.
        phrases: table returned by :func:`trueneg.evaluation.pairs.grounding.boxed_phrases`, with at
            least one phrase.
        crop: (height, width) of the crop.

    Returns:
        (P, P), phrases × regions of phrases; float64 if the embeddings are, otherwise float32.

    Example:
        >>> regions = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]])  # two cells: (1, 0) and (0, 1)
        >>> phrases = pd.DataFrame(
        ...     {"phrase": [0, 1], "image": 0, "index": [0, 1], "sentence": ["Left.", "Right."]}
        ... )
        >>> phrases = phrases.assign(region=[0, 1], x0=[0, 4], y0=0, x1=[4, 8], y1=4)
        >>> scores = phrase_region_scores(
        ...     torch.tensor([[2.0, 0.0], [0.0, 3.0]]), regions, phrases, crop=(4, 8)
        ... )
        >>> scores.argmax(1).tolist()
        [0, 1]
    """
    said = phrases.drop_duplicates("phrase")
    text_of = pd.factorize(said["sentence"])[0]
    boxes = phrases.drop_duplicates(["region", *CORNERS]).sort_values("image", kind="stable")
    images, counts = np.unique(boxes["image"], return_counts=True)
    corners = torch.from_numpy(boxes[CORNERS].to_numpy(np.float64, copy=True)).split(
        counts.tolist()
    )
    features = box_features(
        regions[torch.as_tensor(images, device=regions.device)], corners, crop
    ).cpu()
    region_of_box, different = pd.factorize(boxes["region"])
    sums = torch.zeros(len(different), regions.shape[1], dtype=features.dtype)
    sums.index_add_(0, torch.from_numpy(region_of_box), features)  # same direction as the mean
    units = functional.normalize(texts.cpu().to(sums), dim=1), functional.normalize(sums, dim=1)
    scores = (units[0] @ units[1].T).numpy()
    return scores[np.ix_(text_of, pd.Index(different).get_indexer(said["region"]))]


def region_retrieval(
    scores, phrases: DataFrame, ks: Sequence[int] = (10, 50, 100)
) -> dict[str, dict[Metric, float]]:
    """Compute recall and median rank for retrieval between phrases and regions, for each relevance
    criterion.

    Each metric is computed in both directions and as the mean of the two.

    ========================  ======================================================================
    labels                    relevant to a phrase
    ========================  ======================================================================
    pair                      its own region only, as in Sample-Specific Debiasing (2023), Tables 1
                              and 5; an identical sentence from another image is an error, and a tie
                              with it counts against the method
    pair or tie               the same, but ties count in favour of the method
    sentence                  the region of every phrase with the same sentence
    truth                     every region that shows what the phrase says, that is, with the same
    latent class finding      every region boxed for the same finding
    ========================  ======================================================================

    Args:
        scores: (P, P), phrases × regions (:func:`phrase_region_scores`); array or tensor.
        phrases: table with ``phrase``, ``sentence``, ``class`` and, if a class is unknown,
            ``finding``.
        ks: list lengths.

    Returns:
        Labels → metric → value, with the metrics of
            :func:`trueneg.evaluation.retrieval.retrieval_both_ways`; ``truth`` if
        every phrase's class is known, otherwise ``finding``.

    Example:
        >>> phrases = pd.DataFrame(
        ...     {"phrase": [0, 1], "sentence": ["Edema.", "Edema."], "class": [3, 3]}
        ... )
        >>> by_labels = region_retrieval(np.array([[0.5, 0.5], [0.5, 0.5]]), phrases, ks=(1,))
        >>> {labels: metrics[Metric("R")] for labels, metrics in by_labels.items()}
        {'pair': 0.0, 'pair or tie': 1.0, 'sentence': 1.0, 'truth': 1.0}
    """
    said = phrases.drop_duplicates("phrase")
    by_labels = {
        "pair": retrieval_both_ways(scores, ks),
        "pair or tie": retrieval_both_ways(scores, ks, ties="for"),
    }
    meanings = {"truth": "class"} if (said["class"] >= 0).all() else {"finding": "finding"}
    for labels, column in ({"sentence": "sentence"} | meanings).items():
        numbers = pd.factorize(said[column])[0]
        by_labels[labels] = retrieval_both_ways(scores, ks, numbers[:, None] == numbers)
    return by_labels
