"""A frozen tower of another library, or vectors from a file, as the guide."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, model_validator

from trueneg.specs.encoders import (
    BY_NAME,
    FROZEN,
    OpenClipImageSettings,
    OpenClipTextSettings,
    SentenceTransformerSettings,
    TimmSettings,
    VectorSettings,
)
from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.settings import Boolean


def _frozen(tower: Any) -> Any:
    if not isinstance(tower, dict):
        return tower
    if tower.get("train", FROZEN) != FROZEN or tower.get("views") is not None:
        raise ValueError(
            " is a guide, which is not trained and rates unaugmented images; remove train and views"
        )
    return {"train": FROZEN, **tower}


AsGuide = BeforeValidator(_frozen)
ImageTower = Annotated[TimmSettings | OpenClipImageSettings | VectorSettings, BY_NAME, AsGuide]
TextTower = Annotated[
    OpenClipTextSettings | SentenceTransformerSettings | VectorSettings, BY_NAME, AsGuide
]


class TowerGuide(GuideSettings):
    """Settings shared by guides that are frozen towers."""

    IMPLEMENTATION = "trueneg.training.guides.encoder:EncoderGuide"

    name: Literal["encoder"]
    permuted: Boolean = False
    """control: each image and text gets the vector of another one, drawn at random"""


class ImageTowerGuide(TowerGuide):
    """The cosine of a frozen tower's vectors of unaugmented images."""

    RATES_IMAGES = True

    encoder: ImageTower
    """an image tower with train: none, which is the default here"""


class PairTowerGuide(TowerGuide):
    """The cosine of frozen towers' vectors: of texts and images in one space, of images alone, or
    of texts alone.
    """

    encoder: ImageTower | None = None
    """an image tower, computed once; none: only texts are compared"""
    text_encoder: TextTower | None = None
    """a text tower, computed once; none: only images are compared"""

    @model_validator(mode="after")
    def _one_space(self):
        image, text = self.encoder, self.text_encoder
        if image is None and text is None:
            raise ValueError(" has no tower; set encoder, text_encoder, or both for one space")
        models = [
            [getattr(tower, key, None) for key in ("name", "model", "weights")]
            for tower in (image, text)
        ]
        of_files = isinstance(image, VectorSettings) and isinstance(text, VectorSettings)
        if (
            image
            and text
            and not of_files
            and (models[0] != models[1] or not all(isinstance(value, str) for value in models[0]))
        ):
            raise ValueError(
                f" compares texts with images, but encoder is ({image}) and text_encoder is"
                f" ({text}); expected open_clip for both, with one model and weights, vectors for"
                " both, or only one of them"
            )
        return self


TWO_VIEWS, PAIRS = ImageTowerGuide, PairTowerGuide
