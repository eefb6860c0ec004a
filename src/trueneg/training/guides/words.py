"""The words of sentences as the guide."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor

from trueneg.errors import UserError
from trueneg.text.words import TERM
from trueneg.training.guides.base import Guide, GuideBatch, Rated, rate_pairs

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class WordGuide(Guide):
    """The cosine of the tf-idf vectors of sentences; if permuted, each has the words of another
    one, drawn at random.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        texts = run.data.texts
        if settings["permuted"]:
            order = torch.randperm(len(texts), generator=run.generator("permuted words"))
            texts = [texts[number] for number in order.tolist()]
        if not any(TERM.search(text) for text in texts):
            raise UserError(
                f"objective.guide is words, but none of the {len(texts):,} distinct training"
                f" sentences of source {run.data.source.name} contains a word; expected words of at"
                " least two letters or digits. Use another guide."
            )
        self.overlap = WordOverlap(texts)

    def rate(self, batch: GuideBatch) -> Rated:
        texts: Any = batch.texts
        anchors, columns = (self.run.data.text_of[rows] for rows in texts)
        return rate_pairs(self.overlap(anchors.cpu(), columns.cpu()).to(anchors.device))


class WordOverlap:
    """Cosine of the tf-idf vectors of texts; words have at least two letters or digits, and case is
    ignored.

    In scripts without spaces, each character is a word (:mod:`trueneg.text.words`).
    """

    def __init__(self, texts: Sequence[str]):
        self._vectors = TfidfVectorizer(
            dtype=np.float32, tokenizer=TERM.findall, token_pattern=None
        ).fit_transform(texts)

    def __call__(self, anchors: Tensor, columns: Tensor) -> Tensor:
        """Return (B, K) cosines between texts, given (B,) and (K,) indices; all on the CPU."""
        cosines = (self._vectors[anchors.numpy()] @ self._vectors[columns.numpy()].T).toarray()
        cosines = torch.from_numpy(cosines).clamp(max=1)  # rounding can make a cosine exceed 1
        # Without this, the cosine of an empty text with itself would be 0.
        is_same = torch.equal(anchors, columns[: len(anchors)])
        return cosines.fill_diagonal_(1) if is_same else cosines
