"""Similarity between training sentences according to a language model, and its quantiles over
random pairs of them.
"""

import functools
import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.text.embeddings import sentence_embeddings

SAMPLE = 1024  # number of sentences whose pairs give the quantiles: 523,776 pairs
# tolerance: the cosine of the same two sentences can differ by this much between batches
ROUNDING = 1e-6
NOTHING = 2.0  # a threshold that no cosine exceeds


class TextSimilarity:
    r"""Cosine between sentence embeddings after subtracting their mean over the training sentences.

    .. math:: s_{ij} = \cos(e_i - \bar e, e_j - \bar e)

    Without this, all sentences of one domain look alike, because a language model's embeddings
    share a large common part.

    Args:
        embeddings: (U, H) of the distinct sentences.
        text_of: (S,) index of the distinct sentence of each training sentence.
        sample: (n,) indices of training sentences, drawn as in training; their pairs give the
            quantiles.

    Example:
        >>> similarity = TextSimilarity(torch.eye(3), torch.arange(3), torch.arange(3))
        >>> pair = torch.tensor([0, 1])
        >>> similarity(pair, pair).mul(
        ...     10
        ... ).round().tolist()  # three corners of a triangle around their mean
        [[10.0, -5.0], [-5.0, 10.0]]
    """

    def __init__(self, embeddings: Tensor, text_of: Tensor, sample: Tensor):
        share = embeddings.new_full((len(text_of),), 1 / len(text_of))
        frequency = embeddings.new_zeros(len(embeddings)).index_add_(0, text_of, share)
        self._units = functional.normalize(embeddings - frequency @ embeddings, dim=1)
        self._text_of = text_of
        rows, columns = torch.triu_indices(len(sample), len(sample), 1, device=sample.device)
        self._sorted = self(sample, sample)[rows, columns].sort().values

    def __call__(self, anchors: Tensor, columns: Tensor) -> Tensor:
        """Return the similarities (B, K) between training sentences, given their indices (B,) and
        (K,).
        """
        return self._units[self._text_of[anchors]] @ self._units[self._text_of[columns]].mT

    def threshold(self, quantile: float) -> float:
        """Return a threshold just below the similarities of the top ``1 − quantile`` of random
        pairs.

        At least this share of the pairs, rounded up to a whole number, is above it (more with
        ties); none if the quantile is 1.
        """
        kept = math.floor(quantile * len(self._sorted) + ROUNDING)
        return self._sorted[kept].item() - ROUNDING if kept < len(self._sorted) else NOTHING


def embeddings_of(source: PairSource, texts: Sequence[str], device: torch.device) -> Tensor:
    """Return the embeddings (U, H) of U sentences of a source, computed by its language model.

    Raises:
        UserError: if the source has no language model, or the model cannot be loaded.
    """
    numbers, embedded = _embedded(source, device)
    return embedded[[numbers[text] for text in texts]].to(device)


@functools.lru_cache(maxsize=1)  # the runs of a job share a source
def _embedded(source: PairSource, device: torch.device) -> tuple[dict[str, int], Tensor]:
    if source.language_model is None:
        raise UserError(
            "objectives with by: text need the language model of the sentences, but source"
            f" {source.name} was made without it. Rebuild the source with `snakemake --forcerun"
            " pairs`."
        )
    texts = sorted(set(source.sentences["sentence"]))
    return {text: number for number, text in enumerate(texts)}, sentence_embeddings(
        texts, source.language_model, device
    )
