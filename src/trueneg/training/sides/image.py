"""Images as a side of pairs: augmented pixels, or a frozen tower's stored vectors."""

import contextlib
from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from trueneg.data.pairs.training_split import PairData
from trueneg.errors import UserError
from trueneg.models.image_text_encoders import Encoder
from trueneg.models.pairs import PairModel
from trueneg.models.towers.stored import StoredViews
from trueneg.models.towers.tower import Embedded
from trueneg.runtime.precision import autocast
from trueneg.specs.sections import RunSettings
from trueneg.training.frozen import NO_REGIONS, Frozen, encoder_of
from trueneg.training.loop import TrainingRun
from trueneg.training.radiograph_augmentation import RadiographAugmentation
from trueneg.training.sides.base import BuildTower, Side, TrainedOn

SECTION = "encoder"
MEAN, STD = "images/mean", "images/std"  # entries of a finished run's file

# images and their augmentation parameters
ImageInputs = tuple[Tensor, Tensor]


class ImageSide(Side):
    """Images.

    Attributes:
        augmentation: of images; evaluation applies its ``normalise``.
    """

    modality = "image"
    augmentation: RadiographAugmentation | StoredViews

    def __init__(self, settings: RunSettings, frozen: Frozen):
        super().__init__(settings, SECTION, "image_", frozen.images)

    def build(self, data: PairData | TrainedOn) -> None:  # type: ignore[override]
        super().build(data)
        if self.is_tower or encoder_of(self.settings, SECTION).normalises:
            self._augment(([0.0] * data.channels, [1.0] * data.channels))
        else:
            self._augment(data.statistics)

    def restore(self, tensors: dict[str, Tensor]) -> None:
        statistics = [[0.0], [1.0]]
        if self.stored is None:
            statistics = [tensors.pop(name).tolist() for name in (MEAN, STD)]
        self._channels = len(statistics[0])
        super().restore(tensors)
        self._augment(statistics)

    def entries(self) -> dict[str, Tensor]:
        if isinstance(self.augmentation, StoredViews):
            return super().entries()
        statistics = self.augmentation.mean.flatten(), self.augmentation.std.flatten()
        return super().entries() | dict(zip((MEAN, STD), statistics, strict=True))

    def prepare(self, data: PairData, device: torch.device) -> None:  # type: ignore[override]
        self._images = data.images
        self.augmentation.to(device)
        self._device = device

    def batches(
        self, rows: Sequence[Tensor], run: TrainingRun
    ) -> Generator[ImageInputs, None, None]:
        size = rows[0].numel()
        generator = run.generator("augmentation")
        drawn = self.augmentation.draw(len(rows) * size, self._images.size, generator)
        parameters = drawn.to(self._device).split(size)[run.update :]
        own = [run.processes.part(numbers).flatten() for numbers in rows[run.update :]]
        with contextlib.closing(self._images.batches(torch.cat(own), len(own[0]))) as loaded:
            for images, of_update in zip(loaded, parameters, strict=True):
                yield images, run.processes.part(of_update)

    def embed(self, model: PairModel, inputs: ImageInputs) -> Embedded:
        images = self.augmentation(*inputs)
        with autocast(self._device):
            return model.embed(self.prefix, images.contiguous(memory_format=torch.channels_last))

    def _new(self, data: PairData | TrainedOn) -> Encoder:  # type: ignore[override]
        return encoder_of(self.settings, SECTION).build(self.settings[SECTION], data.channels)

    def _restored(self, tensors: dict[str, Tensor]) -> Encoder:
        implementation = encoder_of(self.settings, SECTION)
        return implementation.restore(self.settings[SECTION], self._channels, tensors)

    def _of_tower(self, build: BuildTower) -> Encoder:
        encoder = super()._of_tower(build)
        needs_regions = self.settings["similarity"]["aggregation"] != "global"
        if needs_regions and encoder.network.grid is None:
            model = self.settings[SECTION].get("model", "vectors")
            raise UserError(NO_REGIONS.format(section=SECTION, model=model))
        return encoder

    def _take(self, encoder: Encoder) -> None:
        super()._take(encoder)
        self.encoder.to(memory_format=torch.channels_last)

    def _augment(self, statistics: Sequence[Sequence[float]]) -> None:
        if self.stored is None:
            augmentation = self.settings["augmentation"]
            mean, std = statistics
            self.augmentation = RadiographAugmentation(mean, std, **augmentation)
        else:
            self.augmentation = StoredViews(self.stored.values.shape[1])
