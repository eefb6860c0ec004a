"""What the two kinds of training differ in, for the engine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from trueneg.data.images.image_source import ImageSource, read_source
from trueneg.data.images.subsets import Subset, read_subsets
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import PairSubset, read_pair_subsets
from trueneg.training.image_text import ImageText
from trueneg.training.image_text_objectives import data_checksum
from trueneg.training.loop import Training
from trueneg.training.simclr import SimCLR


class Kind(NamedTuple):
    """A kind of training: its class, how its data are read, and the checksum of what a run learns from."""

    training: type[Training]
    read_source: Callable[[str | Path], ImageSource | PairSource]
    read_subsets: Callable[[str | Path], Mapping[int, Subset | PairSubset]]
    data_checksum: Callable[[Any, Mapping[str, Any]], str]


# By the kind of training that a run's settings name.
KINDS = {
    "images": Kind(SimCLR, read_source, read_subsets, lambda source, settings: source.checksum),
    "image-text": Kind(ImageText, read_pairs, read_pair_subsets, data_checksum),
}
