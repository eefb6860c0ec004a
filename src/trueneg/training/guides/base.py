"""Guides rate how similar the samples of a batch are, without gradient, as the losses expect."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class Rated(NamedTuple):
    """A guide's similarities, in the form that the losses expect.

    Attributes:
        negative_similarity: see :meth:`trueneg.losses.ContrastiveLoss.terms`.
        positive_similarity: see :meth:`trueneg.losses.ContrastiveLoss.terms`.
    """

    negative_similarity: Tensor | tuple[Tensor, Tensor] | None = None
    positive_similarity: Tensor | None = None


UNRATED = Rated()


class GuideBatch(NamedTuple):
    """What a guide can ask of a batch of B anchors and K columns.

    Attributes:
        samples: (B,) and (K,) indices of training samples: images, or texts in text studies.
        texts: (B,) and (K,) indices of training texts; an image has the text of its pair. None: the
            data have no texts.
        rated: returns the similarities according to a copy of the network; without an argument, to
            the network being trained.
    """

    samples: tuple[Tensor, Tensor]
    texts: tuple[Tensor, Tensor] | None
    rated: Callable[..., Rated]


class Guide(nn.Module):
    """Base class of guides; its buffers and modules are saved in the run's checkpoints, under their
    own names.

    Args:
        settings: the guide's settings or, for a guide of the objective's own, the objective's.
        run: the run (:class:`~trueneg.training.loop.TrainingRun`), whose data and networks exist; a
            weak reference, because the run owns its guide.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__()
        self.settings = settings
        self.run = run

    def rate(self, batch: GuideBatch) -> Rated:
        """Rate a batch; called without gradients, once per update."""
        raise NotImplementedError

    def measured(self) -> dict[str, float]:
        """Return values for an epoch's row."""
        return {}

    def after_update(self) -> None:
        """Follow an update of the run's network."""

    def loss_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Return the settings of the loss; a guide may replace some, such as a quantile by a
        threshold.
        """
        return settings


def rate_views(first: Tensor, second: Tensor, by_sample: bool) -> Rated:
    """Rate the views of a batch by the cosine of their embeddings.

    Args:
        first: (B, D) embeddings of the first views.
        second: (B, D) embeddings of the second views.
        by_sample: rate samples instead of views, by the largest cosine of any of their views, as in
            False Negative Cancellation (Huynh et al., 2022), but without support views.
    """
    count = len(first)
    units = functional.normalize(torch.cat([first, second]).detach().float(), dim=-1)
    positive = torch.linalg.vecdot(units, units.roll(count, 0))
    similarity = units @ units.mT
    if not by_sample:
        return Rated(similarity, positive)
    nearest = similarity.view(2, count, 2, count).amax((0, 2))
    return Rated((nearest, nearest), positive)


def rate_features(features: Tensor) -> Rated:
    """Rate samples by the cosine of their (B, D) features; the two views of a sample share its
    features, so their cosine is 1.
    """
    units = functional.normalize(features, dim=-1)
    # rounding can make a cosine exceed 1
    return Rated((units @ units.mT).clamp(max=1), units.new_ones(len(units)))


def rate_pairs(scores: Tensor) -> Rated:
    """Rate the pairs of a batch by (B, K) similarities of anchors and columns."""
    scores = scores.detach()
    return Rated(scores, scores.diagonal())
