"""Tasks that measure image encoders."""

from typing import Literal

LabelPool = Literal["imbalanced", "all"]
