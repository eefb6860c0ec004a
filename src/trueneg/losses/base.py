"""Base class and functions shared by all estimators of the true-negative mass N·g.

For each anchor, ``positive`` holds its logits (scaled similarities) with its positives, and
``negatives`` its logits with the N samples drawn from the data. All computation stays in log space,
so a logit scale of 100 does not overflow in float32.
"""

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable


class NegativeMass(NamedTuple):
    """An estimator's output for each anchor.

    Attributes:
        log: (A,) log(N·g).
        at_bound: (A,) bool, True where the lower bound replaced the estimate, so the negatives get
            no gradient.
        removed: (A, N) share of each negative that is left out: bool, or one minus its weight; None
            if nothing is left out. Columns that are not negatives hold arbitrary values.
    """

    log: Tensor
    at_bound: Tensor
    removed: Tensor | None = None


def own_positive(positive: Tensor) -> Tensor:
    """Return the logits of the anchors' own positives, (A,), from (A,) or (A, M) logits."""
    return positive if positive.dim() == 1 else positive[:, 0]


def unbounded(log_mass: Tensor, removed: Tensor | None = None) -> NegativeMass:
    """Wrap the log mass of an estimator that has no bound."""
    return NegativeMass(log_mass, torch.zeros_like(log_mass, dtype=torch.bool), removed)


class Estimator:
    """Base class for estimators of each anchor's true-negative mass; subclasses implement
    :meth:`mass`.

    Attributes:
        name: the estimator's name in configurations and in :func:`trueneg.losses.build`.
        needs_labels: whether ``same_class`` is required.
        needs_similarity: whether ``similarity`` is required.
        needs_positive_similarity: whether ``positive_similarity`` is required.
        marks: whether it marks individual negatives as false, so that they can be compared with the
            truth.
        compares_samples: whether ``similarity`` should be that of samples, and not that of their
            views.
        combines: whether soft targets and ``decoupled`` are possible; not if N·g stands for a loss
            that is not a softmax.
    """

    name: ClassVar[str]
    needs_labels: bool = False
    needs_similarity: bool = False
    needs_positive_similarity: ClassVar[bool] = False
    marks: bool = False
    compares_samples: ClassVar[bool] = False
    combines: ClassVar[bool] = True

    def __call__(
        self,
        positive: Tensor,
        negatives: Tensor,
        class_probability: float | Tensor | None = None,
        *,
        temperature: float | Tensor | None = None,
        same_class: Tensor | None = None,
        similarity: Tensor | None = None,
        positive_similarity: Tensor | None = None,
        valid: Tensor | None = None,
        views: int = 1,
    ) -> Tensor:
        """Return the log of the true-negative mass, shape (A,); takes the same arguments as
        :meth:`mass`, plus ``valid``.

        Args:
            valid: (A, N) bool, marks the columns that are the anchor's negatives; the others are
                ignored. None: all columns.
        """
        facts: dict[str, Any] = {
            "class_probability": class_probability,
            "temperature": temperature,
            "same_class": same_class,
            "similarity": similarity,
            "positive_similarity": positive_similarity,
            "views": views,
        }
        if valid is None:
            return self.mass(positive, negatives, **facts).log
        return self.mass_of_valid(positive, negatives, valid, **facts).log

    def mass_of_valid(
        self, positive: Tensor, negatives: Tensor, valid: Tensor, **facts: Any
    ) -> NegativeMass:
        """Return :meth:`mass` over the columns that are negatives; an anchor without any has log
        mass −∞ and no gradient.

        Args:
            positive: see :meth:`mass`, also for arguments that are not listed here.
            negatives: (A, N) logits; those of other columns are ignored.
            valid: (A, N) bool, which columns are negatives.
        """
        count = valid.sum(-1)
        none = count == 0
        # Logits of 0 keep the estimate of an anchor without negatives finite; it is replaced below.
        usable = negatives.masked_fill(~valid, -math.inf).masked_fill(none[:, None], 0)
        mass = self.mass(positive, usable, count=count.clamp(min=1), **facts)
        return mass._replace(
            log=mass.log.masked_fill(none, -math.inf), at_bound=mass.at_bound & ~none
        )

    def mass(
        self,
        positive: Tensor,
        negatives: Tensor,
        *,
        class_probability: float | Tensor | None = None,
        temperature: float | Tensor | None = None,
        same_class: Tensor | None = None,
        similarity: Tensor | None = None,
        positive_similarity: Tensor | None = None,
        count: int | Tensor | None = None,
        views: int = 1,
    ) -> NegativeMass:
        """Return the log of the true-negative mass, and whether it is at its bound. Subclasses
        ignore arguments they do not use.

        Args:
            positive: (A,) or (A, M) logits; the first column is the anchor's own positive, the
                others are further draws from its class.
            negatives: (A, N) logits; columns that are not negatives of the anchor hold −∞ and must
                get the gradient 0, as from every function of e^u. ``count`` is then given.
            class_probability: η, a single number or one value per anchor, shape (A,); overrides the
                estimator's own.
            temperature: t, by which similarities in [−1, 1] were divided: a number or a tensor that
                broadcasts to (A,). Then e^u ≥ e^(−1/t), which bounds g; None: g has no bound.
            same_class: (A, N) bool, whether a negative shares the anchor's class; required if
                ``needs_labels``.
            similarity: (A, N) known similarity between a negative and the anchor's positive;
                required if ``needs_similarity``.
            positive_similarity: (A,) known similarity between the anchor and its own positive;
                required if ``needs_positive_similarity``.
            count: N, a single number or one value per anchor, shape (A,); None: the number of
                columns.
            views: 2 if the columns are two blocks of the same samples in the same order.
        """
        raise NotImplementedError

    def mean(self, positive: Tensor, negatives: Tensor, **facts: Any) -> Tensor:
        """Return g itself without a bound, shape (A,): the estimated mean of e^u over the true
        negatives.

        The result is not in log space, so it is negative where the estimate's log would be NaN.
        Takes the same arguments as :meth:`mass`.
        """
        log_mass = self.mass(positive, negatives, **facts).log
        return (log_mass - math.log(negatives.shape[-1])).exp()


class Selecting(Estimator):
    """Sum over the remaining negatives; subclasses implement :meth:`marked`. If none remain, loss
    and gradient are 0.
    """

    def marked(self, negatives: Tensor, **facts: Any) -> Tensor:
        """Return (A, N) bool: which negatives to leave out; takes the same keywords as
        :meth:`mass`.
        """
        raise NotImplementedError

    def mass(self, positive, negatives, **facts) -> NegativeMass:
        marked = self.marked(negatives, **facts)
        return unbounded(MaskedLogSumExp.apply(negatives, marked), marked)


class MaskedLogSumExp(torch.autograd.Function):
    """Log-sum-exp over the unmarked logits: (A, N) logits and bool → (A,); −∞ and no gradient where
    all are marked.

    Plain operations would save more (A, N) tensors: `guided` would take 1.6 instead of 1.3 times as
    long as CL (B = 512, one CPU thread). The gradient cannot be differentiated again.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, logits: Tensor, marked: Tensor) -> Tensor:
        """Return the log of the sums."""
        left = logits.masked_fill(marked, -math.inf)
        largest = left.amax(-1, keepdim=True)
        largest = largest.masked_fill(largest.isneginf(), 0)  # −∞ − −∞ would be NaN
        total = left.sub_(largest).exp_().sum(-1, keepdim=True)
        ctx.save_for_backward(left, total)
        return (total.log() + largest)[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        """Return the gradient w.r.t. the logits: a softmax over the unmarked ones."""
        left, total = ctx.saved_tensors
        return left * (gradients[0][:, None] / total.masked_fill(total == 0, 1)), None


def is_nearest(similarity: Tensor, threshold: float, top_k: int | None) -> Tensor:
    """Return (A, N) bool: whether a similarity is above a threshold and among the ``top_k`` largest
    of its row; ties with the next one are not. None: no limit.
    """
    is_above = similarity > threshold
    return is_above if top_k is None else is_above & (similarity > next_largest(similarity, top_k))


def next_largest(values: Tensor, rank: int | Tensor) -> Tensor:
    """Return the (``rank`` + 1)-th largest value of each row, shape (A, 1); −∞ if a row has too few
    values.

    Args:
        values: (A, N), without NaN; −∞ is allowed.
        rank: number of values to skip, or one number per row, shape (A,).
    """
    if isinstance(rank, Tensor):
        padded = torch.nn.functional.pad(values, (0, 1), value=-math.inf)
        return padded.sort(-1, descending=True).values.gather(-1, rank[:, None])
    if rank >= values.shape[-1]:
        return values.new_full((len(values), 1), -math.inf)
    return values.topk(rank + 1, sorted=False).values.amin(-1, keepdim=True)


def log_sum_exp(logits: Tensor) -> Tensor:
    """Compute ``logits.logsumexp(-1)`` in fewer passes (60 % of the time on a CPU); each row needs
    at least one finite logit.
    """
    largest = logits.detach().amax(-1, keepdim=True)
    return (logits - largest).exp_().sum(-1).log() + largest[:, 0]


def log_count(negatives: Tensor, count: int | Tensor | None) -> Tensor:
    """Return log N for each anchor, shape (A,), using the number of columns if no count is
    given.
    """
    if isinstance(count, Tensor):
        return count.to(negatives.dtype).log()
    return negatives.new_full(negatives.shape[:1], math.log(count or negatives.shape[-1]))


def is_readable(tensor: Tensor) -> bool:
    """Return whether reading a tensor's values costs nothing: on the CPU, unless the program is
    being compiled.
    """
    return tensor.device.type == "cpu" and not torch.compiler.is_compiling()


def checked_class_probability(value: float | Tensor | None) -> float | Tensor | None:
    """Return η unchanged if every value lies in [0, 1).

    Raises:
        ValueError: if it is neither a number nor a tensor, or a value lies outside [0, 1). Values
            that are not :func:`is_readable` become NaN instead.
    """
    if value is None:
        return None
    if not isinstance(value, Tensor):
        check_tensors(class_probability=None if isinstance(value, Real) else value)
        value = float(value)
        if not 0 <= value < 1:  # NaN fails too
            raise ValueError(
                f"class_probability is {value:g}; expected a number of at least 0 and below 1."
            )
        return value
    valid = (value >= 0) & (value < 1)
    if not is_readable(value):
        return torch.where(valid, value, math.nan)
    if not valid.all():
        wrong = value[~valid]
        raise ValueError(
            f"{wrong.numel()} of {value.numel()} values of class_probability are outside [0, 1)"
            f" (the first is {wrong.flatten()[0]:g}); expected all values to be at least 0 and"
            " below 1."
        )
    return value


def class_probability_of(
    passed: float | Tensor | None, default: float | Tensor | None, negatives: Tensor
) -> float | Tensor:
    """Return the η for a call: the value passed to it, else the estimator's own; a float, or a
    tensor that broadcasts to (A,).

    Args:
        passed: η passed to the call, or None.
        default: the estimator's own η, or None.
        negatives: (A, N) logits; η is converted to their dtype and device.

    Raises:
        ValueError: if neither value is set, or η is outside [0, 1) or does not have one value per
            anchor.
    """
    eta = default if passed is None else checked_class_probability(passed)
    if eta is None:
        raise ValueError("class_probability is missing; pass it to the estimator or to each call.")
    if not isinstance(eta, Tensor):
        return eta
    if eta.dim() > 0:
        checked_shape("class_probability", eta, negatives.shape[:1])
    return eta.to(dtype=negatives.dtype, device=negatives.device)


def checked_estimator(estimator: object) -> Estimator:
    """Return the estimator of a loss after checking that it is one.

    Raises:
        ValueError: if it is a name or a class.
    """
    if isinstance(estimator, Estimator):
        return estimator
    described = (
        f"the class {estimator.__name__}" if isinstance(estimator, type) else repr(estimator)
    )
    raise ValueError(
        f"estimator is {described}; expected an instance of an estimator, such as Uncorrected() or"
        " Debiased(0.1). trueneg.losses.build makes a loss from an estimator's name."
    )


def check_tensors(**values: object) -> None:
    """Check that arguments are tensors or None.

    Raises:
        ValueError: names the first argument that is something else, such as a list or an array.
    """
    for name, value in values.items():
        if not (value is None or isinstance(value, Tensor)):
            raise ValueError(f"{name} is a {type(value).__name__}; expected a tensor.")


def checked_shape(name: str, tensor: Tensor | None, shape: Sequence[int]) -> Tensor:
    """Return a required tensor after checking its shape; messages call it ``name``.

    Raises:
        ValueError: if the tensor is missing or has a different shape.
    """
    if tensor is None:
        raise ValueError(
            f"{name} is missing; the estimator needs it, as a tensor of shape {tuple(shape)}."
        )
    if tensor.shape != torch.Size(shape):
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}.")
    return tensor
