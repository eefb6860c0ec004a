"""Released networks without training."""

from typing import Literal

from pydantic import Field

from trueneg.specs.encoders import AnyTextEncoder, SpatialEncoder
from trueneg.specs.objectives.base import Objective


class Released(Objective):
    """No training: evaluates released networks unchanged, with their own projections."""

    MODULES = ()

    name: Literal["released"]
    encoder: SpatialEncoder | None = Field(None, description="overrides the study's `encoder`")
    text_encoder: AnyTextEncoder | None = Field(None, description="overrides the study's `text_encoder`")
