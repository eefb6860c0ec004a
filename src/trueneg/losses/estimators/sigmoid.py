"""The sigmoid loss: each pair is classified on its own, and an anchor can have several
positives.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import AnchorCriterion
from trueneg.losses.checks import checked_choice, checked_number, reshape_scalars

POSITIVES = ("own", "labels")


class Sigmoid(AnchorCriterion, nn.Module):
    r"""Classify each pair as positive or negative, independently of the others: SigLIP.

    .. math::

        L = \operatorname{softplus}(-(p + b)) + \sum_n \operatorname{softplus}(-m_n (u_n + b))

    with :math:`m_n = 1` for further positives, else −1; Zhai et al. (2023), and with several
    positives FaNe (2025). It stands in a loss in place of an estimator, but there is no mass of
    negatives: nothing is divided by a sum. Columns that are not negatives add nothing. With several
    own positives (views), the first term is summed over them. The bias is a parameter of the loss,
    to be trained with the network.

    Args:
        bias: b at the start.
        learned_bias: whether b is trained.
        positives: further positives. ``"own"``: none; ``"labels"``: columns of the anchor's class.

    Raises:
        ValueError: if the bias is not finite, or ``positives`` is unknown.

    Example:
        >>> sigmoid = Sigmoid(bias=-1.0)  # p and u are 1 and −∞: softplus(−(1 − 1)) + 0
        >>> round(sigmoid(torch.ones(1), torch.full((1, 3), -math.inf)).item(), 4)
        0.6931
        >>> [name for name, _ in sigmoid.named_parameters()]
        ['bias']
    """

    name = "sigmoid"
    combines = False
    pairwise = True

    def __init__(self, bias: float = -10.0, learned_bias: bool = True, positives: str = "own"):
        super().__init__()
        if not math.isfinite(checked_number("bias", bias)):
            raise ValueError(f"bias is {bias}; expected a finite number.")
        self.positives = checked_choice("positives", positives, POSITIVES)
        self.needs_labels = self.marks = positives == "labels"
        self.initial_bias = float(bias)
        # of shape (1,), because FSDP2 cannot shard scalars
        self.bias = nn.Parameter(torch.tensor([self.initial_bias]), requires_grad=learned_bias)
        self.register_load_state_dict_pre_hook(reshape_scalars)

    def extra_repr(self) -> str:
        """Return the settings; the parameter may be on another process."""
        return f"bias={self.initial_bias:g}, positives={self.positives!r}"

    def __call__(
        self,
        positive: Tensor,
        negatives: Tensor,
        *,
        same_class: Tensor | None = None,
        valid: Tensor | None = None,
    ) -> Tensor:
        """Return each anchor's loss, shape (A,).

        Args:
            positive: (A,) or (A, M) logits p.
            negatives: (A, K) logits u.
            same_class: (A, K) bool, whether a column is a further positive, if labels say so.
            valid: (A, K) bool, marks the columns that count; None: all.
        """
        anchors = Anchors(positive, negatives, same_class=same_class)
        return self.losses(anchors, None if valid is None else ~valid)[0]

    def losses(
        self,
        anchors: Anchors,
        left_out: Tensor | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
        decoupled: bool = False,
    ) -> tuple[Tensor, NegativeMass]:
        of_positives, of_columns, marked = self.of_pairs(anchors, left_out)
        loss = of_positives + of_columns.sum(-1)
        return loss, unbounded(log_mass_of(loss, anchors.own_positive), marked)

    def of_pairs(
        self, anchors: Anchors, left_out: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        bias = self.bias if anchors.bias is None else anchors.bias
        logits = anchors.negatives + bias
        if left_out is not None:
            logits = logits.masked_fill(left_out, -math.inf)
        marked = None
        if self.positives == "labels":
            marked = anchors.required("same_class")
            logits = torch.where(marked & ~logits.isneginf(), -logits, logits)
        of_positives = functional.softplus(-(anchors.own_positives + bias))
        if of_positives.dim() == 2:
            of_positives = of_positives.sum(1)
        return of_positives, functional.softplus(logits), marked


def log_mass_of(loss: Tensor, positive: Tensor) -> Tensor:
    """Return the log(N·g) at which a softmax would have this loss, log(1 + N·g / e^p): what is
    logged beside that of the other methods, and no mass of negatives.
    """
    # at 0, the derivative of log(e^L − 1) is infinite
    above = loss.clamp(min=torch.finfo(loss.dtype).tiny)
    return positive + above + (-torch.expm1(-above)).log()
