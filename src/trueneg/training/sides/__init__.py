"""Sides of pairs: a modality each, with its encoder, its inputs and its augmentation."""

from trueneg.specs.sections import RunSettings
from trueneg.training.frozen import Frozen
from trueneg.training.sides.base import Side
from trueneg.training.sides.image import ImageSide
from trueneg.training.sides.text import TextSide


def sides_of(settings: RunSettings, frozen: Frozen) -> tuple[TextSide, Side]:
    """Return the sides of the anchors and of the columns, which may be the same.

    The columns are images if there is an image encoder, otherwise texts.
    """
    if "encoder" in settings:
        return TextSide(settings, "text_encoder", "text_", frozen), ImageSide(settings, frozen)
    anchors = TextSide(settings, "text_encoder", "anchors.text_", frozen)
    if "positive_encoder" not in settings:
        return anchors, anchors
    return anchors, TextSide(settings, "positive_encoder", "own_positives.text_", frozen)
