"""Linear probe on augmented images: the linear evaluation of the public code of DCL, HCL and BCL
(``linear.py``).
"""

import copy
import itertools
import logging
from collections.abc import Iterator, Sequence

import torch

from trueneg.evaluation.augmented_training import LabelledImages, diverged, train_classifier
from trueneg.evaluation.features import extract_features
from trueneg.evaluation.images import EncodedRun, Measured, chance, of_groups
from trueneg.evaluation.images.linear_probe import labelled_images
from trueneg.evaluation.linear_heads import cross_entropy
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)


def measure(runs: Sequence[EncodedRun], settings: Section) -> Iterator[Measured]:
    """Yield accuracies by label pool and fraction of labels on whole images; a run's networks are
    not modified.
    """
    training = settings["augmented_linear_probe"]
    task = "augmented linear probe"
    yield from chance(runs, task)
    for run, pool, fraction in itertools.product(
        runs, training["label_pools"], sorted(training["label_fractions"])
    ):
        indices = labelled_images(run, pool, fraction)
        labelled = LabelledImages(run.images, indices, run.of(indices)[1], run.augmentation)
        encoder = (
            copy.deepcopy(run.encoder).requires_grad_(False).train(training["update_batch_norm"])
        )
        head = train_classifier(
            encoder,
            labelled,
            run.classes,
            cross_entropy,
            seed_for(run.subset.seed, task),
            training,
        )
        for split in run.splits:
            images = torch.from_numpy(run.images[getattr(run.subset, split)])
            logits = head(extract_features(encoder, run.augmentation.normalise, images))
            if not logits.isfinite().all():
                raise diverged(fraction, run.subset.seed, training)
            yield from of_groups(
                run, split, Measurement(task, "accuracy", pool, fraction), logits.argmax(1)
            )
        log.info(
            f"seed {run.subset.seed}: trained an augmented linear probe: {pool} labels, fraction"
            f" {fraction:g}",
        )
