"""Evaluation tasks for text encoders; every module in this package is discovered as a task.

A task has a function ``measure(runs, settings)`` that yields tuples of run, split,
:class:`Measurement` and value. ``runs`` are embedded runs; ``settings`` are the study's evaluation
settings. The module of the same name in :mod:`trueneg.specs.tasks.texts` declares the task's
settings and how its metrics are displayed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor
from torch.nn import functional

from trueneg.data.samples import Subset
from trueneg.data.texts.text_source import TextSource
from trueneg.data.texts.text_splits import UNSEEN
from trueneg.evaluation.pair_features import embed_texts
from trueneg.evaluation.per_sample import PerSample
from trueneg.stats.measurement import Measurement
from trueneg.store.records import Record
from trueneg.training.networks import PairNetworks, read_networks
from trueneg.training.sides.text import TextSide


@dataclass(eq=False)
class EmbeddedTexts:
    """A finished run's embeddings of the texts of its held-out samples and of those that they are
    compared with.

    Attributes:
        anchors: (n, D) unit vectors of the source's texts by the tower of the anchors; those that
            are not needed are zero.
        positives: the same by the tower of the positives; the same tensor if they share a tower.
    """

    id: str
    source: TextSource
    subset: Subset
    anchors: Tensor
    positives: Tensor

    def parts(self, split: str) -> Iterator[tuple[str, ndarray, ndarray]]:
        """Yield ``"seen"`` and, if there are any, ``"unseen"``, with labelled samples to compare
        with and the split's samples.
        """
        subset = self.subset
        yield "seen", subset.train, getattr(subset, split)
        if len(unseen := getattr(subset, f"{split}_unseen")):
            yield "unseen", getattr(subset, f"{split}_unseen_bank"), unseen

    def rows(self, samples: ndarray) -> Tensor:
        """Return the vectors (m, D) of the anchors of m samples."""
        return self.anchors[torch.from_numpy(self.source.anchors[samples]).to(self.anchors.device)]

    def labels(self, samples: ndarray) -> ndarray:
        """Return the labels (m,) of m samples."""
        return self.source.labels[samples]


Measured = tuple[EmbeddedTexts, str, Measurement, float | PerSample]


def encoded(
    source: TextSource,
    runs: Iterable[Record],
    data: Mapping[str, Any],
    device: torch.device,
) -> Iterator[list[EmbeddedTexts]]:
    """Yield the runs of a manifest one at a time, as one-element lists, so that only one run's
    embeddings are in memory.

    See :func:`trueneg.evaluation.evaluate.encoded_runs` for `runs` and the files in `data`.
    """
    for run in runs:
        subset = run["subset"]
        networks = read_networks(run["model"], run["settings"], run["frozen"])
        networks.model.to(device)
        anchors, positives = needed_rows(source, subset)
        if networks.anchors is networks.columns:
            rows = np.union1d(anchors, positives)
            embedded = vectors_of(networks, networks.anchors, source, rows, device)
            others = embedded
        else:
            embedded = vectors_of(networks, networks.anchors, source, anchors, device)
            others = vectors_of(networks, networks.columns, source, positives, device)
        yield [EmbeddedTexts(run["id"], source, subset, embedded, others)]


def shown(source: TextSource) -> tuple[ndarray, Sequence[str], Callable[[int], dict[str, Any]]]:
    """Return the rows of the vectors of each sample's anchor and positive, the names of the labels,
    and what shows a row.
    """
    texts, rows = np.unique(source.sentences["sentence"].to_numpy(object), return_inverse=True)
    return rows[source.matching[:, :2]], source.label_names, lambda row: {"text": texts[row]}


def needed_rows(source: TextSource, subset: Subset) -> tuple[ndarray, ndarray]:
    """Return the rows of the texts that are embedded as anchors, and as positives."""
    held_out = np.concatenate(
        [subset.validation, subset.test, subset.validation_unseen, subset.test_unseen]
    )
    of_labels = (
        [subset.train, *(getattr(subset, name) for name in UNSEEN)]
        if source.label_names
        else [held_out[:0]]
    )
    compared = np.concatenate(of_labels)
    first, second = source.rated[["first", "second"]].to_numpy(np.int64).T
    anchors = np.concatenate([source.anchors[held_out], source.anchors[compared], first])
    positives = [source.matching[held_out, 1:].ravel(), source.corpus, second]
    return np.unique(anchors), np.unique(np.concatenate(positives))


def vectors_of(
    networks: PairNetworks,
    side: TextSide,
    source: TextSource,
    rows: ndarray,
    device: torch.device,
) -> Tensor:
    """Return unit vectors (n, D) of a source's texts by one side, which are zero except in
    `rows`.
    """
    texts, numbers = np.unique(
        source.sentences["sentence"].to_numpy(object)[rows], return_inverse=True
    )
    vectors = embed_texts(networks.model, side, texts.tolist(), device)
    units = functional.normalize(vectors, dim=1)
    embedded = units.new_zeros(len(source.sentences), units.shape[1])
    embedded[torch.from_numpy(rows).to(device)] = units[torch.from_numpy(numbers).to(device)]
    return embedded
