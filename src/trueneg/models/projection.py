"""Projection head between the encoder and the loss; it is removed after training."""

from torch import nn


class ProjectionHead(nn.Sequential):
    """Linear → batch norm → ReLU → linear: the two-layer head of SimCLR (Chen et al., 2020), as in the DCL code.

    It maps features (B, D) to embeddings (B, out), which the loss normalises. With batch norm, the first linear layer has no
    bias, because batch norm would cancel it.

    Args:
        in_features: D, size of the encoder's features.
        hidden: width of the hidden layer.
        out: size of the embedding.
        batch_norm: whether to batch-normalise the hidden layer.

    Example:
        >>> import torch
        >>> ProjectionHead(64, hidden=32, out=16)(torch.zeros(4, 64)).shape
        torch.Size([4, 16])
    """

    def __init__(self, in_features: int, hidden: int = 512, out: int = 128, batch_norm: bool = True) -> None:
        norm = [nn.BatchNorm1d(hidden)] if batch_norm else []
        super().__init__(
            nn.Linear(in_features, hidden, bias=not batch_norm), *norm, nn.ReLU(inplace=True), nn.Linear(hidden, out)
        )
