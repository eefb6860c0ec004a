"""Draw the training, validation and test subsets of each seed."""

import dataclasses
import logging
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.data.leakage import trained_ratings
from trueneg.data.near_duplicates import near_duplicates
from trueneg.data.samples import write_subsets
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import GROUPS

log = logging.getLogger(__name__)


def read_samples(kind: type[TrainedStudy], source: str | Path) -> Any:
    """Read what was read from the source of a kind of study before."""
    return pkgutil.resolve_name(kind.READER)(source)


def refuse_group(samples: Any, group: str | None) -> None:
    """Raise a :class:`UserError` if the samples have classes, but no such group of classes."""
    classes = getattr(samples, "class_names", None)
    if classes is not None and group not in (None, *GROUPS, *classes):
        raise UserError(
            f"primary.group is {group!r}; expected {', '.join(GROUPS)} or a class of"
            f" {samples.name}: {', '.join(classes)}."
        )


def draw_subsets(
    kind: type[TrainedStudy],
    source: str | Path,
    settings: Section,
    seeds: Sequence[int],
    subsets: str | Path,
    splits: str | Path | None = None,
    group: str | None = None,
) -> None:
    """Draw the subsets of each seed, or use the official splits if the source has any.

    Args:
        kind: kind of the study, which names the functions to use.
        source: what was read from the source (.npz, with any parquet file in the same folder).
        settings: resolved settings of the data set.
        seeds: seeds to draw subsets for.
        subsets: parquet file to write.
        splits: official splits (parquet file, empty if there are none); None: the source holds
            them.
        group: ``primary.group`` of the study, checked here because some sources know the names of
            their classes before any training.

    Raises:
        UserError: if the settings do not fit the source, or a file is missing or damaged.
    """
    samples = read_samples(kind, source)
    refuse_group(samples, group)
    classes = getattr(samples, "class_names", None)
    official = None if splits is None else privacy.read_table(splits)[0]
    draw = pkgutil.resolve_name(kind.SPLITTER)
    drawn = [draw(samples, settings, seed, official) for seed in seeds]
    near = near_duplicates(samples.samples, samples.looks(), drawn[0])
    said = filter(None, (near, trained_ratings(samples.samples, drawn[0])))
    drawn[0] = dataclasses.replace(drawn[0], near=" ".join(said))
    for subset in drawn:
        log.info(f"seed {subset.seed}: {subset.sizes}. {subset.left_out}")
        for remark in filter(None, (subset.leakage, subset.near)):
            log.warning(f"{samples.name}: {remark}")
        if classes is not None:
            labels = samples.labels[subset.train]
            counts = np.bincount(labels + 1, minlength=len(classes) + 1).tolist()
            log.info(f"training images per class: {counts[1:]}; {counts[0]} unlabelled")
    if classes is not None and settings["test"] != 0 and samples.is_validation.any():
        log.info(
            f"validation: the {samples.is_validation.sum()} images of the source's own split;"
            " dataset.validation is not used",
        )
    write_subsets(drawn, subsets)
