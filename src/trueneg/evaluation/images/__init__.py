"""Evaluation tasks for image encoders; every module in this package is discovered as a task.

A task has a function ``measure(runs, settings)`` that yields tuples of run, split,
:class:`Measurement` and value. ``runs`` are the encoded runs of a block of seeds; ``settings`` are
the study's evaluation settings. The module of the same name in :mod:`trueneg.specs.tasks.images`
declares the task's settings and how its metrics are displayed.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy import ndarray
from safetensors.torch import load_file
from torch import Tensor, nn

from trueneg.data.images.image_source import ImageSource
from trueneg.data.samples import Subset
from trueneg.evaluation.accuracy import accuracies
from trueneg.evaluation.features import extract_features
from trueneg.evaluation.per_sample import PerSample, of_balanced
from trueneg.evaluation.thumbnails import thumbnail
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement
from trueneg.store.records import Record
from trueneg.training.simclr import augmentation_of, evaluated_encoder

log = logging.getLogger(__name__)


class EncodedRun(NamedTuple):
    """A run's encoder, its training augmentation, and its features of all images needed by the
    evaluation.
    """

    id: str
    subset: Subset
    source: ImageSource
    # (n, D), one row per image of the source; rows of images outside all splits are zero
    features: Tensor
    labels: Tensor  # (n,)
    encoder: nn.Module
    augmentation: Any
    vectors: ndarray | None = None  # of all images, if the encoder is frozen

    @property
    def images(self) -> ndarray:
        """What the encoder takes: the source's images, or stored vectors in their place."""
        return self.source.images if self.vectors is None else self.vectors

    @property
    def splits(self) -> tuple[str, ...]:
        """The held-out splits, without that of validation if it has no images."""
        return tuple(split for split in SPLITS if len(getattr(self.subset, split)))

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.source.class_names)

    def of(self, indices: ndarray) -> tuple[Tensor, Tensor]:
        """Return features and labels of the images at `indices`."""
        chosen = torch.tensor(indices, device=self.features.device)
        return self.features[chosen], self.labels[chosen]

    def of_split(self, split: str) -> Tensor:
        """Return the features of a split's images."""
        return self.of(getattr(self.subset, split))[0]

    def pool(self, name: str) -> ndarray:
        """Return indices of the labelled training images: ``"imbalanced"`` (those of the run's
        subset) or ``"all"``.
        """
        return (
            np.intersect1d(self.subset.train, self.subset.pool)
            if name == "imbalanced"
            else self.subset.pool
        )


Measured = tuple[EncodedRun, str, Measurement, float | PerSample]


def encoded(
    source: ImageSource,
    runs: Iterable[Record],
    data: Mapping[str, Any],
    device: torch.device,
) -> Iterator[list[EncodedRun]]:
    """Yield all runs of a manifest in one list, because some tasks train the classifiers of all
    seeds together.

    See :func:`trueneg.evaluation.evaluate.encoded_runs` for `runs` and the files in `data`.
    """
    labels = torch.from_numpy(source.labels).to(device)
    encoded_runs = []
    for run in runs:
        subset = run["subset"]
        frozen = run["frozen"]
        encoder = evaluated_encoder(
            run["settings"], source.images.shape[1], frozen, load_file(run["model"])
        )
        encoder.to(memory_format=torch.channels_last).to(device)
        augmentation = augmentation_of(run["settings"], source, frozen).to(device)
        images = source.images if frozen.vectors is None else frozen.vectors
        needed = np.concatenate([subset.pool, subset.validation, subset.test])
        extracted = extract_features(
            encoder, augmentation.normalise, torch.from_numpy(images[needed])
        )
        features = extracted.new_zeros(len(images), extracted.shape[1])
        features[torch.from_numpy(needed).to(device)] = extracted
        log.info(f"seed {run['seed']}: extracted features of {len(needed)} images")
        encoded_runs.append(
            EncodedRun(
                run["id"], subset, source, features, labels, encoder, augmentation, frozen.vectors
            )
        )
    yield encoded_runs


def shown(source: ImageSource) -> tuple[ndarray, Sequence[str], Callable[[int], dict[str, Any]]]:
    """Return the row of each sample's vector, the names of the labels, and what shows a row."""

    def content(row: int) -> dict[str, Any]:
        name = source.names[row] if len(source.names) else ""
        return {"thumbnail": thumbnail(np.asarray(source.images[row])), "text": name}

    return np.arange(len(source.labels))[:, None], source.class_names, content


def chance(runs: Sequence[EncodedRun], task: str) -> Iterator[Measured]:
    """Yield the accuracy of random guessing among all classes;
    :mod:`~trueneg.evaluation.images.largest_class` has the other.
    """
    for run in runs:
        for split in run.splits:
            yield run, split, Measurement(task, "chance"), 1 / run.classes


def of_groups(
    run: EncodedRun, split: str, measured: Measurement, predictions: Tensor
) -> Iterator[Measured]:
    """Yield accuracies overall, for rare and common classes, balanced, and per class."""
    images = getattr(run.subset, split)
    labels = run.source.labels[images]
    predicted = predictions.cpu().numpy()
    correct = predicted == labels
    names = np.array(run.source.class_names, object)
    classes = {"label": names[labels], "predicted": names[predicted]}
    by_sample = {None: correct, "macro": of_balanced(correct, labels)}
    by_group = accuracies(predicted, labels, run.source.class_names, run.subset.rare_classes)
    for group, value in by_group.items():
        values = by_sample.get(group)
        whole = value if values is None else PerSample(value, images, values, classes)
        yield run, split, measured._replace(group=group), whole
