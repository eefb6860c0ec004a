"""Soft targets: how much of an anchor's attraction goes to samples other than its own positive.

A rule takes the layout of the logits and the known similarity: (A, S) or (A, K) for A anchors, S
samples and K columns. It returns targets (B, S) for the B samples of this process, or (A, S) if the
views of a sample have different targets; each row sums to 1. Its optional attribute
``needs_similarity`` says whether it uses the similarity, ``needs_labels`` whether it takes (A, S)
bool instead, which samples have the anchor's class, ``marks`` whether it marks samples as false
negatives, and ``compares_samples`` whether the similarity should be that of samples, and not that
of their views.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.checks import checked_count, checked_positive
from trueneg.losses.layout import Layout
from trueneg.losses.log_space import is_nearest

Rule = Callable[[Layout, Tensor | None], Tensor]


@dataclass
class HalfUniform:
    """Half for the positive, half uniform over all samples: the control for every claim about soft
    targets.

    Example:
        >>> HalfUniform()(Layout(2, 2), None).tolist()
        [[0.75, 0.25], [0.25, 0.75]]
    """

    def __call__(self, layout: Layout, similarity: Tensor | None) -> Tensor:
        targets = torch.full(
            (layout.count, layout.candidates), 0.5 / layout.candidates, device=layout.device
        )
        targets.diagonal(layout.offset).add_(0.5)
        return targets


@dataclass
class Attracted:
    r"""Uniform over the positive and the false negatives found: False Negative Cancellation by
    attraction (Huynh et al., 2022).

    .. math::

        T_{ii} = \frac{V - 1}{V - 1 + V F_i},\qquad T_{ij} = \frac{V}{V - 1 +
        V F_i} \text{ for the } F_i \text{ samples found}

    with V views, or 1 and 1 in the numerators for pairs. A sample is found if its similarity is
    above the threshold and it is among the ``top_k`` most similar samples; its similarity is the
    largest over its views and the anchor's.

    Args:
        threshold: similarity above which a sample is found.
        top_k: largest number of samples found, as in :class:`~trueneg.losses.Removed`; None: no
            limit.

    Raises:
        ValueError: if the threshold is not a finite number, or ``top_k`` is not a positive integer;
            in a call, if the known similarity is missing.

    Example:
        >>> similarity = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
        >>> Attracted(threshold=0.5)(Layout(3, 3), similarity).tolist()
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    marks = True
    needs_similarity = True
    compares_samples = True
    threshold: float = 0.7
    top_k: int | None = None

    def __post_init__(self):
        if not math.isfinite(self.threshold):
            raise ValueError(f"targets.threshold is {self.threshold}; expected a finite number.")
        checked_count("targets.top_k", self.top_k, "samples")

    def __call__(self, layout: Layout, similarity: Tensor | None) -> Tensor:
        nearest = _by_view("fnc", similarity, layout).amax((0, 2))
        nearest.diagonal(layout.offset).fill_(-math.inf)
        return _attracted(layout, is_nearest(nearest, self.threshold, self.top_k))


@dataclass
class Softmax:
    r"""A softmax over the known similarities, mixed with the one-hot target.

    .. math::

        T_{ij} = \lambda \frac{e^{s_{ij} / \tau}}{\sum_k e^{s_{ik} / \tau}} + (1 - \lambda)\, [i =
        j]

    With similarities from a moving average of the networks and λ = 0.4, this is ALBEF's momentum
    distillation (Li et al., 2021, where τ is the temperature of the loss); from a frozen text
    encoder and with λ = 1, X-CLR (Sobal et al., 2024). From labels and with λ = 1, it follows
    MedCLIP (Wang et al., 2022), with the cosine of label vectors in place of their product. With
    several views, s is the mean over the pairs of different views. The similarity of an anchor's
    own sample is used, too.

    Args:
        temperature: τ > 0.
        share: λ ∈ [0, 1].

    Raises:
        ValueError: if an argument is out of range; in a call, if the known similarity is missing.

    Example:
        >>> similarity = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        >>> Softmax(temperature=0.1, share=0.5)(Layout(3, 3), similarity).mul(100).round().tolist()
        [[75.0, 25.0, 0.0], [25.0, 75.0, 0.0], [0.0, 0.0, 100.0]]
    """

    needs_similarity = True
    temperature: float = 0.1
    share: float = 1.0

    def __post_init__(self):
        checked_positive("targets.temperature", self.temperature)
        if not 0 <= self.share <= 1:
            raise ValueError(f"targets.share is {self.share}; expected a number from 0 to 1.")

    def __call__(self, layout: Layout, similarity: Tensor | None) -> Tensor:
        blocks = _by_view("softmax", similarity, layout)
        if blocks.shape[2] == 1:
            mean = blocks.mean((0, 2))
        else:
            pairs = itertools.permutations(range(layout.views), 2)
            mean = torch.stack([blocks[view, :, other] for view, other in pairs]).mean(0)
        targets = self.share * torch.softmax(mean / self.temperature, dim=1)
        targets.diagonal(layout.offset).add_(1 - self.share)
        return targets


@dataclass
class Components:
    r"""Half for the positive, half uniform over the anchor's connected component in the other
    view's nearest-neighbour graph.

    .. math:: T_{ij} = \tfrac12 [i = j] + \tfrac12 \frac{[j \in C_i \setminus \{i\}]}{|C_i| - 1}

    Every sample is joined to its nearest neighbour in the same view; C_i is the connected component
    of sample i, and the components of one view supervise the other. This follows WCL (Zheng et al.,
    2021), which adds to NT-Xent a supervised contrastive loss in a second projection head, with the
    anchor's own view as columns; here, one head serves both, and all columns share one denominator.

    Raises:
        ValueError: in a call, if the known similarity is missing, or unless there are two views and
            this process has all samples.

    Example:
        >>> similarity = torch.tensor(
        ...     [
        ...         [1.0, 0.9, 0.1, 0.2],
        ...         [0.9, 1.0, 0.2, 0.1],
        ...         [0.1, 0.2, 1.0, 0.8],
        ...         [0.2, 0.1, 0.8, 1.0],
        ...     ]
        ... )
        >>> Components()(Layout(4, 4, views=2), similarity.repeat(2, 2))[0].tolist()
        [0.5, 0.5, 0.0, 0.0]
    """

    marks = True
    needs_similarity = True

    def __call__(self, layout: Layout, similarity: Tensor | None) -> Tensor:
        views = layout.views
        count = layout.count
        samples = layout.candidates
        if views != 2 or count != samples:
            raise ValueError(
                f"targets wcl_one_head: {views} views and {count} of {samples} samples; expected 2"
                " and all samples."
            )
        blocks = _by_view("wcl_one_head", similarity, layout)
        identity = torch.eye(count, dtype=blocks.dtype, device=blocks.device)
        targets = []
        for view in (1, 0):  # the components of view 2 are the targets of view 1, and vice versa
            within_view = blocks[view, :, view % blocks.shape[2]].masked_fill(
                identity.bool(), -math.inf
            )
            joined = identity.scatter(1, within_view.argmax(1, keepdim=True), 1)
            joined = joined.maximum(joined.mT)
            # each squaring doubles the length of the paths
            for _ in range(math.ceil(math.log2(count))):
                joined = (joined @ joined).clamp(max=1)
            others = joined - identity
            others[others.sum(1) == 0] = identity[0]  # a batch of one
            targets.append(identity / 2 + others / (2 * others.sum(1, keepdim=True)))
        return torch.cat(targets)


def _by_view(name: str, similarity: Tensor | None, layout: Layout) -> Tensor:
    """Return the known similarity in double or single precision as (V, B, 1 or V, S)."""
    if similarity is None:
        raise ValueError(f"negative_similarity is missing; the targets {name} need it.")
    similarity = similarity.detach()
    if similarity.dtype != torch.float64:
        similarity = similarity.float()
    rows = similarity.unflatten(0, (layout.views, layout.count))
    if similarity.shape[1] == layout.candidates:
        return rows[:, :, None]
    of_samples, of_further = rows.split((layout.views * layout.samples, layout.further), dim=-1)
    blocks = of_samples.unflatten(-1, (layout.views, -1))
    further = of_further[:, :, None].expand(-1, -1, layout.views, -1)
    return torch.cat((blocks, further), dim=-1)


@dataclass
class SameClass:
    r"""Uniform over the positive and the other samples of its class, in all views: SupCon.

    .. math:: T_{ii} = \frac{V - 1}{V - 1 + V F_i},\qquad T_{ij} = \frac{V}{V - 1 + V F_i}
              \text{ for the } F_i \text{ other samples of the class}

    With V views, or 1 and 1 in the numerators for pairs. As CL's targets, this is L_out of Khosla
    et al. (2020). A sample without a label has its own positive only.

    Example:
        >>> same_class = torch.tensor([[True, True, False]] * 2 + [[False, False, True]])
        >>> SameClass()(Layout(3, 3), same_class).tolist()
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    marks = True
    needs_labels = True

    def __call__(self, layout: Layout, similarity: Tensor | None) -> Tensor:
        if similarity is None:
            raise ValueError("labels is missing; the targets same_class need them.")
        return _attracted(layout, similarity)


def _attracted(layout: Layout, is_false: Tensor) -> Tensor:
    """Return uniform targets over the positive and the views of the samples marked in (B, S) or (A,
    S); hard negatives and a queue have one view.
    """
    weight = is_false.to(layout.dtype)
    weight[:, : layout.samples] *= layout.views
    own = layout.own_columns(None)[: len(weight), :1]
    weight.scatter_(1, own, max(layout.views - 1, 1))
    return weight / weight.sum(1, keepdim=True)


RULES: dict[str, Callable[..., Rule | None]] = {
    "onehot": lambda: None,
    "half_uniform": HalfUniform,
    "fnc": Attracted,
    "softmax": Softmax,
    "same_class": SameClass,
    "wcl_one_head": Components,
}
