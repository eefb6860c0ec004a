"""Features from a frozen encoder, computed once and shared by all evaluations."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def extract_features(
    encoder: nn.Module, normalise: Callable[[Tensor], Tensor], images: Tensor, batch_size: int = 512
) -> Tensor:
    """Extract features from images, without augmentation, dropout or batch statistics.

    The encoder is switched to evaluation mode.

    Args:
        encoder: maps float32 images (B, C, H, W) to features (B, D).
        normalise: maps uint8 images (B, C, H, W) to the float32 images that the encoder was trained
            on.
        images: uint8, shape (n, C, H, W), on any device.
        batch_size: images per forward pass; affects memory and speed, not the result.

    Returns:
        float32, shape (n, D), on the encoder's device; not an inference tensor, so classifiers can
            be trained on it.

    Raises:
        ValueError: if a feature is not finite.

    Example:
        >>> images = torch.full((3, 1, 2, 2), 255, dtype=torch.uint8)
        >>> extract_features(nn.Flatten(), lambda batch: batch / 255, images).shape
        torch.Size([3, 4])
    """
    parameter = next(encoder.parameters(), images)
    encoder.eval()
    with torch.inference_mode():
        parts = [
            encoder(
                normalise(batch.to(parameter.device)).contiguous(memory_format=torch.channels_last)
            ).float()
            for batch in images.split(batch_size)
        ]
    features = torch.cat(parts)  # outside inference mode, so that autograd can save it
    if not features.isfinite().all():
        raise ValueError("some features are not finite; the encoder's training has diverged")
    return features
