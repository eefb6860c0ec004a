"""Thresholds learned for each training sample, for guided removal."""

import torch
from torch import Tensor, nn

# Adam's, as in the authors' code
BETA_1, BETA_2, EPSILON = 0.9, 0.98, 1e-8


class LearnedThresholds(nn.Module):
    r"""One threshold per training sample: the (1 − α)-quantile of its similarities, by stochastic
    gradient descent (GloFND).

    .. math:: \nu_i = \arg\min_\nu\; \alpha \nu + \mathbb{E}_j\,(s_{ij} - \nu)_+

    Balmaseda et al. (2025). The gradient is α minus the share of the sample's negatives in the
    batch that exceed the threshold. Each threshold starts at 1, stays in [−1, 1], and has its own
    Adam state, bias-corrected by the number of its own updates. To remove the negatives above the
    thresholds, use :class:`~trueneg.losses.Guided` with the thresholds as ``positive_similarity``.

    Args:
        samples: number of training samples.
        share: α ∈ [0, 1), the share of negatives treated as false.
        learning_rate: Adam's learning rate.

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> from trueneg.losses import ContrastiveLoss, Guided
        >>> thresholds = LearnedThresholds(samples=100)
        >>> z1, z2 = torch.nn.functional.normalize(torch.randn(2, 8, 16), dim=-1)
        >>> similarity = torch.cat([z1, z2]) @ torch.cat([z1, z2]).T
        >>> learned = thresholds.update(torch.arange(8), similarity)
        >>> loss = ContrastiveLoss(Guided())(
        ...     z1, z2, negative_similarity=similarity, positive_similarity=learned
        ... )
    """

    def __init__(self, samples: int, share: float = 0.01, learning_rate: float = 0.05):
        super().__init__()
        if samples < 1 or not 0 <= share < 1 or not learning_rate > 0:
            values = f"samples is {samples}, share {share} and learning_rate {learning_rate}"
            raise ValueError(
                f"{values}; expected at least 1, a number from 0 to below 1, and a positive number."
            )
        self.share = share
        self.learning_rate = learning_rate
        self.values = nn.Buffer(torch.ones(samples))
        self.first = nn.Buffer(torch.zeros(samples))
        self.second = nn.Buffer(torch.zeros(samples))
        self.updates = nn.Buffer(torch.zeros(samples))

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
        same_sample = samples[:, None] == samples
        is_negative = ~same_sample.repeat(views, others)
        is_above = similarity > before.repeat(views)[:, None]
        above = (is_above & is_negative).sum(1, dtype=before.dtype)
        shares = (above / is_negative.sum(1).clamp(min=1)).view(views, count).mean(0)
        repeats = same_sample.to(before.dtype)
        gradient = self.share - repeats @ shares / repeats.sum(1)
        updates = self.updates[samples] + 1
        first = BETA_1 * self.first[samples] + (1 - BETA_1) * gradient
        second = BETA_2 * self.second[samples] + (1 - BETA_2) * gradient.square()
        corrected = second / (1 - BETA_2**updates)
        step = first / (1 - BETA_1**updates) / (corrected.sqrt() + EPSILON)
        values = (before - self.learning_rate * step).clamp(-1, 1)
        has_negatives = is_negative[:count].any(1)
        for state, new in (
            (self.values, values),
            (self.first, first),
            (self.second, second),
            (self.updates, updates),
        ):
            state[samples] = torch.where(has_negatives, new, state[samples])
        return self.values[samples]
