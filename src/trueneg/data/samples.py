"""Samples of any source, the subsets that are drawn of them, and the check that none of them leaks
into two splits.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.mistakes import REMOVE
from trueneg.errors import UserError
from trueneg.io.files import atomic_write
from trueneg.io.reading import RUN_STEP, reading

SPLITS = ("train", "validation", "test")
BANKS = ("bank", "validation_unseen_bank", "test_unseen_bank")  # have no label in common


@dataclass(frozen=True, eq=False)
class Samples:
    """What decides how a source's n samples are split; a sample's id is its position.

    Attributes:
        source: name of the source.
        checksum: checksum of the source.
        split: str, (n,): official split; empty: to be drawn.
        label: int64, (n,): class; −1: none, or several.
        groups: what two splits never share, by its name in the plural: names or numbers of equal
            contents and of groups, (n,), or (n, k) if a sample has several.
        restricted: whether the names of samples and groups are confidential.
        names: str, (n,): what messages call the samples; empty: unknown.
        rated: int64, (m, 2): texts of rated pairs, which are no samples, with the numbers of the
            samples' texts in `groups`.
    """

    source: str
    checksum: str
    split: ndarray
    label: ndarray
    groups: Mapping[str, ndarray]
    restricted: bool = False
    names: ndarray = field(default_factory=lambda: np.empty(0, str))
    rated: ndarray = field(default_factory=lambda: np.empty((0, 2), np.int64))


class Source(Protocol):
    """A source of images, pairs or texts."""

    @property
    def samples(self) -> Samples:
        """Its samples."""


def _nothing() -> ndarray:
    return np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Subset:
    """The parts of one seed: sorted int64 positions in the source's samples, empty for a kind of
    study without them.

    Attributes:
        seed: the study's seed.
        source_checksum: checksum of the source that the positions refer to.
        train: samples to train on.
        validation: samples held out for selection.
        test: samples used only once, for the final evaluation.
        pool: labelled training images before imbalance is applied.
        bank: training texts before every second label is cut to ``labels.fraction``.
        validation_unseen_bank, validation_unseen: training and held-out texts of labels without
            training, for selection.
        test_unseen_bank, test_unseen: training and held-out texts of other labels without training,
            for results.
        rare_classes: labels of the subsampled classes of images.
        eta_low, eta_high: class probabilities of a rare and of a common class of images
            (:func:`~trueneg.data.imbalance.class_probabilities`).
        labels: sorted numbers of the labels of texts that are trained on; empty without labels.
        left_out: a sentence about samples left out; empty if none.
        leakage: a sentence about what the official splits share, the same for all seeds; empty if
            nothing.
        allowed: whether the splits may share it.
        near: sentences about near duplicates in two splits, and about rated pairs that are trained
            on, known for the first seed of a block; empty if there are none.
    """

    seed: int
    source_checksum: str
    train: ndarray
    test: ndarray = field(default_factory=_nothing)
    validation: ndarray = field(default_factory=_nothing)
    pool: ndarray = field(default_factory=_nothing)
    bank: ndarray = field(default_factory=_nothing)
    validation_unseen_bank: ndarray = field(default_factory=_nothing)
    validation_unseen: ndarray = field(default_factory=_nothing)
    test_unseen_bank: ndarray = field(default_factory=_nothing)
    test_unseen: ndarray = field(default_factory=_nothing)
    rare_classes: list[int] = field(default_factory=list)
    eta_low: float | None = None
    eta_high: float | None = None
    labels: list[int] = field(default_factory=list)
    left_out: str = ""
    leakage: str = ""
    allowed: bool = False
    near: str = ""

    @property
    def sizes(self) -> str:
        """The sizes of its parts, for messages."""
        whole = len(self.pool) + len(self.bank)  # before classes or labels are made rare
        of = f" of {whole:,}" if whole > len(self.train) else ""
        sizes = (
            f"training {len(self.train):,}{of}, validation {len(self.validation):,}, test"
            f" {len(self.test):,}"
        )
        if not (len(self.validation_unseen) or len(self.test_unseen)):
            return sizes
        neighbours = len(self.validation_unseen_bank) + len(self.test_unseen_bank)
        return (
            f"{sizes}; of labels that are never trained on: {len(self.validation_unseen):,} for"
            f" selection, {len(self.test_unseen):,} for results, {neighbours:,} others as their"
            " neighbours"
        )


def refuse_leakage(source: Source, subset: Subset) -> None:
    """Check that a subset belongs to its source, and that no two splits share what they must not,
    unless the study allows it.

    Raises:
        UserError: if a check fails; the message describes the violation.
    """
    samples = source.samples
    of_seed = f"the subset of seed {subset.seed}"
    remedy = "draw it again: snakemake --forcerun subsets"
    if subset.source_checksum != samples.checksum:
        raise UserError(
            f"{of_seed} was drawn from a different version of source {samples.source}; {remedy}."
        )
    groups = {} if subset.allowed else samples.groups
    separate = [(what, owners, SPLITS) for what, owners in groups.items()]
    for what, values, parts in [*separate, ("labels", samples.label, BANKS)]:
        for first, second in itertools.combinations(parts, 2):
            shared = np.intersect1d(values[getattr(subset, first)], values[getattr(subset, second)])
            if len(shared):
                is_named = shared.dtype.kind == "U" and not samples.restricted
                example = f", such as {shared[0]}," if is_named else ""
                raise UserError(
                    f"{of_seed} has {len(shared):,} {what}{example} in both {first} and {second};"
                    f" expected none; {remedy}."
                )


def write_subsets(subsets: Sequence[Subset], path: str | Path) -> None:
    """Write the subsets of several seeds atomically as one table with one row per position.

    Args:
        subsets: subsets. Positions become rows; everything else is stored as JSON in the schema's
            metadata.
        path: parquet file to write, with columns ``seed``, ``split``, ``index``.
    """
    rows = []
    descriptions = []
    for subset in subsets:
        description = {}
        for name, value in vars(subset).items():
            if isinstance(value, ndarray):
                rows.append(DataFrame({"seed": subset.seed, "split": name, "index": value}))
            else:
                description[name] = value
        descriptions.append(description)
    table = pa.Table.from_pandas(pd.concat(rows), preserve_index=False)
    table = table.replace_schema_metadata({"subsets": json.dumps(descriptions)})
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_subsets(path: str | Path) -> dict[int, Subset]:
    """Read the subsets written by :func:`write_subsets`, keyed by seed.

    Raises:
        UserError: if the file is missing, is damaged, or does not contain subsets.
    """
    subsets = {}
    with reading(path, "a table of subsets", REMOVE, missing=RUN_STEP):
        table = pq.read_table(path, page_checksum_verification=True)
        (descriptions,) = (table.schema.metadata or {}).values()
        positions = table.to_pandas()
        for description in json.loads(descriptions):
            seed = description["seed"]
            of_seed = positions[positions["seed"] == seed].groupby("split")["index"]
            parts = {split: index.to_numpy() for split, index in of_seed}
            subsets[seed] = Subset(**description, **parts)
    return subsets
