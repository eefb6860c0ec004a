"""What each loss does to one negative, depending on its similarity to the anchor."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from trueneg.config.theory_study import SweepSettings
from trueneg.losses import Bayesian, CrossModalLoss, Debiased, HardNegative, RelaxedContrastiveLoss, Uncorrected
from trueneg.losses.base import Estimator
from trueneg.specs.experiments import DCL, FORM_NAMES, LOGIT_SCALE, OTHERS, POSITIVE
from trueneg.theory.scores import Setting

COSINES = tuple(np.linspace(-0.99, 0.99, 199).round(2))  # at ±1, the cosine has no gradient


def negative_gradients(setting: Setting, sweeps: SweepSettings, cosines: tuple[float, ...] = COSINES) -> pd.DataFrame:
    """Differentiate losses with respect to the cosine c of one negative; the anchor's other cosines are fixed.

    Returns:
        ``family`` (whether the loss has a denominator), ``loss``, ``cosine``, ``value`` (∂L/∂c of the anchor's loss, divided by
        the logit scale or, for ReCo and OC, by 2λ), ``standard error`` (0).
    """
    eta = setting.class_probability
    estimators: dict[str, Estimator] = {"CL": Uncorrected(), DCL: Debiased(eta), "HCL": HardNegative(1.0, eta)}
    estimators |= {FORM_NAMES[form]: Bayesian(setting.alpha, 1.0, eta, form) for form in ("paper", "consistent")}
    losses: dict[str, Callable[..., Tensor]] = {name: partial(scaled_loss, estimator) for name, estimator in estimators.items()}
    losses |= {"ReCo": RelaxedContrastiveLoss(0.5), "ReCo, m = −1": RelaxedContrastiveLoss(0.5, margin=-1.0)}
    losses |= {"OC": RelaxedContrastiveLoss(0.5, relaxed=False), "sigmoid": sigmoid_loss}
    fixed = torch.tensor([POSITIVE, *np.linspace(*OTHERS)], dtype=torch.float64)
    rows = []
    for name, loss in losses.items():
        family = "With a denominator" if name in estimators else "Without a denominator"
        rows += [(family, name, cosine, _gradient(loss, fixed, cosine), 0.0) for cosine in cosines]
    return pd.DataFrame(rows, columns=["family", "loss", "cosine", "value", "standard error"])


def scaled_loss(estimator: Estimator, u: Tensor, v: Tensor) -> Tensor:
    """Return the loss of an estimator, summed over anchors and divided by the logit scale."""
    return len(u) * CrossModalLoss(estimator, "text").of_features(u, v, LOGIT_SCALE).loss / LOGIT_SCALE


def sigmoid_loss(u: Tensor, v: Tensor, scale: float = 10.0, bias: float = -10.0) -> Tensor:
    """Return SigLIP's loss (Zhai et al., 2023, algorithm 1, at its initial scale and bias), summed and divided likewise."""
    return -functional.logsigmoid((2 * torch.eye(len(u), dtype=u.dtype) - 1) * (scale * u @ v.mT + bias)).sum() / scale


def _gradient(loss: Callable[..., Tensor], fixed: Tensor, cosine: float) -> float:
    """Return ∂L/∂c for an anchor with fixed cosines (first the positive's); other anchors are 0, so c does not affect them."""
    swept = torch.tensor([cosine], dtype=fixed.dtype, requires_grad=True)
    cosines = torch.cat((fixed, swept))
    anchors = torch.zeros(len(cosines), 2, dtype=fixed.dtype)
    anchors[0, 0] = 1
    return torch.autograd.grad(loss(anchors, torch.stack((cosines, (1 - cosines**2).sqrt()), dim=1)), swept)[0].item()
