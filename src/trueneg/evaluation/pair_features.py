"""Images and texts under a finished image–text run, embedded once and shared by every evaluation."""

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

IMAGES_AT_ONCE, TEXTS_AT_ONCE = 256, 256  # memory and speed, not the result


class EmbeddedImages(NamedTuple):
    """Some images under a finished run; n of them.

    Attributes:
        indices: (n,) positions in the source.
        features: (n, C) of the encoder before its projection, averaged over regions.
        embeddings: in the space that they share with texts.
    """

    indices: np.ndarray
    features: Tensor
    embeddings: ImageEmbeddings

    def part(self, chosen: Sequence[int] | np.ndarray) -> ImageEmbeddings:
        """The embeddings of some."""
        places = torch.as_tensor(np.asarray(chosen), device=self.features.device)
        pooled, regions = self.embeddings
        return ImageEmbeddings(pooled[places], None if regions is None else regions[places])


@torch.no_grad()
def embed_images(
    networks: Networks, source: PairSource | Benchmark, indices: np.ndarray, device: torch.device, *, regions: bool
) -> EmbeddedImages:
    """The central crops of some images, through encoder and projection once.

    Args:
        networks: in evaluation mode.
        source: of the images.
        indices: which.
        device: where to compute.
        regions: whether region embeddings are wanted too.
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
    """(T, …) different texts under an encoder of their tokens; longer texts than the networks take are cut."""
    tokens = SentenceTokens(networks.tokenizer, texts, networks.maximum_tokens, truncate=True, device=device)
    blocks = torch.arange(len(texts)).split(TEXTS_AT_ONCE)
    return torch.cat([encoder(**tokens.batch(some, some.to(device))) for some in blocks])


def embed_texts(networks: Networks, texts: Sequence[str], device: torch.device) -> Tensor:
    """(T, D) embeddings of different texts, not normalised."""
    return encode_texts(networks, networks.model.embed_texts, texts, device)


@torch.no_grad()
def similarities(networks: Networks, texts: Sequence[str], images: EmbeddedImages, device: torch.device) -> np.ndarray:
    """(T, n) s(text, image) of different texts with some images, as the model's aggregation has it."""
    embedded = embed_texts(networks, texts, device)
    # Bounded both ways: regions × texts is what takes the memory.
    parts = [
        networks.model.similarity(embedded, images.part(some), texts_at_once=TEXTS_AT_ONCE)
        for some in np.array_split(np.arange(len(images.indices)), range(IMAGES_AT_ONCE, len(images.indices), IMAGES_AT_ONCE))
    ]
    return torch.cat(parts, dim=1).cpu().numpy()
