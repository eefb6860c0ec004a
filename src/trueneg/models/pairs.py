"""The model of pairs: encoders of anchors and columns with projections to a shared space, a
similarity and a logit scale.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trueneg.losses import LogitScale
from trueneg.models.region_similarity import RegionSimilarity
from trueneg.models.towers.tower import Embedded, as_embedded


class PairModel(nn.Module):
    r"""Embeds anchors and columns, which may be images or texts, and compares them.

    The names of the modules are those in a finished run's file. The encoder of one side and its
    projection have a common prefix: ``text_encoder`` and ``text_projection`` have ``text_``,
    ``anchors.text_encoder`` and ``anchors.text_projection`` have ``anchors.text_``.

    A linear projection commutes with the average over regions, so the pooled embedding is the mean
    of the regions' embeddings. A two-layer projection does not: it is applied to the pooled
    features (as in ConVIRT and ReCo) and to each region separately. A projection released with its
    encoder may have ``projects_maps``: it maps feature maps itself, and takes the keyword
    ``regions``.

    Args:
        modules: encoders and projections by name. An encoder returns vectors (B, C), feature maps
            (B, C, h, w), or :class:`~trueneg.models.towers.tower.Embedded`.
        similarity: s(anchor, column).
        logit_scale: module that returns the scale of the similarities.

    Example:
        >>> from trueneg.losses import CrossModalLoss, Debiased
        >>> from trueneg.models.spatial_encoders import SmallSpatialResNet
        >>> from trueneg.models.text_encoders import BertTextEncoder, small_bert
        >>> texts = BertTextEncoder(small_bert(vocabulary_size=20, hidden=8, heads=2))
        >>> modules = {"image_encoder": SmallSpatialResNet(width=4), "text_encoder": texts}
        >>> modules |= {"image_projection": nn.Linear(16, 6), "text_projection": nn.Linear(8, 6)}
        >>> similarity = RegionSimilarity("lse+nl", lse_sharpness=5.0, attention_scale=5.0)
        >>> model = PairModel(modules, similarity, LogitScale(14.0))
        >>> tokens = torch.randint(20, (3, 5)), torch.ones(3, 5, dtype=torch.int64)
        >>> anchors = model.embed("text_", *tokens).pooled
        >>> scores = model.similarity(anchors, model.embed("image_", torch.rand(3, 1, 64, 64)))
        >>> scores.shape
        torch.Size([3, 3])
        >>> CrossModalLoss(Debiased(0.05), directions="text")(
        ...     scores, model.logit_scale()
        ... ).isfinite().item()
        True
    """

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        similarity: RegionSimilarity,
        logit_scale: LogitScale,
    ) -> None:
        super().__init__()
        for name, module in modules.items():
            parent, _, own = name.rpartition(".")
            if parent and parent not in self._modules:
                self.add_module(parent, nn.Module())
            self.get_submodule(parent).add_module(own, module)
        self.region_similarity = similarity
        self.logit_scale = logit_scale

    def embed(self, prefix: str, *inputs: Any, regions: bool = False, **named: Any) -> Embedded:
        """Return the unnormalised embeddings of what an encoder takes; for `regions` see
        :meth:`project`.
        """
        encoder = self.get_submodule(f"{prefix}encoder")
        return self.project(prefix, encoder(*inputs, **named), regions=regions)

    def project(self, prefix: str, features: Any, *, regions: bool = False) -> Embedded:
        """Project features to the shared space.

        Args:
            prefix: what the names of the encoder and its projection begin with.
            features: what the encoder returns.
            regions: also project the regions (for heatmaps and boxes), even if the similarity does
                not need them.
        """
        projection: Any = self.get_submodule(f"{prefix}projection")
        regions = regions or self.region_similarity.needs_regions
        if getattr(projection, "projects_maps", False):
            return projection(features, regions=regions)
        features, maps = as_embedded(features)
        pooled = projection(features)
        if not regions or maps is None:
            return Embedded(pooled)
        projected = projection(maps.flatten(2).mT).mT
        return Embedded(pooled, projected.unflatten(2, maps.shape[2:]))

    def similarity(
        self, anchors: Tensor, columns: Embedded, *, anchors_at_once: int | None = None
    ) -> Tensor:
        """Compute s(anchor, column) in [−1, 1] for all pairs of anchors and columns.

        Args:
            anchors: (B, D).
            columns: embeddings of K columns.
            anchors_at_once: number of anchors per block; limits memory with many anchors and
                regions without changing the result.

        Returns:
            (B, K).
        """
        blocks = anchors.split(anchors_at_once or len(anchors))
        return torch.cat([self.region_similarity(some, columns) for some in blocks])


class SharedSpace(nn.Identity):
    """The projection of an encoder whose vectors are already in the shared space: none.

    Args:
        dimensions: D, size of the shared space.
    """

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
