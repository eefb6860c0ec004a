"""The networks of a text study: one tower with its head, or two."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from trueneg.losses import LogitScale
from trueneg.models.projection import build_head
from trueneg.models.region_similarity import RegionSimilarity


class TextEmbedder(nn.Module):
    """A text tower with its head.

    Args:
        tower: maps its inputs to :class:`~trueneg.models.towers.tower.Embedded`; its ``dimensions``
            is H.
        head: settings of :func:`~trueneg.models.projection.build_head`; the name ``none`` means no
            head.
    """

    def __init__(self, tower: Any, head: Mapping[str, Any]) -> None:
        super().__init__()
        self.text_encoder = tower
        self.text_projection = (
            nn.Identity() if head["name"] == "none" else build_head(tower.dimensions, **head)
        )

    def forward(self, **inputs: Any) -> Tensor:
        """Return unnormalised embeddings (T, D) of T texts."""
        return self.text_projection(self.text_encoder(**inputs).pooled)


class TextPairModel(nn.Module):
    """Embeds anchors and positives, with one tower for both or with two.

    Args:
        anchors: embeds the anchors.
        positives: embeds the positives; None: the same as `anchors`.
        logit_scale: module that returns the scale of the similarities.
    """

    def __init__(
        self, anchors: TextEmbedder, positives: TextEmbedder | None, logit_scale: LogitScale
    ) -> None:
        super().__init__()
        self.anchors, self.own_positives, self.logit_scale = anchors, positives, logit_scale
        self.region_similarity = RegionSimilarity("global")  # cosine

    @property
    def positives(self) -> TextEmbedder:
        """What embeds the positives."""
        return self.anchors if self.own_positives is None else self.own_positives
