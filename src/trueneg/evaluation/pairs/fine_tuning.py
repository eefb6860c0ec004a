"""Fine-tuning with several labels per image, and the linear evaluation on augmented images, for shares of the labels."""

import contextlib
import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from trueneg.errors import UserError
from trueneg.evaluation.linear_heads import known_binary_cross_entropy
from trueneg.evaluation.pairs import SPLITS, EmbeddedRun, Measured, measurable, of_classes
from trueneg.evaluation.pairs.linear_probe import multilabel_subset
from trueneg.evaluation.roc import areas_by_class
from trueneg.randomness import seed_for
from trueneg.stats.measurement import Measurement
from trueneg.training.image_loading import read_ahead

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
        scores = fine_tuned_scores(run, trained, settings, frozen=frozen)
        for split in SPLITS:
            names = measurable(run.labels(split, trained), trained)
            chosen = [trained.index(name) for name in names]
            for fraction, by_split in scores.items():
                areas = areas_by_class(by_split[split][:, chosen], run.labels(split, names), names)
                yield from of_classes(run, split, Measurement(task, "AUC", fraction=fraction), areas)


def fine_tuned_scores(
    run: EmbeddedRun, names: Sequence[str], settings: Mapping[str, Any], *, frozen: bool
) -> dict[float, dict[str, np.ndarray]]:
    """Scores of held-out images by classifiers that were trained, from the finished encoder on, with a share of the labels.

    ReCo, section 4.3: the projection is removed and one linear layer added; the whole is learned (``frozen=False``, its
    learning rate 1e-4) or the layer alone with batch normalisation in inference mode (``frozen=True``, 0.01); the loss is
    the binary cross-entropy averaged over labels; images are augmented in both, here as in the run's training. Adam, no
    schedule, batch size, epochs and weight decay are ours: the paper does not state its own. The run's networks are not changed.

    All draws come from one CPU generator of the seed, the same for every fraction and every encoder: the layer's first
    weights; then, for each epoch, the order and the augmentation. An epoch's batches are of nearly equal size, so that batch
    normalisation never meets a remainder of one image. On a GPU the steps are in bfloat16, as in the run's training.

    Args:
        run: its training images' unknown labels train nothing.
        names: of K labels.
        settings: of :class:`trueneg.specs.tasks.pairs.ClassifierSettings`; :func:`multilabel_subset` draws the fractions.
        frozen: whether the encoder stays as it is: the linear evaluation.

    Returns:
        Fraction → split → float32 logits (images, K): what the area under the ROC curve ranks by.

    Raises:
        UserError: if the training diverges.
    """
    scores, device, seed, augmentation = {}, run.device, run.subset.seed, run.networks.augmentation
    labels = run.labels("train", names)
    for fraction in settings["fractions"]:
        kept = multilabel_subset(labels, fraction, seed)
        indices, targets = run.subset.train[kept], torch.from_numpy(labels[kept]).to(device)
        generator = torch.Generator().manual_seed(seed_for(seed, "fine-tuning"))
        encoder: Any = copy.deepcopy(run.networks.model.image_encoder).requires_grad_(not frozen).train(not frozen)
        head, bound = nn.utils.skip_init(nn.Linear, encoder.dimensions, len(names)), encoder.dimensions**-0.5
        for parameter in head.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
        head.to(device)
        learned = [parameter for parameter in (*encoder.parameters(), *head.parameters()) if parameter.requires_grad]
        optimizer = torch.optim.Adam(learned, lr=settings["learning_rate"], weight_decay=settings["weight_decay"])
        batches = math.ceil(len(indices) / settings["batch_size"])
        for _ in range(settings["epochs"]):
            steps = torch.randperm(len(indices), generator=generator).tensor_split(batches)
            draws = augmentation.draw(len(indices), run.source.size, generator).tensor_split(batches)
            ordered = (indices[rows.numpy()] for rows in steps)
            with contextlib.closing(read_ahead(run.source.images, ordered, device)) as loaded:
                for rows, parameters, (pixels, _) in zip(steps, draws, loaded, strict=True):
                    images = augmentation(pixels, parameters.to(device)).contiguous(memory_format=torch.channels_last)
                    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                        logits = head(encoder(images).mean((2, 3)))
                    optimizer.zero_grad(set_to_none=True)
                    known_binary_cross_entropy(logits.float().mT, targets[rows.to(device)]).backward()
                    optimizer.step()
        scores[fraction] = {split: _logits(encoder.eval(), head, run, split) for split in SPLITS}
        if not all(np.isfinite(one).all() for one in scores[fraction].values()):
            raise UserError(
                f"evaluation: fine-tuning with {fraction:g} of the labels diverged (seed {seed}). The likely cause is a step too "
                f"large: learning_rate is {settings['learning_rate']:g}; lower it."
            )
    return scores


@torch.no_grad()
def _logits(encoder: nn.Module, head: nn.Module, run: EmbeddedRun, split: str) -> np.ndarray:
    """Of the central crops."""
    indices, normalise = getattr(run.subset, split), run.networks.augmentation.normalise
    blocks = np.array_split(indices, range(IMAGES_AT_ONCE, len(indices), IMAGES_AT_ONCE))
    with contextlib.closing(read_ahead(run.source.images, blocks, run.device)) as loaded:
        return torch.cat([head(encoder(normalise(pixels)).mean((2, 3))) for pixels, _ in loaded]).cpu().numpy()
