"""The type of resolved settings."""

from collections.abc import Mapping
from typing import Any

Section = Mapping[str, Any]  # the resolved settings of one section of a study, by key
