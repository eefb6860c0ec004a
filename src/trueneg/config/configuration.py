"""The typed configuration model: the single source of the defaults, the JSON schema and the
configuration reference page.

A configuration maps study names to studies; each study's ``kind`` selects its model.

Changing a default changes the run ids of studies that do not set the key
(:mod:`trueneg.store.identity`). A new key in an existing section needs a line in ``frozen.yaml``,
so that earlier runs keep their ids.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, create_model

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.text_study import TextStudy
from trueneg.config.theory_study import TheoryStudy
from trueneg.specs.pairs import PAIRS
from trueneg.specs.resources import RESOURCES, Resources
from trueneg.specs.settings import Name, Settings, models_within, tag_of

AnyStudy = Annotated[
    ImageStudy | TheoryStudy | LikelihoodStudy | ImageTextStudy | TextStudy, Discriminator("kind")
]
WITH_KIND = BeforeValidator(
    lambda study: {"kind": "images", **study} if isinstance(study, dict) else study
)
KINDS: dict[str, Any] = {
    kind: study for study in models_within(AnyStudy) for kind in tag_of(study)[1]
}


def _rule(default: Resources) -> Any:
    """Return the type and default of a rule's resources; omitted keys take the rule's defaults."""
    complete = BeforeValidator(
        lambda keys: default.model_dump() | keys if isinstance(keys, dict) else keys
    )
    return Annotated[Resources, complete], Field(default, description=f"default: {default}")


RuleResources = create_model(
    "RuleResources",
    __base__=Settings,
    __doc__=(
        "Resources of rules that no study configures; the rule `pairs` has one entry per source."
    ),
    **{rule: _rule(default) for rule, default in RESOURCES.items()},
    **{f"{source}_pairs": _rule(model.RESOURCES) for source, model in PAIRS.items()},
)


class Configuration(Settings):
    """A configuration: its studies, and settings that all studies share."""

    studies: dict[Name, Annotated[AnyStudy, WITH_KIND]]
    resources: RuleResources = Field(
        default_factory=RuleResources, description="resources of rules that no study configures"
    )

    def resolved(self) -> dict[str, Any]:
        """Return the configuration as plain values with all defaults filled in."""
        plain = self.model_dump(mode="json")
        return plain.pop("studies") | plain
