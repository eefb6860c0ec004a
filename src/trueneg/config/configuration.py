"""The typed configuration model: single source of the defaults, the JSON schema and the configuration reference page.

A configuration maps study names to studies; each study's ``kind`` selects its model.

Changing a default changes the run ids of studies that do not set the key (:mod:`trueneg.store.identity`). A new key in an
existing section needs a line in ``frozen.yaml``, so that earlier runs keep their ids.
"""

from typing import Annotated, Any

from pydantic import Discriminator, Field, field_validator

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.theory_study import TheoryStudy
from trueneg.specs.pairs import PAIRS
from trueneg.specs.resources import RESOURCES, Resources
from trueneg.specs.settings import Boolean, Name, Settings, Study

KINDS: dict[str, type[Study]] = {
    "images": ImageStudy,
    "theory": TheoryStudy,
    "likelihood": LikelihoodStudy,
    "image-text": ImageTextStudy,
}
GLOBAL_KEYS = ("retrain_stale", "resources")  # configuration keys that are not studies
AnyStudy = Annotated[ImageStudy | TheoryStudy | LikelihoodStudy | ImageTextStudy, Discriminator("kind")]
# Keyed by rule; the rule `pairs` has one entry per source.
ALL_RESOURCES = RESOURCES | {f"{source}_pairs": model.RESOURCES for source, model in PAIRS.items()}


class Configuration(Settings):
    """A whole configuration: its studies and the global settings."""

    studies: dict[Name, AnyStudy]
    retrain_stale: Boolean = Field(False, description="train runs again that other code trained; the old ones are kept aside")
    resources: dict[str, Resources] = Field(
        default_factory=lambda: dict(ALL_RESOURCES),
        description="memory, time and threads of steps that no study sets",
    )

    @field_validator("resources")
    @classmethod
    def _every_rule(cls, given: dict[str, Resources]) -> dict[str, Resources]:
        """Merge the given resources into the defaults of each rule."""
        for name in given.keys() - ALL_RESOURCES.keys():
            raise ValueError(f".{name} is not a rule that asks for resources here; expected one of {', '.join(ALL_RESOURCES)}")
        changed = {
            name: ALL_RESOURCES[name].model_copy(update=rule.model_dump(exclude_unset=True)) for name, rule in given.items()
        }
        return ALL_RESOURCES | changed

    def resolved(self) -> dict[str, Any]:
        """Return the configuration as plain values with all defaults filled in."""
        studies = {name: study.model_dump(mode="json") for name, study in self.studies.items()}
        return studies | self.model_dump(mode="json", exclude={"studies"})
