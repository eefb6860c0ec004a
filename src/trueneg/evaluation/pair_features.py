"""Image and text embeddings from a finished image–text run, computed once and shared by all evaluations."""

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trueneg.data.pairs.chexpert_8x200 import Benchmark
from trueneg.data.pairs.pair_source import PairSource
from trueneg.models.region_similarity import ImageEmbeddings
from trueneg.training.image_loading import read_ahead
from trueneg.training.image_text_networks import Networks
from trueneg.training.sentence_tokens import SentenceTokens

IMAGES_AT_ONCE, TEXTS_AT_ONCE = 256, 256  # affect memory and speed, not the result


class EmbeddedImages(NamedTuple):
    """Features and embeddings of n images from a finished run.

    Attributes:
        indices: (n,) positions in the source.
        features: (n, C) encoder features before the projection, averaged over regions.
        embeddings: embeddings in the space shared with texts.
    """

    indices: np.ndarray
    features: Tensor
    embeddings: ImageEmbeddings

    def part(self, chosen: Sequence[int] | np.ndarray) -> ImageEmbeddings:
        """Return the embeddings of the chosen images."""
        places = torch.as_tensor(np.asarray(chosen), device=self.features.device)
        pooled, regions = self.embeddings
        return ImageEmbeddings(pooled[places], None if regions is None else regions[places])


@torch.no_grad()
def embed_images(
    networks: Networks, source: PairSource | Benchmark, indices: np.ndarray, device: torch.device, *, regions: bool
) -> EmbeddedImages:
    """Embed the central crops of the selected images in a single pass through encoder and projection.

    Args:
        networks: networks in evaluation mode.
        source: source of the images.
        indices: positions of the images in the source.
        device: device to compute on.
        regions: whether to return region embeddings too.
    """
    model, features, embedded = networks.model, [], []
    handle = model.image_encoder.register_forward_hook(lambda _, given, out: features.append(out.mean((2, 3)).float()))
    blocks = np.array_split(indices, range(IMAGES_AT_ONCE, len(indices), IMAGES_AT_ONCE))
    try:
        with contextlib.closing(read_ahead(source.images, blocks, device)) as batches:
            for images, _ in batches:
                embedded.append(model.embed_images(networks.augmentation.normalise(images), regions=regions))
    finally:
        handle.remove()
    pooled = torch.cat([one.pooled for one in embedded])
    grids = [one.regions for one in embedded if one.regions is not None]
    return EmbeddedImages(indices, torch.cat(features), ImageEmbeddings(pooled, torch.cat(grids) if grids else None))


@torch.no_grad()
def encode_texts(networks: Networks, encoder: Callable[..., Tensor], texts: Sequence[str], device: torch.device) -> Tensor:
    """Encode T distinct texts with an encoder of their tokens, (T, …); texts that are too long are truncated."""
    tokens = SentenceTokens(networks, texts, True, device)
    blocks = torch.arange(len(texts)).split(TEXTS_AT_ONCE)
    return torch.cat([encoder(**tokens.batch(some)) for some in blocks])


def embed_texts(networks: Networks, texts: Sequence[str], device: torch.device) -> Tensor:
    """Return unnormalised embeddings (T, D) of distinct texts."""
    return encode_texts(networks, networks.model.embed_texts, texts, device)


@torch.no_grad()
def similarities(networks: Networks, texts: Sequence[str], images: EmbeddedImages, device: torch.device) -> np.ndarray:
    """Return s(text, image), shape (T, n), of distinct texts with the images, using the model's aggregation."""
    embedded = embed_texts(networks, texts, device)
    # Split both images and texts: regions × texts dominates the memory.
    parts = [
        networks.model.similarity(embedded, images.part(some), texts_at_once=TEXTS_AT_ONCE)
        for some in np.array_split(np.arange(len(images.indices)), range(IMAGES_AT_ONCE, len(images.indices), IMAGES_AT_ONCE))
    ]
    return torch.cat(parts, dim=1).cpu().numpy()
