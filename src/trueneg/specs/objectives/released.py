"""Networks evaluated without training: released ones, or those that training would start from."""

from typing import Annotated, Literal

from trueneg.specs.encoders import BY_NAME, AnyTextEncoder, ImageTower, SpatialEncoder, TextTower
from trueneg.specs.objectives.base import Objective

NOT_TRAINED = ("released", "untrained")


class Released(Objective):
    """Networks evaluated without training: with their own projections (released), or with a random
    one for texts only (untrained).
    """

    TRAINED = False

    name: Literal["released", "untrained"]
    encoder: SpatialEncoder | None = None
    """overrides the study's `encoder`"""
    text_encoder: AnyTextEncoder | None = None
    """overrides the study's `text_encoder`"""
    aggregation: Literal["global"] | None = None
    """global: use the cosine of the pooled image features in place of the study's `similarity`"""


class Untrained(Objective):
    """The towers without training and without a head: the first baseline of a study of texts, or
    of images with a pretrained tower. With another tower, such as the user's current model, a
    network to compare the study's with.
    """

    TRAINED = False

    name: Literal["untrained"]


class UntrainedImages(Untrained):
    __doc__ = Untrained.__doc__

    encoder: Annotated[ImageTower, BY_NAME] | None = None
    """overrides the study's `encoder`"""


class UntrainedTexts(Untrained):
    __doc__ = Untrained.__doc__

    text_encoder: Annotated[TextTower, BY_NAME] | None = None
    """overrides the study's `text_encoder` and `positive_encoder`"""
