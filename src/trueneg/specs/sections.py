"""The types of resolved settings."""

from collections.abc import Mapping
from typing import Any

Section = Mapping[str, Any]  # those of a study or of one of its sections, by key
RunSettings = Mapping[str, Section]  # those of a run, by section
