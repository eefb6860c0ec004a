"""Training of a linear classifier on augmented images, together with its encoder or with the
encoder frozen.
"""

import contextlib
import math
from typing import Any, NamedTuple

import torch
from numpy import ndarray
from torch import Tensor, nn

from trueneg.data.image_loading import read_ahead
from trueneg.errors import UserError
from trueneg.evaluation.linear_heads import Loss
from trueneg.models.towers.tower import as_embedded
from trueneg.randomness import generator_of
from trueneg.runtime.precision import autocast
from trueneg.specs.sections import Section


class LabelledImages(NamedTuple):
    """The n labelled images among those of a source, and the augmentation of the encoder's
    training.

    Attributes:
        images: uint8 (N, C, H, W), all images of the source.
        indices: (n,).
        labels: (n, …), on the device.
        augmentation: a module with ``draw``, on the device.
    """

    images: ndarray
    indices: ndarray
    labels: Tensor
    augmentation: Any


def train_classifier(
    encoder: Any,
    labelled: LabelledImages,
    classes: int,
    loss: Loss,
    seed: int,
    settings: Section,
) -> nn.Linear:
    """Train a linear layer, and those parameters of the encoder that require gradients, with Adam
    on augmented images.

    All draws come from one seeded CPU generator and do not depend on the encoder: the layer's
    initial weights, as in nn.Linear, then the order and the augmentation for each epoch. The
    batches of an epoch have nearly equal size, so that batch normalisation never sees a last batch
    of one image. On a GPU, training uses bfloat16.

    Args:
        encoder: maps normalised images to vectors or feature maps, with D as its ``dimensions``; in
            the mode in which it is to be trained.
        labelled: the labelled images.
        classes: C, number of outputs.
        loss: see :func:`trueneg.evaluation.linear_heads.train_linear_heads`; called with one head.
        seed: seed of the generator.
        settings: ``epochs``, ``batch_size``, ``learning_rate`` and ``weight_decay``.
    """
    (images, indices, labels, augmentation) = labelled
    device = labelled.labels.device
    generator = generator_of(seed)
    head = nn.utils.skip_init(nn.Linear, encoder.dimensions, classes)
    bound = encoder.dimensions**-0.5
    for parameter in head.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    head.to(device)
    # Adam skips the parameters of a frozen encoder
    learned = [*encoder.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(
        learned, lr=settings["learning_rate"], weight_decay=settings["weight_decay"]
    )
    batches = math.ceil(len(indices) / settings["batch_size"])
    for _ in range(settings["epochs"]):
        steps = torch.randperm(len(indices), generator=generator).tensor_split(batches)
        draws = augmentation.draw(len(indices), images.shape[-2:], generator).tensor_split(batches)
        with contextlib.closing(
            read_ahead(images, (indices[rows.numpy()] for rows in steps), device)
        ) as loaded:
            for rows, parameters, pixels in zip(steps, draws, loaded, strict=True):
                views = augmentation(pixels, parameters.to(device)).contiguous(
                    memory_format=torch.channels_last
                )
                with autocast(device):
                    logits = head(as_embedded(encoder(views)).pooled)
                optimizer.zero_grad(set_to_none=True)
                loss(
                    logits.float().mT.unsqueeze(0), labels[rows.to(device)].unsqueeze(0)
                ).backward()
                optimizer.step()
    return head


def diverged(fraction: float, seed: int, settings: Section) -> UserError:
    """Return the error to raise if scores on a fraction of the labels are not finite."""
    return UserError(
        f"evaluation: training a classifier with a label fraction of {fraction:g} diverged (seed"
        f" {seed}); reduce learning_rate, which is {settings['learning_rate']:g}."
    )
