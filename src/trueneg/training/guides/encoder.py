"""Frozen towers of other libraries, or vectors from a file, as the guide."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.errors import UserError
from trueneg.training.guides.base import Batch, Guide, Rated, rate_features, rate_pairs


class EncoderGuide(Guide):
    """The cosine of frozen towers' vectors of unaugmented images, of texts, or of both in one
    space.

    If permuted, each has the vector of another one, drawn at random; equal texts still share a
    vector.
    """

    def __init__(self, settings: Mapping[str, Any], run: Any):
        super().__init__(settings, run)
        self.features = self.training_features()
        if (
            len(sizes := {key: values.shape[1] for key, values in self.features.items()}) == 2
            and len({*sizes.values()}) == 2
        ):
            found = " and ".join(f"{size} for {key}" for key, size in sizes.items())
            raise UserError(
                f"objective.guide compares texts with images, but its vectors have {found}"
                " dimensions; use towers of one space."
            )

    def training_features(self) -> dict[str, Tensor]:
        """Return the vectors of the training ``images``, of the training ``sentences``, or of both,
        on the run's device.
        """
        frozen, data, features = self.run.frozen, self.run.data, dict[str, Tensor]()
        for section, stored in frozen.guide.items():
            if section == "encoder":
                rows = {"images": torch.arange(data.counts["images"])}
            else:
                rows = {
                    "sentences": torch.tensor(
                        [frozen.rows[text] for text in data.source.sentences["sentence"]]
                    )
                }
            for key, chosen in data.of_training(rows).items():
                if self.settings.get("permuted"):
                    distinct, places = chosen.cpu().unique(return_inverse=True)
                    order = torch.randperm(
                        len(distinct), generator=self.run.generator(f"permuted {section}")
                    )
                    chosen = distinct[order][places]
                # Only the training rows are read; the first version is the sample itself, and the
                # first vector that of all of it.
                features[key] = torch.from_numpy(stored.values[chosen.cpu().numpy(), 0, :, 0]).to(
                    self.run.device
                )
        return features

    def rate(self, batch: Batch) -> Rated:
        features = {key: values[batch.rows[key]] for key, values in self.features.items()}
        if "sentences" not in batch.rows:
            return rate_features(features["images"])
        units = {key: functional.normalize(values, dim=-1) for key, values in features.items()}
        texts, images = (
            units.get(key, next(iter(units.values()))) for key in ("sentences", "images")
        )
        return rate_pairs((texts @ images.mT).clamp(max=1))  # rounding can make a cosine exceed 1
