"""Frozen features as the guide."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.nn import functional

from trueneg.errors import UserError
from trueneg.models.weights import read_tensors
from trueneg.training.guides.base import Batch, Guide, Rated, rate_pairs


class FeatureGuide(Guide):
    """The cosine of features from a file: of images, of sentences, or of sentences and images in one space."""

    def __init__(self, settings: Mapping[str, Any], run: Any):
        super().__init__(settings, run)
        self.features = self.training_features()

    def training_features(self) -> dict[str, Tensor]:
        """Return the features of the training ``images``, of the training ``sentences``, or of both, on the run's device."""
        data = self.run.data
        return data.of_training(read_features(self.settings["path"], data.counts, data.source.name))

    def rate(self, batch: Batch) -> Rated:
        features = {key: values[batch.rows[key]] for key, values in self.features.items()}
        if "sentences" not in batch.rows:
            return rate_features(features["images"])
        units = {key: functional.normalize(values, dim=-1) for key, values in features.items()}
        texts, images = (units.get(key, next(iter(units.values()))) for key in ("sentences", "images"))
        return rate_pairs((texts @ images.mT).clamp(max=1))  # rounding can make a cosine exceed 1


def rate_features(features: Tensor) -> Rated:
    """Rate samples by the cosine of their (B, D) features; the two views of a sample share its features, so their cosine is 1."""
    units = functional.normalize(features, dim=-1)
    return Rated((units @ units.mT).clamp(max=1), units.new_ones(len(units)))  # rounding can make a cosine exceed 1


def read_features(path: str | Path, rows: Mapping[str, int], source: str) -> dict[str, Tensor]:
    """Read a guide's features.

    Args:
        path: a .safetensors file.
        rows: number of rows of the source by tensor: ``images`` and, for image–text sources, ``sentences``.
        source: name of the source, for messages.

    Raises:
        UserError: if the file is missing or damaged, or its tensors do not have one finite row per image or sentence.
    """
    features = {key: value.float() for key, value in read_tensors(path).items() if key in rows}
    if not features:
        raise UserError(f"objective.guide.path, {path}: contains none of the tensors {', '.join(rows)}.")
    for key, value in features.items():
        if value.dim() != 2 or len(value) != rows[key]:
            shape = tuple(value.shape)
            raise UserError(f"objective.guide.path, {path}: {key} has shape {shape}; expected ({rows[key]}, D), as {source} has.")
        if not value.isfinite().all():
            raise UserError(f"objective.guide.path, {path}: {key} contains NaN or inf; expected numbers.")
    if len({value.shape[1] for value in features.values()}) > 1:
        raise UserError(f"objective.guide.path, {path}: images and sentences have different dimensions; expected one space.")
    return features
