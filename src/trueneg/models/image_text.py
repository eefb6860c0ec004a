"""Image–text model: two encoders, projections to a shared space, a similarity and a learned logit scale."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from trueneg.losses import LogitScale
from trueneg.models.projection import ProjectionHead
from trueneg.models.region_similarity import ImageEmbeddings, RegionSimilarity

PROJECTIONS = ("linear", "mlp", "none")


class ImageTextModel(nn.Module):
    r"""Image and text encoders with projections to a shared space and a similarity.

    A linear projection commutes with the average over regions, so the pooled embedding is the mean of the regions' embeddings. A
    two-layer projection does not: it is applied to the pooled features (as in ConVIRT and ReCo) and to each region separately.

    Args:
        image_encoder: maps images to feature maps (B, C, h, w); its ``dimensions`` is C.
        text_encoder: maps ``input_ids`` and ``attention_mask`` to vectors (B, H); its ``dimensions`` is H.
        similarity: s(text, image).
        dimensions: D, size of the shared space; used for new projections only.
        projection: ``"linear"``: one linear layer per modality (Sample-Specific Debiasing, 2023: D = 128); ``"mlp"``: linear,
            ReLU, linear with D hidden units (ReCo: D = 512); ``"none"``: image features are not projected, and one linear layer
            maps texts to the same size; or a pair of modules released with the encoders. The image module maps feature maps and
            the keyword ``regions`` to :class:`ImageEmbeddings`; the text module maps vectors.

    Raises:
        ValueError: if ``projection`` is an unknown name.

    Attributes:
        logit_scale: module that returns γ², which is learned and starts at 14.

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
        projection: Literal["linear", "mlp", "none"] | tuple[nn.Module, nn.Module] = "linear",
    ) -> None:
        super().__init__()
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.projects_maps = not isinstance(projection, str)
        if isinstance(projection, str) and projection not in PROJECTIONS:
            raise ValueError(f"projection is {projection!r}; expected two modules or one of {', '.join(PROJECTIONS)}.")
        if projection == "none":
            projection = nn.Identity(), nn.Linear(text_encoder.dimensions, image_encoder.dimensions)
        elif isinstance(projection, str):
            sizes = image_encoder.dimensions, text_encoder.dimensions
            projection = _projection(projection, sizes[0], dimensions), _projection(projection, sizes[1], dimensions)
        self.image_projection, self.text_projection = projection
        self.region_similarity = similarity
        self.logit_scale = LogitScale(14.0)

    def forward(self, images: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the unscaled similarities (T, I) of a batch; pass them to ``CrossModalLoss`` with ``logit_scale()``.

        Args:
            images: (I, channels, H, W), normalised.
            input_ids: (T, L) tokens.
            attention_mask: (T, L), 0 at padding.
        """
        return self.similarity(self.embed_texts(input_ids, attention_mask), self.embed_images(images))

    def embed_texts(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return unnormalised embeddings (T, D) of tokens (T, L)."""
        return self.text_projection(self.text_encoder(input_ids, attention_mask))

    def embed_images(self, images: Tensor, *, regions: bool = False) -> ImageEmbeddings:
        """Embed normalised images (I, channels, H, W); for `regions` see :meth:`project_images`."""
        return self.project_images(self.image_encoder(images), regions=regions)

    def project_images(self, features: Tensor, *, regions: bool = False) -> ImageEmbeddings:
        """Project the feature maps of images to the shared space.

        Args:
            features: feature maps (I, C, h, w).
            regions: also project the regions (for heatmaps and boxes), even if the similarity does not need them.
        """
        regions = regions or self.region_similarity.needs_regions
        if self.projects_maps:
            return self.image_projection(features, regions=regions)
        pooled = self.image_projection(features.mean((2, 3)))
        if not regions:
            return ImageEmbeddings(pooled, None)
        projected = self.image_projection(features.flatten(2).mT).mT
        return ImageEmbeddings(pooled, projected.unflatten(2, features.shape[2:]))

    def similarity(self, texts: Tensor, images: ImageEmbeddings, *, texts_at_once: int | None = None) -> Tensor:
        """Compute s(text, image) in [−1, 1] for all pairs of texts and images.

        Args:
            texts: (T, D).
            images: embeddings of I images.
            texts_at_once: number of texts per block; limits memory with many texts and regions without changing the result.

        Returns:
            (T, I).
        """
        blocks = texts.split(texts_at_once or len(texts))
        return torch.cat([self.region_similarity(some, images) for some in blocks])


def _projection(name: str, dimensions: int, out: int) -> nn.Module:
    if name == "linear":
        return nn.Linear(dimensions, out)
    return ProjectionHead(dimensions, hidden=out, out=out, batch_norm=False)
