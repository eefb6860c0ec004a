"""Draw the training, validation and test subsets of each seed."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.data.images.image_source import read_source
from trueneg.data.images.subsets import image_subset
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.pair_splits import pair_subset
from trueneg.data.samples import write_subsets
from trueneg.data.texts.text_source import read_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.tasks.base import GROUPS

log = logging.getLogger(__name__)


def draw_subsets(
    source: str | Path,
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    subsets: str | Path,
    splits: str | Path | None = None,
    group: str | None = None,
) -> None:
    """Draw the subsets of each seed, or use the official splits if the source has any.

    Args:
        source: decoded images (.npz), or images and sentences (.npz with its parquet file in the
            same folder).
        settings: resolved settings of the dataset.
        seeds: seeds to draw subsets for.
        subsets: parquet file to write.
        splits: official splits of an image–text source (parquet file, empty if there are none);
            None for an image source.
        group: ``primary.group`` of the study, checked here because an image source's classes are
            known before any training.

    Raises:
        UserError: if the settings do not fit the source, or a file is missing or damaged.
    """
    if "positives" in settings:
        texts = read_texts(source)
        of_texts = [text_subset(texts, settings, seed) for seed in seeds]
        for each in of_texts:
            log.info(
                "seed %d: %d training, %d test texts. %s",
                each.seed,
                len(each.train),
                len(each.test),
                each.left_out,
            )
        write_subsets(of_texts, subsets)
        return
    if splits is None:
        images = read_source(source)
        if group not in (None, *GROUPS, *images.class_names):
            names = ", ".join(images.class_names)
            raise UserError(
                f"primary.group is {group!r}; expected {', '.join(GROUPS)} or a class of"
                f" {images.name}: {names}."
            )
        drawn = [image_subset(images, settings, seed) for seed in seeds]
        for subset in drawn:
            unlabelled, *counts = np.bincount(
                images.labels[subset.train] + 1, minlength=len(images.class_names) + 1
            ).tolist()
            log.info(
                "seed %d: training images per class: %s; %d unlabelled",
                subset.seed,
                counts,
                unlabelled,
            )
        if own := int(images.is_validation.sum()):
            log.info(
                "validation: the %d images of the source's own split; dataset.validation is not"
                " used",
                own,
            )
        write_subsets(drawn, subsets)
        return
    pairs, official = read_pairs(source), privacy.read_table(splits)[0]
    chosen = [pair_subset(pairs, settings, seed, official) for seed in seeds]
    for drawn_pairs in chosen:
        log.info(
            "seed %d: %d training, %d test images",
            drawn_pairs.seed,
            len(drawn_pairs.train),
            len(drawn_pairs.test),
        )
    write_subsets(chosen, subsets)
