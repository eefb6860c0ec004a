"""Thresholds learned for each training sample: GloFND."""

import torch
from torch import Tensor, nn

from trueneg.losses.anchors import Anchors
from trueneg.losses.base import Selecting
from trueneg.losses.checks import check_index, checked_count, checked_number, checked_positive
from trueneg.losses.execution import PreciseBuffers, gathered

# Adam's, as in the authors' code
BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-8


class LearnedThresholds(Selecting, PreciseBuffers):
    r"""Remove the negatives above a threshold that is learned for each training sample: the (1 −
    α)-quantile of its similarities, by stochastic gradient descent (GloFND).

    .. math:: N g = \sum_{n:\, s_n \le \nu_i} e^{u_n}, \qquad
              \nu_i = \arg\min_\nu\; \alpha \nu + \mathbb{E}_j\,(s_{ij} - \nu)_+

    Balmaseda et al. (2025), whose code of SimCLR's loss multiplies the sum by N over the number of
    negatives kept; this class does not. The gradient is α minus the share of the sample's negatives
    in the batch that exceed the threshold. Each threshold starts at 1, stays in [−1, 1], and has
    its own Adam state, bias-corrected by the number of its own updates. As an estimator, s is the
    cosine of the embeddings, and thresholds are kept by index: call the loss with ``index``, the
    numbers of the batch's samples among all training samples. Each call in training mode first
    renews them; in evaluation mode, they are used and stay. To compare other similarities, call
    :meth:`update`, and use :class:`~trueneg.losses.Guided` with the thresholds as
    ``positive_similarity``. With several processes, all of them learn from the samples of all, so
    that the copies stay equal.

    Args:
        samples: number of training samples.
        share: α ∈ [0, 1), the share of negatives treated as false.
        learning_rate: Adam's learning rate.
        directions: of the loss, each of which has its own thresholds; 2 for a
            :class:`~trueneg.losses.CrossModalLoss` of both.
        scope: see :class:`~trueneg.losses.Estimator`.

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> from trueneg.losses import ContrastiveLoss
        >>> loss = ContrastiveLoss(LearnedThresholds(samples=100), temperature=0.1)
        >>> z1, z2 = torch.randn(2, 8, 16, requires_grad=True)
        >>> loss(z1, z2, index=torch.arange(8)).backward()
    """

    name = "glofnd"
    keeps_threshold = True

    def __init__(
        self,
        samples: int,
        share: float = 0.01,
        learning_rate: float = 0.05,
        *,
        directions: int = 1,
        scope: str = "all",
    ):
        nn.Module.__init__(self)
        Selecting.__init__(self, scope=scope)
        checked_count("samples", samples, "training samples", optional=False)
        if not 0 <= checked_number("share", share) < 1:
            raise ValueError(f"share is {share}; expected a number of at least 0 and below 1.")
        checked_positive("learning_rate", learning_rate)
        self.samples = samples
        self.share = share
        self.learning_rate = learning_rate
        self.directions = directions
        size = directions * samples
        self.values = nn.Buffer(torch.ones(size))
        self.first = nn.Buffer(torch.zeros(size))
        self.second = nn.Buffer(torch.zeros(size))
        self.updates = nn.Buffer(torch.zeros(size))

    __repr__ = nn.Module.__repr__

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"samples={self.samples}, share={self.share}, learning_rate={self.learning_rate}"

    def marked(self, anchors: Anchors) -> Tensor:
        # By rounding, equal samples have cosines above 1, where thresholds start.
        cosines = anchors.cosines.clamp(max=1)
        return cosines > anchors.required("threshold").to(anchors.negatives)[:, None]

    def thresholds_of(self, index: Tensor, side: int = 0) -> Tensor:
        """Return the thresholds of samples, (B,), as anchors of a direction.

        Raises:
            ValueError: if an index or the direction is out of range.
        """
        if side >= self.directions:
            raise ValueError(
                f"directions is {self.directions}, but the loss has more; pass directions=2."
            )
        check_index(index, self.samples)
        return self.values[index + side * self.samples]

    @torch.no_grad()
    def update(self, samples: Tensor, similarity: Tensor) -> Tensor:
        """Learn from the similarities of a batch.

        Args:
            samples: (B,) indices of the batch's samples. The rows of a sample that is drawn several
                times count as further views of it, and a sample without negatives, as in a batch of
                one, keeps its threshold.
            similarity: (V·B, W·B) similarities of V views of the samples to W views of them,
                ordered by view.

        Returns:
            The thresholds (B,) after the update.
        """
        count = len(samples)
        views, others = (size // count for size in similarity.shape)
        before = self.values[samples]
        is_negative = ~(samples[:, None] == samples).repeat(views, others)
        is_above = similarity.clamp(max=1) > before.repeat(views)[:, None]
        above = (is_above & is_negative).sum(1, dtype=before.dtype)
        shares = (above / is_negative.sum(1).clamp(min=1)).view(views, count).mean(0)
        self.learn(samples, shares, is_negative[:count].any(1))
        return self.values[samples]

    @torch.no_grad()
    def learn(self, samples: Tensor, shares: Tensor, has_negatives: Tensor, side: int = 0) -> None:
        """Learn from the share of each sample's negatives that exceed its threshold, (B,), in all
        processes.

        Args:
            samples: (B,) indices.
            shares: (B,) shares, those of samples without negatives 0.
            has_negatives: (B,) bool.
            side: number of the direction.
        """
        samples = gathered(samples + side * self.samples)[0].flatten()
        shares = gathered(shares)[0].flatten()
        has_negatives = gathered(has_negatives.to(shares))[0].flatten() > 0
        before = self.values[samples]
        repeats = (samples[:, None] == samples).to(before.dtype)
        gradient = self.share - repeats @ shares / repeats.sum(1)
        updates = self.updates[samples] + 1
        first = BETA_1 * self.first[samples] + (1 - BETA_1) * gradient
        second = BETA_2 * self.second[samples] + (1 - BETA_2) * gradient.square()
        corrected = second / (1 - BETA_2**updates)
        step = first / (1 - BETA_1**updates) / (corrected.sqrt() + EPSILON)
        values = (before - self.learning_rate * step).clamp(-1, 1)
        for state, new in (
            (self.values, values),
            (self.first, first),
            (self.second, second),
            (self.updates, updates),
        ):
            state[samples] = torch.where(has_negatives, new, state[samples])
