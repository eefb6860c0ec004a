"""The subsets of the seeds: what each trains on, chooses on and is tested on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.data.images.prepare import draw_image_subsets
from trueneg.data.pairs.official_splits import draw_official_subsets
from trueneg.data.pairs.pair_splits import draw_pair_subsets
from trueneg.text import privacy


def draw_subsets(
    source: str | Path, settings: Mapping[str, Any], seeds: Sequence[int], subsets: str | Path, splits: str | Path | None = None
) -> None:
    """Draw the subsets of each seed, or take the official splits where the source has some.

    Args:
        source: decoded images (npz); or images and sentences (npz, with its parquet file beside it).
        settings: resolved settings of the data set.
        seeds: whose subsets.
        subsets: parquet file to write.
        splits: of images and sentences: the official splits (parquet), empty where there are none. None: images.

    Raises:
        UserError: if the settings do not fit the source, or a file is missing or damaged.
    """
    if splits is None:
        draw_image_subsets(source, settings, seeds, subsets)
    elif len(privacy.read_table(splits)[0]):
        draw_official_subsets(source, splits, seeds, subsets)
    else:
        draw_pair_subsets(source, settings, seeds, subsets)
