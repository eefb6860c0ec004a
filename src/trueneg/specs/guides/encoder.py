"""A frozen tower of another library as the guide."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from trueneg.specs.encoders import (
    BY_NAME,
    FROZEN,
    OpenClipImageSettings,
    OpenClipTextSettings,
    SentenceTransformerSettings,
    TimmSettings,
    TowerSettings,
    VectorSettings,
)
from trueneg.specs.guides.base import GuideSettings

PREFIX = "guide "  # of the sections of a run's guide among those of its towers


def _frozen_by_default(tower: Any) -> Any:
    return {"train": FROZEN, **tower} if isinstance(tower, dict) else tower


def _frozen(tower: TowerSettings) -> TowerSettings:
    if tower.train != FROZEN or getattr(tower, "views", None) is not None:
        raise ValueError(" is a guide, which is not trained and rates unaugmented images; remove train and views")
    return tower


ByDefault, Checked = BeforeValidator(_frozen_by_default), AfterValidator(_frozen)
ImageTower = Annotated[Annotated[TimmSettings | OpenClipImageSettings | VectorSettings, BY_NAME], ByDefault, Checked]
TextTower = Annotated[Annotated[OpenClipTextSettings | SentenceTransformerSettings | VectorSettings, BY_NAME], ByDefault, Checked]


class ImageTowerGuide(GuideSettings):
    """The cosine of a frozen tower's vectors of unaugmented images."""

    IMPLEMENTATION = "trueneg.training.guides.encoder:EncoderGuide"

    name: Literal["encoder"]
    encoder: ImageTower = Field(description="an image tower with train: none, which is the default here")


class PairTowerGuide(GuideSettings):
    """The cosine of frozen towers' vectors: of texts and images in one space, of images alone, or of texts alone."""

    IMPLEMENTATION = "trueneg.training.guides.encoder:EncoderGuide"

    name: Literal["encoder"]
    encoder: ImageTower | None = Field(None, description="an image tower, computed once; none: only texts are compared")
    text_encoder: TextTower | None = Field(None, description="a text tower, computed once; none: only images are compared")

    @model_validator(mode="after")
    def _one_space(self):
        image, text = self.encoder, self.text_encoder
        if image is None and text is None:
            raise ValueError(" has no tower; set encoder, text_encoder, or both towers of one open_clip model")
        models = [[getattr(tower, key, None) for key in ("name", "model", "weights")] for tower in (image, text)]
        if image and text and (models[0] != models[1] or not all(isinstance(value, str) for value in models[0])):
            raise ValueError(
                f" compares texts with images, but encoder is ({image}) and text_encoder is ({text}); expected open_clip for "
                "both, with the same model and weights, or only one of them"
            )
        return self


TWO_VIEWS, PAIRS = ImageTowerGuide, PairTowerGuide


def guide_towers(objective: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the towers of an objective's guide, as plain settings, by ``guide encoder`` and ``guide text_encoder``."""
    guide = objective.get("guide") or {}
    return {f"{PREFIX}{key}": guide[key] for key in ("encoder", "text_encoder") if guide.get(key)}
