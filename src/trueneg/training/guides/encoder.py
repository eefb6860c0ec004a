"""Frozen towers of other libraries, or vectors from a file, as the guide."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.stored_features import StoredFeatures
from trueneg.errors import UserError
from trueneg.training.guides.base import (
    Guide,
    GuideBatch,
    Rated,
    rate_features,
    rate_pairs,
)

if TYPE_CHECKING:
    from trueneg.training.loop import TrainingRun


class EncoderGuide(Guide):
    """The cosine of frozen towers' vectors of unaugmented images, of texts, or of both in one
    space.

    If permuted, each has the vector of another one, drawn at random; equal texts still share a
    vector.
    """

    def __init__(self, settings: Mapping[str, Any], run: "TrainingRun"):
        super().__init__(settings, run)
        self.features = {
            "images" if section == "encoder" else "texts": self._of_training(section, stored)
            for section, stored in run.frozen.guide.items()
        }
        sizes = {key: values.shape[1] for key, values in self.features.items()}
        if len({*sizes.values()}) == 2:
            found = " and ".join(f"{size} for {key}" for key, size in sizes.items())
            raise UserError(
                f"objective.guide compares texts with images, but its vectors have {found}"
                " dimensions; use towers of one space."
            )

    def _of_training(self, section: str, stored: StoredFeatures) -> Tensor:
        """Return the vectors of the training images or sentences, on the run's device."""
        run = self.run
        if section == "encoder":
            rows = torch.as_tensor(run.data.image_rows)
        else:
            rows = torch.tensor([run.frozen.rows[text] for text in run.data.sentences])
        if self.settings.get("permuted"):
            distinct, places = rows.unique(return_inverse=True)
            generator = run.generator(f"permuted {section}")
            rows = distinct[torch.randperm(len(distinct), generator=generator)][places]
        # Only the training rows are read; the first version is the sample itself, and the first
        # vector that of all of it.
        return torch.from_numpy(stored.values[rows.numpy(), 0, :, 0]).to(run.device)

    def rate(self, batch: GuideBatch) -> Rated:
        images: Any = self.features.get("images")
        texts: Any = self.features.get("texts")
        if batch.texts is None:
            return rate_features(images[batch.samples[0]])
        # images alone are compared with each other, and so are texts
        anchors = images[batch.samples[0]] if texts is None else texts[batch.texts[0]]
        columns = texts[batch.texts[1]] if images is None else images[batch.samples[1]]
        units = functional.normalize(anchors, dim=-1), functional.normalize(columns, dim=-1)
        return rate_pairs((units[0] @ units[1].mT).clamp(max=1))  # rounding can exceed 1
