"""Multi-label fine-tuning, and linear evaluation on augmented images, both on fractions of the
labels.
"""

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import nn

from trueneg.evaluation.augmented_training import LabelledImages, diverged, train_classifier
from trueneg.evaluation.linear_heads import known_binary_cross_entropy
from trueneg.evaluation.pair_features import central_crops, images_of
from trueneg.evaluation.pairs import EmbeddedPairs, Measured, measurable, of_classes
from trueneg.evaluation.pairs.linear_probe import multilabel_subset
from trueneg.evaluation.roc import areas_by_class
from trueneg.models.towers.tower import as_embedded
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield areas under the ROC curve of classifiers trained together with their encoders."""
    return fine_tuned(runs, "fine-tuning", settings["fine_tuning"], frozen=False)


def fine_tuned(
    runs: Sequence[EmbeddedPairs], task: str, settings: Section, *, frozen: bool
) -> Iterator[Measured]:
    """Yield the AUC of classifiers trained once for both splits; labels without positives or
    negatives in a split are skipped.
    """
    for run in runs:
        trained = measurable(run.labels("train"), run.source.label_names)
        if not trained:
            continue
        scores = fine_tuned_scores(run, trained, settings, frozen=frozen)
        for split in SPLITS:
            names = measurable(run.labels(split, trained), trained)
            chosen = [trained.index(name) for name in names]
            for fraction, by_split in scores.items():
                yield from of_classes(
                    run,
                    split,
                    Measurement(task, "AUC", fraction=fraction),
                    areas_by_class(by_split[split][:, chosen], run.labels(split, names), names),
                )


def fine_tuned_scores(
    run: EmbeddedPairs, names: Sequence[str], settings: Section, *, frozen: bool
) -> dict[float, dict[str, ndarray]]:
    """Score held-out images with classifiers trained on fractions of the labels, starting from the
    finished encoder.

    This follows ReCo, section 4.3: the projection is replaced by one linear layer. Either the whole
    network is trained (``frozen=False``; ReCo's learning rate is 1e-4) or only the layer, with
    batch normalisation in inference mode (``frozen=True``; 0.01). The loss is the binary
    cross-entropy averaged over labels. Images are augmented in both cases, with the run's
    augmentation. Adam without a schedule, the batch size, epochs and weight decay are our choices,
    because the paper does not state its own. The run's networks are not modified.

    All draws come from one seeded CPU generator and are the same for every fraction and encoder
    (:func:`trueneg.evaluation.augmented_training.train_classifier`).

    Args:
        run: the finished run; unknown labels of its training images are ignored.
        names: names of K labels.
        settings: values of :class:`trueneg.specs.tasks.pairs.ClassifierSettings`;
            :func:`multilabel_subset` draws the fractions.
        frozen: freeze the encoder, for linear evaluation.

    Returns:
        Fraction → split → float32 logits (images, K), the scores for the area under the ROC curve.

    Raises:
        UserError: if the training diverges.
    """
    scores = {}
    seed = run.subset.seed
    labels = run.labels("train", names)
    for fraction in settings["fractions"]:
        kept = multilabel_subset(labels, fraction, seed)
        labelled = LabelledImages(
            images_of(run.networks, run.source),
            run.subset.train[kept],
            torch.from_numpy(labels[kept]).to(run.device),
            run.networks.columns.augmentation,
        )
        encoder: Any = (
            copy.deepcopy(run.networks.columns.encoder).requires_grad_(not frozen).train(not frozen)
        )
        drawn = seed_for(seed, "fine-tuning")
        head = train_classifier(
            encoder, labelled, len(names), known_binary_cross_entropy, drawn, settings
        )
        scores[fraction] = {split: _logits(encoder.eval(), head, run, split) for split in SPLITS}
        if not all(np.isfinite(logits).all() for logits in scores[fraction].values()):
            raise diverged(fraction, seed, settings)
    return scores


@torch.no_grad()
def _logits(encoder: nn.Module, head: nn.Module, run: EmbeddedPairs, split: str) -> ndarray:
    """Return the logits of the central crops of a split's images."""
    crops = central_crops(run.networks, run.source, getattr(run.subset, split), run.device)
    return torch.cat([head(as_embedded(encoder(images)).pooled) for images in crops]).cpu().numpy()
