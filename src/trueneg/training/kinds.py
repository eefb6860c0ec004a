"""The kinds of training by name: what the engine's one loop trains, and on what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trueneg.data.images.image_source import ImageSource, read_source
from trueneg.data.images.subsets import Subset, read_subsets
from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import PairSubset, read_pair_subsets
from trueneg.training.image_text import ImageText
from trueneg.training.image_text_networks import RELEASED, ReleasedNetworks
from trueneg.training.image_text_objectives import data_checksum
from trueneg.training.simclr import SimCLR


@dataclass(frozen=True)
class Training:
    """A kind of training: what the engine's one loop trains, and on what.

    Attributes:
        start: from settings, seed, source, subset, device and processes to a run with the interface of
            :class:`~trueneg.training.simclr.SimCLR`.
        read_source, read_subsets: from a path to the source, and to each seed's subset.
        data_checksum: from source and settings to a checksum of what the run is made of.
        samples: what the rows and the record count, such as ``views``.
        per_pick: how many of them one sample of a batch gives.
    """

    start: Callable[..., SimCLR | ImageText | ReleasedNetworks]
    read_source: Callable[[str | Path], ImageSource | PairSource]
    read_subsets: Callable[[str | Path], Mapping[int, Subset | PairSubset]]
    data_checksum: Callable[[Any, Mapping[str, Any]], str]
    samples: str
    per_pick: int


def _image_checksum(source: ImageSource, settings: Mapping[str, Any]) -> str:
    return source.checksum


def _start_on_pairs(settings: Mapping[str, Any], *given: Any) -> ImageText | ReleasedNetworks:
    return (ReleasedNetworks if settings["objective"]["name"] == RELEASED else ImageText)(settings, *given)


# By the kind of training that a run's settings name.
TRAININGS = {
    "images": Training(SimCLR, read_source, read_subsets, _image_checksum, "views", 2),
    "image-text": Training(_start_on_pairs, read_pairs, read_pair_subsets, data_checksum, "pairs", 1),
}
