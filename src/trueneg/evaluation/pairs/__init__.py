"""Evaluation tasks for image–text networks; every module in this package is discovered as a task.

A task has a function ``measure(runs, settings)`` that yields tuples of run, split,
:class:`Measurement` and value. ``runs`` are embedded runs; ``settings`` are the study's evaluation
settings. The module of the same name in :mod:`trueneg.specs.tasks.pairs` declares the task's
settings and how its metrics are displayed.
"""

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from numpy import ndarray
from pandas import DataFrame
from torch import Tensor

from trueneg.data.pairs.chexpert_8x200 import Benchmark, read_benchmark
from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.samples import Subset, refuse_leakage
from trueneg.evaluation.pair_features import EmbeddedImages, embed_images, embed_texts, similarities
from trueneg.evaluation.per_sample import PerSample
from trueneg.stats.measurement import Measurement
from trueneg.store.records import Record, read_rows
from trueneg.training.networks import PairNetworks, read_networks

log = logging.getLogger(__name__)


@dataclass(eq=False)
class EmbeddedPairs:
    """A finished run's networks and their evaluation data; images are embedded on first access.

    Attributes:
        boxes: ``report``, ``class``, ``finding`` and corners in pixels of the source's images, or
            None to skip grounding.
        benchmark: CheXpert 8×200, or None to skip it.
    """

    id: str
    networks: PairNetworks
    source: PairSource
    subset: Subset
    device: torch.device
    boxes: DataFrame | None = None
    benchmark: Benchmark | None = None
    _images: dict[str, EmbeddedImages] = field(default_factory=dict)

    def __post_init__(self) -> None:
        refuse_leakage(self.source, self.subset)
        self.networks.model.to(self.device).eval()
        self.networks.columns.augmentation.to(self.device)

    def images(self, split: str) -> EmbeddedImages:
        """Return the embedded images of ``"train"`` or a held-out split, with regions only for
        held-out splits that need them.
        """
        if split not in self._images:
            regions = split != "train" and (
                self.boxes is not None or self.networks.model.region_similarity.needs_regions
            )
            indices = getattr(self.subset, split)
            self._images[split] = embed_images(
                self.networks, self.source, indices, self.device, regions=regions
            )
        return self._images[split]

    def labels(self, split: str, names: Sequence[str] | None = None) -> ndarray:
        """Return all labels of a split's images, or those in `names`: (n, K) with values 1, 0 or
        NaN (unknown).
        """
        labels = self.source.labels[getattr(self.subset, split)]
        return (
            labels
            if names is None
            else labels[:, [self.source.label_names.index(name) for name in names]]
        )

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Return unnormalised embeddings (T, D) of distinct texts."""
        return embed_texts(self.networks.model, self.networks.anchors, texts, self.device)

    def similarities(self, texts: Sequence[str], split: str) -> ndarray:
        """Return similarities (T, n) between distinct texts and a split's images."""
        return similarities(self.networks, texts, self.images(split), self.device)


Measured = tuple[EmbeddedPairs, str, Measurement, float | PerSample]


def encoded(
    source: PairSource,
    runs: Iterable[Record],
    data: Mapping[str, Any],
    device: torch.device,
) -> Iterator[list[EmbeddedPairs]]:
    """Yield the runs of a manifest one at a time, as one-element lists, so that only one run's
    embeddings are in memory.

    See :func:`trueneg.evaluation.evaluate.encoded_runs` for `runs` and the files in `data`.
    """
    boxes = read_rows(data["boxes"]) if data.get("boxes") else DataFrame()
    benchmark = read_benchmark(data["benchmark"]) if data.get("benchmark") else None
    for run in runs:
        networks = read_networks(run["model"], run["settings"], run["frozen"])
        yield [
            EmbeddedPairs(
                run["id"],
                networks,
                source,
                run["subset"],
                device,
                None if boxes.empty else boxes,
                benchmark,
            )
        ]


def measurable(labels: ndarray, names: Sequence[str]) -> list[str]:
    """Return the labels with at least one positive and one negative image; log the others."""
    both = ((labels == 1).any(0) & (labels == 0).any(0)).tolist()
    if not all(both):
        lacking = ", ".join(
            name for name, has_both in zip(names, both, strict=True) if not has_both
        )
        log.warning(
            f"skipped labels with no positive or no negative images among {len(labels)} images:"
            f" {lacking}",
        )
    return list(itertools.compress(names, both))


def of_classes(
    run: EmbeddedPairs, split: str, measured: Measurement, values: Mapping[Any, float]
) -> Iterator[Measured]:
    """Yield the value of each class with the class as its group, and the value of ``"mean"``
    without a group.
    """
    for name, value in values.items():
        yield run, split, measured if name == "mean" else measured._replace(group=name), value
