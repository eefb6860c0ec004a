"""An image and a text encoder with projections to one space, a similarity and a learned logit scale."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from trueneg.losses import LogitScale
from trueneg.models.projection import ProjectionHead
from trueneg.models.region_similarity import ImageEmbeddings, RegionSimilarity, heatmaps


class ImageTextModel(nn.Module):
    r"""Two encoders and what makes their outputs comparable.

    A linear projection commutes with the average over regions, so the pooled image is the mean of its regions; a
    two-layer one does not: it projects the pooled features (as ConVIRT and ReCo do) and each region's.

    Args:
        image_encoder: maps images to feature maps (B, C, h, w); has ``dimensions`` C.
        text_encoder: maps ``input_ids`` and ``attention_mask`` to vectors (B, H); has ``dimensions`` H.
        similarity: s(text, image).
        dimensions: D of the shared space, of new projections.
        projection: ``"linear"``, one linear layer each (Sample-Specific Debiasing, 2023: D = 128); or ``"mlp"``, linear,
            ReLU, linear (ReCo: D = 512), its hidden layer of D units; or two modules, as released with the encoders: the
            images', from feature maps and the keyword ``regions`` to :class:`ImageEmbeddings`, and the texts', from vectors.
        logit_scale: γ² at the beginning; it is learned.

    Attributes:
        logit_scale: module that gives the present γ².

    Example:
        >>> from trueneg.losses import CrossModalLoss, Debiased
        >>> from trueneg.models.spatial_encoders import SmallSpatialResNet
        >>> from trueneg.models.text_encoders import BertTextEncoder, small_bert
        >>> texts = BertTextEncoder(small_bert(vocabulary_size=20, hidden=8, heads=2))
        >>> similarity = RegionSimilarity("lse+nl", lse_sharpness=5.0, attention_scale=5.0)
        >>> model = ImageTextModel(SmallSpatialResNet(width=4), texts, similarity, dimensions=16)
        >>> tokens = {"input_ids": torch.randint(20, (3, 5)), "attention_mask": torch.ones(3, 5, dtype=torch.int64)}
        >>> scores = model(torch.rand(3, 1, 64, 64), **tokens)
        >>> scores.shape
        torch.Size([3, 3])
        >>> CrossModalLoss(Debiased(0.05), directions="text")(scores, model.logit_scale()).isfinite().item()
        True
    """

    def __init__(
        self,
        image_encoder: Any,
        text_encoder: Any,
        similarity: RegionSimilarity,
        *,
        dimensions: int = 128,
        projection: Literal["linear", "mlp"] | tuple[nn.Module, nn.Module] = "linear",
        logit_scale: float = 14.0,
    ) -> None:
        super().__init__()
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.projects_maps = not isinstance(projection, str)
        if isinstance(projection, str):
            self.image_projection = _projection(projection, image_encoder.dimensions, dimensions)
            self.text_projection = _projection(projection, text_encoder.dimensions, dimensions)
        else:
            self.image_projection, self.text_projection = projection
        self.region_similarity = similarity
        self.logit_scale = LogitScale(logit_scale)

    def forward(self, images: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The (T, I) unscaled similarities of a batch: what ``CrossModalLoss`` takes, with ``logit_scale()``.

        Args:
            images: (I, channels, H, W), normalised.
            input_ids: (T, L) tokens.
            attention_mask: (T, L), 0 at padding.
        """
        return self.similarity(self.embed_texts(input_ids, attention_mask), self.embed_images(images))

    def embed_texts(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embeddings (T, D), not normalised, of tokens (T, L)."""
        return self.text_projection(self.text_encoder(input_ids, attention_mask))

    def embed_images(self, images: Tensor, *, regions: bool = False) -> ImageEmbeddings:
        """Embeddings of images (I, channels, H, W).

        Args:
            images: normalised.
            regions: project the regions too where the similarity does without, for heatmaps and boxes.
        """
        features = self.image_encoder(images)
        regions = regions or self.region_similarity.needs_regions
        if self.projects_maps:
            return self.image_projection(features, regions=regions)
        pooled = self.image_projection(features.mean((2, 3)))
        if not regions:
            return ImageEmbeddings(pooled, None)
        projected = self.image_projection(features.flatten(2).mT).mT
        return ImageEmbeddings(pooled, projected.unflatten(2, features.shape[2:]))

    def similarity(self, texts: Tensor, images: ImageEmbeddings, *, texts_at_once: int | None = None) -> Tensor:
        """s(text, image) of all texts with all images, in [−1, 1].

        Args:
            texts: (T, D).
            images: I images.
            texts_at_once: bounds the memory where many texts meet many regions; it does not change the result.

        Returns:
            (T, I).
        """
        blocks = texts.split(texts_at_once or len(texts))
        return torch.cat([self.region_similarity(some, images) for some in blocks])

    def region_scores(self, texts: Tensor, images: ImageEmbeddings) -> Tensor:
        """Cosines of each text with the regions of its own image, which was embedded with ``regions=True``: (B, h, w)."""
        return heatmaps(texts, images.regions)


def _projection(name: str, dimensions: int, out: int) -> nn.Module:
    if name == "linear":
        return nn.Linear(dimensions, out)
    return ProjectionHead(dimensions, hidden=out, out=out, batch_norm=False)
