"""Fine-tuning with several labels an image, and the linear evaluation on augmented images, for shares of the labels."""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.pairs import SPLITS, EmbeddedRun, Measured, measurable, of_classes
from trueneg.evaluation.pairs.linear_probe import multilabel_subset
from trueneg.evaluation.roc import areas_by_class, known_labels
from trueneg.randomness import seed_for
from trueneg.stats.measurement import Measurement
from trueneg.training.image_loading import read_ahead
from trueneg.training.image_text_networks import Networks
from trueneg.training.radiograph_augmentation import RadiographAugmentation

IMAGES_AT_ONCE = 256  # memory and speed, not the result


def measure(runs: Sequence[EmbeddedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Areas under the ROC curve of classifiers whose encoders learn too."""
    return fine_tuned(runs, "fine-tuning", settings["fine_tuning"], frozen=False)


def fine_tuned(runs: Sequence[EmbeddedRun], task: str, settings: Mapping[str, Any], *, frozen: bool) -> Iterator[Measured]:
    """Areas of classifiers trained once for both splits; classes that the training or a split lacks are left out there."""
    for run in runs:
        trained = measurable(run.labels("train"), run.source.label_names)
        if not trained:
            continue
        columns, parts = run.columns(trained), [getattr(run.subset, split) for split in SPLITS]
        known = run.labels("train")[:, columns]
        options = {**settings, "frozen": frozen, "seed": run.subset.seed, "device": run.device}
        scores = fine_tuned_scores(run.networks, run.source, run.subset.train, known, parts, **options)
        for place, split in enumerate(SPLITS):
            labels = run.labels(split)[:, columns]
            names = measurable(labels, trained)
            chosen = [trained.index(name) for name in names]
            for fraction, by_part in scores.items():
                areas = areas_by_class(by_part[place][:, chosen], labels[:, chosen], names)
                if names:
                    areas["mean"] = float(np.mean(list(areas.values())))
                yield from of_classes(run, split, Measurement(task, "AUC", fraction=fraction), areas)


class ImageClassifier(nn.Module):
    """An image encoder's features, averaged over regions, through one linear layer.

    Args:
        encoder: maps images to (B, C, h, w); has ``dimensions`` C.
        labels: K.
        frozen: whether only the linear layer learns; the encoder then stays in evaluation mode.
        generator: of the layer's first weights, uniform in ±1/√C.
    """

    def __init__(self, encoder: nn.Module, labels: int, *, frozen: bool, generator: torch.Generator) -> None:
        super().__init__()
        self.encoder = encoder.requires_grad_(not frozen)
        self.frozen = frozen
        self.head = nn.utils.skip_init(nn.Linear, encoder.dimensions, labels)
        bound = encoder.dimensions**-0.5
        for parameter in self.head.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        """(B, K) logits of normalised images."""
        return self.head(self.encoder(images).mean((2, 3)))

    def train(self, mode: bool = True) -> "ImageClassifier":
        """As ``nn.Module``; a frozen encoder's batch normalisation goes on using its running statistics."""
        super().train(mode)
        if self.frozen:
            self.encoder.eval()
        return self


def fine_tuned_scores(
    networks: Networks,
    source: PairSource,
    indices: np.ndarray,
    labels: np.ndarray,
    parts: Sequence[np.ndarray],
    *,
    fractions: Sequence[float] = (0.01, 0.1, 1.0),
    epochs: int,
    batch_size: int = 64,
    learning_rate: float,
    weight_decay: float = 1e-6,
    frozen: bool = False,
    seed: int,
    device: torch.device,
) -> dict[float, list[np.ndarray]]:
    """Scores of images by classifiers that were trained, from the finished encoder on, with a share of the labels.

    ReCo, section 4.3: the projection is removed and one linear layer added; the whole is learned (``frozen=False``, its
    learning rate 1e-4) or the layer alone with batch normalisation in inference mode (``frozen=True``, 0.01); the loss is
    the binary cross-entropy averaged over labels; images are augmented in both, here as in the run's training. Adam, no
    schedule, batch size, epochs and weight decay are ours: the paper does not tell its own. The networks stay as they are.

    All draws come from one CPU generator of the seed, the same for every fraction and every encoder: the layer's first
    weights; then, for each epoch, the order and the augmentation. An epoch's batches are of nearly equal size, so that batch
    normalisation never meets a remainder of one image.

    Args:
        networks: of the finished run, on ``device``.
        source: images.
        indices: (n,) the training images.
        labels: (n, K) of 1, 0, −1 (uncertain) and NaN (missing); the last two train nothing.
        parts: sets of images to be scored.
        fractions: shares of the training images, each in (0, 1], as :func:`multilabel_subset` draws them.
        epochs: passes over the images that a fraction keeps.
        batch_size: largest number of images a step.
        learning_rate: of Adam.
        weight_decay: of Adam, an L2 term of the gradient.
        frozen: whether the encoder stays as it is: the linear evaluation.
        seed: the study's.
        device: where to compute; on a GPU the steps are in bfloat16, as in the run's training.

    Returns:
        Fraction → for each part, float32 logits (images, K): what the area under the ROC curve ranks by.

    Raises:
        UserError: if the training diverges.
    """
    targets = known_labels(labels)
    scores = {}
    for fraction in fractions:
        kept = multilabel_subset(targets, fraction, seed)
        generator = torch.Generator().manual_seed(seed_for(seed, "fine-tuning"))
        encoder = copy.deepcopy(networks.model.image_encoder)
        classifier = ImageClassifier(encoder, targets.shape[1], frozen=frozen, generator=generator).to(device)
        own_targets = torch.from_numpy(targets[kept]).float().to(device)
        adam = {"lr": learning_rate, "weight_decay": weight_decay}
        _train(classifier, networks.augmentation, source, indices[kept], own_targets, epochs, batch_size, adam, generator)
        scores[fraction] = [_logits(classifier, networks.augmentation, source, part, device) for part in parts]
        if not all(np.isfinite(one).all() for one in scores[fraction]):
            raise UserError(
                f"evaluation: fine-tuning with {fraction:g} of the labels diverged (seed {seed}). The likely cause is a step too "
                f"large: learning_rate is {learning_rate:g}; lower it."
            )
    return scores


def known_binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean binary cross-entropy over the known labels of a batch.

    Args:
        logits: (B, K).
        labels: (B, K) of 1, 0, and NaN for an unknown label, which counts nowhere.

    Returns:
        Scalar; 0 if no label is known.

    Example:
        >>> known_binary_cross_entropy(torch.tensor([[0.0, 9.0]]), torch.tensor([[1.0, torch.nan]]))        # −log ½
        tensor(0.6931)
    """
    known = (~labels.isnan()).to(logits.dtype)
    losses = functional.binary_cross_entropy_with_logits(logits, labels.nan_to_num(0), known, reduction="sum")
    return losses / known.sum().clamp(min=1)


def _train(
    classifier: ImageClassifier,
    augmentation: RadiographAugmentation,
    source: PairSource,
    indices: np.ndarray,
    targets: Tensor,
    epochs: int,
    batch_size: int,
    adam: Mapping[str, float],
    generator: torch.Generator,
) -> None:
    classifier.train()
    optimizer = torch.optim.Adam([one for one in classifier.parameters() if one.requires_grad], **adam)
    device, batches = targets.device, math.ceil(len(indices) / batch_size)
    for _ in range(epochs):
        steps = torch.randperm(len(indices), generator=generator).tensor_split(batches)
        draws = augmentation.draw(len(indices), source.size, generator).tensor_split(batches)
        with contextlib.closing(read_ahead(source.images, (indices[rows.numpy()] for rows in steps), device)) as loaded:
            for rows, parameters, (pixels, _) in zip(steps, draws, loaded, strict=True):
                images = augmentation(pixels, parameters.to(device)).contiguous(memory_format=torch.channels_last)
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    logits = classifier(images)
                optimizer.zero_grad(set_to_none=True)
                known_binary_cross_entropy(logits.float(), targets[rows.to(device)]).backward()
                optimizer.step()


@torch.no_grad()
def _logits(
    classifier: ImageClassifier,
    augmentation: RadiographAugmentation,
    source: PairSource,
    indices: np.ndarray,
    device: torch.device,
) -> np.ndarray:
    """Of the central crops."""
    classifier.eval()
    blocks = np.array_split(indices, range(IMAGES_AT_ONCE, len(indices), IMAGES_AT_ONCE))
    with contextlib.closing(read_ahead(source.images, blocks, device)) as loaded:
        return torch.cat([classifier(augmentation.normalise(pixels)) for pixels, _ in loaded]).cpu().numpy()
