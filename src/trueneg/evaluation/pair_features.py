"""Image and text embeddings from a finished image–text run, computed once and shared by all
evaluations.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.data.image_loading import read_ahead
from trueneg.data.pairs.chexpert_8x200 import Benchmark
from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.models.pairs import PairModel
from trueneg.models.towers.tower import Embedded, as_embedded
from trueneg.training.networks import PairNetworks
from trueneg.training.sides.text import TextSide

IMAGES_AT_ONCE, TEXTS_AT_ONCE = 256, 256  # affect memory and speed, not the result
Source = PairSource | Benchmark


class EmbeddedImages(NamedTuple):
    """Features and embeddings of n images from a finished run.

    Attributes:
        indices: (n,) positions in the source.
        features: (n, C) encoder features before the projection, averaged over regions.
        embeddings: embeddings in the space shared with texts.
    """

    indices: ndarray
    features: Tensor
    embeddings: Embedded

    def part(self, chosen: Sequence[int] | Tensor) -> Embedded:
        """Return the embeddings of the images at the chosen positions in `indices`."""
        places = torch.as_tensor(chosen, device=self.features.device)
        pooled, regions = self.embeddings
        return Embedded(pooled[places], None if regions is None else regions[places])


def images_of(networks: PairNetworks, source: Source) -> ndarray:
    """Return the images of a source, or stored vectors in their place."""
    vectors = networks.frozen.vectors
    return source.images if vectors is None else vectors


def central_crops(
    networks: PairNetworks, source: Source, indices: ndarray, device: torch.device
) -> Iterator[Tensor]:
    """Yield the selected images of a source in blocks, normalised and cropped to the part that
    evaluation uses.
    """
    blocks = np.array_split(indices, range(IMAGES_AT_ONCE, len(indices), IMAGES_AT_ONCE))
    with contextlib.closing(read_ahead(images_of(networks, source), blocks, device)) as batches:
        for pixels in batches:
            yield networks.columns.augmentation.normalise(pixels)


@torch.no_grad()
def embed_images(
    networks: PairNetworks, source: Source, indices: ndarray, device: torch.device, regions: bool
) -> EmbeddedImages:
    """Embed the selected images of a source in a single pass through encoder and projection.

    Args:
        networks: networks in evaluation mode.
        source: source of the images.
        indices: positions of the images in the source.
        device: device to compute on.
        regions: whether to return region embeddings too.
    """
    features = []
    embedded = []
    model = networks.model
    side = networks.columns
    for images in central_crops(networks, source, indices, device):
        encoded = side.encoder(images)
        features.append(as_embedded(encoded).pooled.float())
        embedded.append(model.project(side.prefix, encoded, regions=regions))
    pooled = torch.cat([batch.pooled for batch in embedded])
    grids = [batch.regions for batch in embedded if batch.regions is not None]
    return EmbeddedImages(
        indices, torch.cat(features), Embedded(pooled, torch.cat(grids) if grids else None)
    )


@torch.no_grad()
def embed_texts(
    model: PairModel, side: TextSide, texts: Sequence[str], device: torch.device
) -> Tensor:
    """Return unnormalised embeddings (T, D) of distinct texts by one side; those that are too long
    are truncated.

    Raises:
        UserError: if an embedding is not finite.
    """
    inputs = side.inputs(texts, True, device)
    blocks = torch.arange(len(texts)).split(TEXTS_AT_ONCE)
    parts = [model.embed(side.prefix, **inputs(block)).pooled.float() for block in blocks]
    embedded = torch.cat(parts)
    if count := int((~embedded.isfinite().all(1)).sum()):
        raise UserError(
            f"The embeddings of {count:,} of {len(texts):,} texts contain NaN or inf; expected"
            " numbers. The training has diverged (try a lower learning rate), or the encoder"
            " cannot embed them."
        )
    return embedded


@torch.no_grad()
def similarities(
    networks: PairNetworks, texts: Sequence[str], images: EmbeddedImages, device: torch.device
) -> ndarray:
    """Return s(text, image), shape (T, n), for distinct texts and the images, using the model's
    aggregation.
    """
    embedded = embed_texts(networks.model, networks.anchors, texts, device)
    # Split both images and texts, because the array of regions × texts dominates memory use.
    blocks = torch.arange(len(images.indices)).split(IMAGES_AT_ONCE)
    parts = [
        networks.model.similarity(embedded, images.part(block), anchors_at_once=TEXTS_AT_ONCE)
        for block in blocks
    ]
    return torch.cat(parts, dim=1).cpu().numpy()
