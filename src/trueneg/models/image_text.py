"""Image–text model: two encoders, projections to a shared space, a similarity and a learned logit
scale.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from trueneg.losses import LogitScale
from trueneg.models.projection import build_head
from trueneg.models.region_similarity import ImageEmbeddings, RegionSimilarity
from trueneg.models.towers.tower import Embedded, as_embedded

PROJECTIONS = ("linear", "mlp", "residual", "none")


class ImageTextModel(nn.Module):
    r"""Image and text encoders with projections to a shared space and a similarity.

    A linear projection commutes with the average over regions, so the pooled embedding is the mean
    of the regions' embeddings. A two-layer projection does not: it is applied to the pooled
    features (as in ConVIRT and ReCo) and to each region separately.

    Args:
        image_encoder: maps images to feature maps (B, C, h, w), or to
            :class:`~trueneg.models.towers.tower.Embedded`; its ``dimensions`` is C.
        text_encoder: maps ``input_ids`` and ``attention_mask`` to vectors (B, H); its
            ``dimensions`` is H.
        similarity: s(text, image).
        dimensions: D, size of the shared space; used for new projections only.
        projection: ``"linear"``: one linear layer per modality (Sample-Specific Debiasing, 2023: D
            = 128); ``"mlp"``: linear, ReLU, linear with D hidden units (ReCo: D = 512);
            ``"residual"``: :class:`~trueneg.models.projection.ResidualHead`; ``"none"``: image
            features are not projected, and one linear layer maps texts to the same size; or a pair
            of modules released with the encoders. The image module maps what the image encoder
            returns and the keyword ``regions`` to :class:`ImageEmbeddings`; the text module maps
            vectors.
        hidden: width of the hidden layer of ``mlp`` and ``residual``; None: D.
        dropout: dropout probability of the hidden layer.

    Attributes:
        logit_scale: module that returns γ², which is learned and starts at 14.

    Example:
        >>> from trueneg.losses import CrossModalLoss, Debiased
        >>> from trueneg.models.spatial_encoders import SmallSpatialResNet
        >>> from trueneg.models.text_encoders import BertTextEncoder, small_bert
        >>> texts = BertTextEncoder(small_bert(vocabulary_size=20, hidden=8, heads=2))
        >>> similarity = RegionSimilarity("lse+nl", lse_sharpness=5.0, attention_scale=5.0)
        >>> model = ImageTextModel(SmallSpatialResNet(width=4), texts, similarity, dimensions=16)
        >>> tokens = {
        ...     "input_ids": torch.randint(20, (3, 5)),
        ...     "attention_mask": torch.ones(3, 5, dtype=torch.int64),
        ... }
        >>> scores = model(torch.rand(3, 1, 64, 64), **tokens)
        >>> scores.shape
        torch.Size([3, 3])
        >>> CrossModalLoss(Debiased(0.05), directions="text")(
        ...     scores, model.logit_scale()
        ... ).isfinite().item()
        True
    """

    def __init__(
        self,
        image_encoder: Any,
        text_encoder: Any,
        similarity: RegionSimilarity,
        *,
        dimensions: int = 128,
        projection: Literal["linear", "mlp", "residual", "none"]
        | tuple[nn.Module, nn.Module] = "linear",
        hidden: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.image_encoder = image_encoder
        self.text_encoder = text_encoder
        self.projects_maps = not isinstance(projection, str)
        if projection == "none":
            projection = nn.Identity(), nn.Linear(text_encoder.dimensions, image_encoder.dimensions)
        elif isinstance(projection, str):
            head: Any = {
                "name": projection,
                "hidden": hidden,
                "dimensions": dimensions,
                "dropout": dropout,
            }
            projection = (
                build_head(image_encoder.dimensions, **head),
                build_head(text_encoder.dimensions, **head),
            )
        self.image_projection, self.text_projection = projection
        self.region_similarity = similarity
        self.logit_scale = LogitScale(14.0)

    def forward(self, images: Tensor, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the unscaled similarities (T, I) of a batch; pass them to ``CrossModalLoss`` with
        ``logit_scale()``.

        Args:
            images: (I, channels, H, W), normalised.
            input_ids: (T, L) tokens.
            attention_mask: (T, L), 0 at padding.
        """
        return self.similarity(
            self.embed_texts(input_ids, attention_mask), self.embed_images(images)
        )

    def embed_texts(self, *tokens: Any, **named: Any) -> Tensor:
        """Return unnormalised embeddings (T, D) of tokens (T, L), or of whatever the text encoder
        takes.
        """
        encoded = self.text_encoder(*tokens, **named)
        return self.text_projection(encoded.pooled if isinstance(encoded, Embedded) else encoded)

    def embed_images(self, images: Tensor, *, regions: bool = False) -> ImageEmbeddings:
        """Embed normalised images (I, channels, H, W); for `regions` see :meth:`project_images`."""
        return self.project_images(self.image_encoder(images), regions=regions)

    def project_images(self, features: Any, *, regions: bool = False) -> ImageEmbeddings:
        """Project the features of images to the shared space.

        Args:
            features: what the image encoder returns.
            regions: also project the regions (for heatmaps and boxes), even if the similarity does
                not need them.
        """
        regions = regions or self.region_similarity.needs_regions
        if self.projects_maps:
            return self.image_projection(features, regions=regions)
        features, maps = as_embedded(features)
        pooled = self.image_projection(features)
        if not regions or maps is None:
            return ImageEmbeddings(pooled, None)
        projected = self.image_projection(maps.flatten(2).mT).mT
        return ImageEmbeddings(pooled, projected.unflatten(2, maps.shape[2:]))

    def similarity(
        self, texts: Tensor, images: ImageEmbeddings, *, texts_at_once: int | None = None
    ) -> Tensor:
        """Compute s(text, image) in [−1, 1] for all pairs of texts and images.

        Args:
            texts: (T, D).
            images: embeddings of I images.
            texts_at_once: number of texts per block; limits memory with many texts and regions
                without changing the result.

        Returns:
            (T, I).
        """
        blocks = texts.split(texts_at_once or len(texts))
        return torch.cat([self.region_similarity(some, images) for some in blocks])


class SharedSpace(nn.Module):
    """The projection of an encoder whose vectors are already in the space that images and texts
    share: none.

    Args:
        dimensions: D, size of the shared space.
    """

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions

    def forward(self, features: Any, *, regions: bool = False) -> Any:
        """Return a text's vector as it is, and what an image encoder returns as
        :class:`ImageEmbeddings`.
        """
        if isinstance(features, Tensor):
            return features
        return ImageEmbeddings(features.pooled, features.regions if regions else None)
