"""Other libraries' calls for these losses.

lightly needs none: its losses are called with two views, as :class:`trueneg.losses.ContrastiveLoss` is.
"""

from torch import Tensor, nn

from trueneg.losses.base import Estimator
from trueneg.losses.cross_modal import CrossModalLoss


class OpenClipLoss(nn.Module):
    """Called as OpenCLIP's ``ClipLoss``, and equal to it with ``Uncorrected()``.

    Args:
        estimator: how the mass of the true negatives is estimated.
        directions: as for :class:`CrossModalLoss`.
        chunk_size: as for :class:`CrossModalLoss`.
        gather_distributed: as for :class:`CrossModalLoss`; it does what ``local_loss`` and
            ``gather_with_grad`` do together.

    Example:
        >>> import torch
        >>> from trueneg.losses import Debiased
        >>> loss = OpenClipLoss(Debiased(0.05))
        >>> features = torch.nn.functional.normalize(torch.randn(8, 16), dim=-1)
        >>> sorted(loss(features, features, logit_scale=torch.tensor(14.0), output_dict=True))
        ['contrastive_loss']
    """

    def __init__(
        self,
        estimator: Estimator,
        directions: str = "both",
        *,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
    ):
        super().__init__()
        self.loss = CrossModalLoss(estimator, directions, chunk_size=chunk_size, gather_distributed=gather_distributed)

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
        class_probability: float | Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """The loss, as a scalar or as ``{"contrastive_loss": scalar}``.

        Args:
            image_features: (B, D), normalised, as OpenCLIP's models return them.
            text_features: (B, D), likewise.
            logit_scale: scalar tensor.
            logit_bias: without effect, as in a softmax: the same number for every logit cancels.
            output_dict: whether to return a dictionary.
            class_probability: η of each pair, shape (B,), or one number.
        """
        terms = self.loss.of_features(text_features, image_features, logit_scale, class_probability)
        return {"contrastive_loss": terms.loss} if output_dict else terms.loss
