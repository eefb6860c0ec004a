"""Adapters that give these losses the call signatures of other libraries.

lightly needs no adapter: its losses take two views, as does :class:`trueneg.losses.ContrastiveLoss`.
"""

from torch import Tensor

from trueneg.losses.cross_modal import CrossModalLoss


class OpenClipLoss(CrossModalLoss):
    """Drop-in replacement for OpenCLIP's ``ClipLoss``; equal to it with ``Uncorrected()``.

    The constructor takes the arguments of :class:`CrossModalLoss`; ``gather_distributed`` is equivalent to setting both
    ``local_loss`` and ``gather_with_grad``.

    Example:
        >>> import torch
        >>> from trueneg.losses import Debiased
        >>> loss = OpenClipLoss(Debiased(0.05))
        >>> features = torch.nn.functional.normalize(torch.randn(8, 16), dim=-1)
        >>> sorted(loss(features, features, logit_scale=torch.tensor(14.0), output_dict=True))
        ['contrastive_loss']
    """

    def forward(  # type: ignore[override]  # the call of OpenCLIP's loss
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
        class_probability: float | Tensor | None = None,
    ) -> Tensor | dict[str, Tensor]:
        """Return the loss as a scalar, or as ``{"contrastive_loss": scalar}``.

        Args:
            image_features: (B, D) normalised image features, as returned by OpenCLIP's models.
            text_features: (B, D) normalised text features.
            logit_scale: scalar tensor.
            logit_bias: ignored; a constant added to every logit cancels, as in any softmax.
            output_dict: whether to return a dictionary.
            class_probability: η, a single number or one value per pair, shape (B,).
        """
        loss = self.of_features(text_features, image_features, logit_scale, class_probability).loss
        return {"contrastive_loss": loss} if output_dict else loss
