"""Tasks that evaluate image encoders."""

from typing import Literal

LabelPool = Literal["imbalanced", "all"]
