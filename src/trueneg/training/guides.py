"""Guides: models or labels that rate how similar the samples of a batch are, without gradient."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trueneg.errors import UserError
from trueneg.models.weights import read_tensors


class Rated(NamedTuple):
    """A guide's similarities, in the form that the losses expect.

    Attributes:
        negative_similarity: see :meth:`trueneg.losses.ContrastiveLoss.terms`.
        positive_similarity: see :meth:`trueneg.losses.ContrastiveLoss.terms`.
    """

    negative_similarity: Any = None
    positive_similarity: Tensor | None = None


UNRATED = Rated()


@torch.no_grad()
def rate_views(first: Tensor, second: Tensor, by_sample: bool) -> Rated:
    """Rate the views of a batch by the cosine of their embeddings.

    Args:
        first: (B, D) embeddings of the first views.
        second: (B, D) embeddings of the second views.
        by_sample: rate samples instead of views, by the largest cosine of any of their views, as in False Negative Cancellation
            (Huynh et al., 2022), but without support views.
    """
    count = len(first)
    units = functional.normalize(torch.cat([first, second]).detach().float(), dim=-1)
    positive = torch.linalg.vecdot(units, units.roll(count, 0))
    similarity = units @ units.mT
    if not by_sample:
        return Rated(similarity, positive)
    nearest = similarity.view(2, count, 2, count).amax((0, 2))
    return Rated((nearest, nearest), positive)


@torch.no_grad()
def rate_features(features: Tensor) -> Rated:
    """Rate samples by the cosine of their (B, D) features; the two views of a sample share its features, so their cosine is 1."""
    units = functional.normalize(features, dim=-1)
    return Rated((units @ units.mT).clamp(max=1), units.new_ones(len(units)))  # rounding can make a cosine exceed 1


def rate_labels(labels: Tensor) -> Rated:
    """Rate samples by (B,) classes: 1 if equal. With (B, K) labels, rate by the cosine of the masks of positive labels."""
    if labels.dim() == 1:
        same = (labels[:, None] == labels).float()
        return Rated(same, same.new_ones(len(labels)))
    rated = rate_features((labels == 1).float())
    rated.negative_similarity.fill_diagonal_(1)  # even without positive labels
    return rated


class WordOverlap:
    """Cosine of the tf-idf vectors of texts; words have at least two letters or digits, and case is ignored."""

    def __init__(self, texts: Sequence[str]):
        self._vectors = TfidfVectorizer(dtype=np.float32).fit_transform(texts)

    def __call__(self, numbers: Tensor) -> Tensor:
        """Return (B, B) cosines between texts, given (B,) indices; all on the CPU."""
        rows = self._vectors[numbers.numpy()]
        return torch.from_numpy((rows @ rows.T).toarray()).clamp(max=1).fill_diagonal_(1)


def rate_pairs(scores: Tensor) -> Rated:
    """Rate the pairs of a batch by (B, B) similarities of texts and images."""
    scores = scores.detach()
    return Rated(scores, scores.diagonal())


def moving_average(network: nn.Module, guide: Mapping[str, Any] | None) -> AveragedModel | None:
    """Return a copy of the network that follows it as an exponential moving average, for a guide that needs one."""
    if guide is None or guide["name"] != "ema":
        return None
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(guide["momentum"]), use_buffers=True)
    return average.requires_grad_(False).eval()


def read_features(path: str | Path, rows: Mapping[str, int], source: str) -> dict[str, Tensor]:
    """Read a guide's features.

    Args:
        path: a .safetensors file.
        rows: number of rows of the source by tensor: ``images`` and, for image–text sources, ``sentences``.
        source: name of the source, for messages.

    Raises:
        UserError: if the file is missing or damaged, or its tensors do not have one finite row per image or sentence.
    """
    features = {key: value.float() for key, value in read_tensors(path).items() if key in rows}
    if not features:
        raise UserError(f"objective.guide.path, {path}: contains none of the tensors {', '.join(rows)}.")
    for key, value in features.items():
        if value.dim() != 2 or len(value) != rows[key]:
            shape = tuple(value.shape)
            raise UserError(f"objective.guide.path, {path}: {key} has shape {shape}; expected ({rows[key]}, D), as {source} has.")
        if not value.isfinite().all():
            raise UserError(f"objective.guide.path, {path}: {key} contains NaN or inf; expected numbers.")
    if len({value.shape[1] for value in features.values()}) > 1:
        raise UserError(f"objective.guide.path, {path}: images and sentences have different dimensions; expected one space.")
    return features
