"""Projection heads between the encoder and the loss."""

from torch import Tensor, nn


class ProjectionHead(nn.Sequential):
    """Linear → batch norm → ReLU → linear: the two-layer head of SimCLR (Chen et al., 2020), as in
    the DCL code.

    It maps features (B, D) to embeddings (B, out), which the loss normalises. With batch norm, the
    first linear layer has no bias, because batch norm would cancel it.

    Args:
        in_features: D, size of the encoder's features.
        hidden: width of the hidden layer.
        out: size of the embedding.
        batch_norm: whether to batch-normalise the hidden layer.
        dropout: dropout probability of the hidden layer.

    Example:
        >>> import torch
        >>> ProjectionHead(64, hidden=32, out=16)(torch.zeros(4, 64)).shape
        torch.Size([4, 16])
    """

    def __init__(
        self,
        in_features: int,
        hidden: int = 512,
        out: int = 128,
        batch_norm: bool = True,
        dropout: float = 0.0,
    ) -> None:
        norm = [nn.BatchNorm1d(hidden)] if batch_norm else []
        dropped = [nn.Dropout(dropout)] if dropout else []
        layers = (
            nn.Linear(in_features, hidden, bias=not batch_norm),
            *norm,
            nn.ReLU(inplace=True),
            *dropped,
        )
        super().__init__(*layers, nn.Linear(hidden, out))


class ResidualHead(nn.Module):
    r"""A head that starts as the identity: :math:`x + W_2\,\mathrm{gelu}(W_1 x)` with :math:`W_2 =
    0`, both with biases.

    A frozen encoder's features are already good, and a head from scratch would first have to
    recover them. If `out` differs from D, x is replaced by a linear map of it, which starts at
    random.

    Args:
        in_features: D, size of the encoder's features.
        hidden: width of the hidden layer.
        out: size of the embedding.
        dropout: dropout probability of the hidden layer.

    Example:
        >>> import torch
        >>> features = torch.rand(2, 8)
        >>> torch.equal(ResidualHead(8, hidden=16, out=8)(features), features)
        True
    """

    def __init__(self, in_features: int, hidden: int, out: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.skip = nn.Identity() if out == in_features else nn.Linear(in_features, out, bias=False)
        self.change = nn.Sequential(
            nn.Linear(in_features, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, out)
        )
        for parameter in self.change[-1].parameters():
            nn.init.zeros_(parameter)

    def forward(self, features: Tensor) -> Tensor:
        """Return (…, out) of features (…, D)."""
        return self.skip(features) + self.change(features)


def build_head(
    in_features: int,
    *,
    name: str = "mlp",
    hidden: int | None = 512,
    dimensions: int | None = 128,
    batch_norm: bool = False,
    dropout: float = 0.0,
) -> nn.Module:
    """Build the projection head with the given config name.

    Args:
        in_features: D, size of the encoder's features.
        name: ``linear``, ``mlp`` (:class:`ProjectionHead`) or ``residual`` (:class:`ResidualHead`).
        hidden: width of the hidden layer; None: the size of the embedding.
        dimensions: size of the embedding; None: D.
        batch_norm: whether ``mlp`` batch-normalises its hidden layer.
        dropout: dropout probability of the hidden layer.
    """
    out = dimensions or in_features
    if name == "linear":
        return nn.Linear(in_features, out)
    if name == "residual":
        return ResidualHead(in_features, hidden or out, out, dropout)
    return ProjectionHead(in_features, hidden or out, out, batch_norm, dropout)
