"""What all sides have in common."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from trueneg.data.pairs.training_split import PairData
from trueneg.data.stored_features import StoredFeatures
from trueneg.data.texts.training_split import TextData
from trueneg.models.image_text_encoders import Encoder
from trueneg.models.pairs import PairModel, SharedSpace
from trueneg.models.towers.stored import StoredTower
from trueneg.models.towers.tower import Embedded, Tower
from trueneg.specs.sections import RunSettings
from trueneg.training.frozen import build_tower, is_tower, packed, restore_tower
from trueneg.training.loop import TrainingRun

PROJECTIONS = ("linear", "mlp", "residual", "none")  # others were released with the encoders

BuildTower = Callable[[RunSettings, str], Tower]


class TrainedOn(NamedTuple):
    """What new encoders take from the training data, for encoders without training data.

    Attributes:
        sentences: training sentences, including repetitions; they define the vocabulary of a small
            text encoder.
        channels: number of image channels.
        statistics: mean and standard deviation of each channel.
    """

    sentences: Sequence[str] = ()
    channels: int = 0
    statistics: tuple[list[float], list[float]] = ([], [])


TrainingData = PairData | TextData | TrainedOn


class Side(ABC):
    """The anchors or the columns of pairs: a modality with its encoder, inputs and augmentation.

    Args:
        settings: the run's settings.
        section: section of the settings that describes the encoder.
        prefix: what the names of the encoder and its projection begin with in the model, and in a
            finished run's file.
        stored: vectors that take the place of a frozen tower; None: it is not frozen.

    Attributes:
        modality: of the samples: ``image`` or ``text``.
        encoder: the encoder, with its ``dimensions``.
        released: the projection released with the encoder; None if there is none.
        logit_scale: the logit scale released with the encoder; None if there is none.
    """

    modality: ClassVar[str]
    encoder: Any
    released: nn.Module | None
    logit_scale: float | None

    def __init__(
        self, settings: RunSettings, section: str, prefix: str, stored: StoredFeatures | None
    ):
        self.settings = settings
        self.section = section
        self.prefix = prefix
        self.stored = stored
        self.is_tower = stored is not None or is_tower(settings, section)

    def build(self, data: TrainingData) -> None:
        """Create the encoder; weights that are not loaded are drawn from torch's RNG."""
        self._take(self._of_tower(build_tower) if self.is_tower else self._new(data))

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Create the encoder of a finished run; its weights are loaded afterwards, and what else is
        in its file is taken out of `tensors`.
        """
        if self.is_tower:
            restore = functools.partial(restore_tower, tensors=tensors)
            self._take(self._of_tower(restore))
        else:
            self._take(self._restored(tensors))

    def entries(self) -> dict[str, Tensor]:
        """Return what a finished run's file needs besides the weights."""
        return packed(self.encoder, self.section) if self.is_tower else {}

    @abstractmethod
    def prepare(self, data: PairData | TextData, device: torch.device) -> None:
        """Move the training data to the device, or get ready to read them."""

    @abstractmethod
    def batches(self, rows: Sequence[Tensor], run: TrainingRun) -> Generator[Any, None, None]:
        """Yield the inputs of this process for each update of an epoch that is not yet done.

        Args:
            rows: indices of training samples for each update of the epoch, (B,) or (B, n), on the
                CPU.
            run: the run, with the number of updates done, its processes and generators.
        """

    @abstractmethod
    def embed(self, model: PairModel, inputs: Any) -> Embedded:
        """Embed inputs with a model, which may be a copy of the one being trained."""

    @abstractmethod
    def _new(self, data: TrainingData) -> Encoder:
        """Create an encoder that is not a tower."""

    @abstractmethod
    def _restored(self, tensors: dict[str, Tensor]) -> Encoder:
        """Create the encoder of a finished run that is not a tower."""

    def _of_tower(self, build: BuildTower) -> Encoder:
        """Return a tower, or stored vectors in its place."""
        if self.stored is None:
            tower = build(self.settings, self.section)
        else:
            tower = StoredTower(self.stored.dimensions, self.stored.grid)
        return Encoder(tower, SharedSpace(tower.dimensions), getattr(tower, "logit_scale", None))

    def _take(self, encoder: Encoder) -> None:
        self.encoder, self.released, self.logit_scale = encoder


def uses_released(settings: RunSettings) -> bool:
    """Return whether the projections are those that were released with the encoders."""
    return settings["projection"]["name"] not in PROJECTIONS
