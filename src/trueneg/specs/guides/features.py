"""Frozen features as the guide."""

from typing import Literal

from trueneg.specs.guides.base import CosineGuide
from trueneg.specs.settings import PathText, technical


class FileGuide(CosineGuide):
    """Frozen features from a file."""

    IMPLEMENTATION = "trueneg.training.guides.features:FeatureGuide"

    name: Literal["features"]
    path: PathText = technical(
        ..., "a .safetensors file with `images`, one row per image of the source, or (image–text) `sentences`, or both"
    )


TWO_VIEWS = PAIRS = FileGuide
