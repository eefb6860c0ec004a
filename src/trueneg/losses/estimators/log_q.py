"""logQ correction: weight each negative by the inverse of the probability with which it was
drawn.
"""

from dataclasses import dataclass

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.log_space import log_sum_exp


@dataclass(repr=False)
class LogQ(Estimator):
    r"""Correct for samples that are drawn as negatives more often than others, such as popular
    items.

    .. math:: N g = q_p \sum_n \frac{e^{u_n}}{q_n}

    Yi et al. (2019), Sampling-Bias-Corrected Neural Modeling, equation 3: log q is subtracted from
    each logit of the softmax, that of the positive included. In a batch, a sample is a negative as
    often as it is a positive of others, so frequent ones are pushed away most. DCL's η per anchor
    is the counterpart: there, the anchors of frequent classes have more false negatives. Pass
    ``sampling_probability``, q of each column's sample, to the loss; a factor common to all of them
    cancels.

    Example:
        >>> import torch
        >>> log_ratio = torch.tensor([[2.0, 0.5]]).log()  # of q to that of the positive
        >>> LogQ()(torch.zeros(1), torch.zeros(1, 2), log_probability=log_ratio).exp().item()
        2.5
    """

    name = "logq"
    needs_probability = True

    def mass(self, anchors: Anchors) -> NegativeMass:
        return unbounded(log_sum_exp(anchors.negatives - anchors.required("log_probability")))
