"""The typed configuration model: the single source of the defaults, the JSON schema and the
configuration reference page.

A configuration maps study names to studies; each study's ``kind`` selects its model.

Changing a default changes the run ids of studies that do not set the key
(:mod:`trueneg.store.identity`). A new key in an existing section needs a line in ``frozen.yaml``,
so that earlier runs keep their ids.
"""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, create_model

from trueneg.specs.kinds import DEFAULT, AnyStudy
from trueneg.specs.kinds.experiments import ExperimentStudy
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.pairs import PAIRS
from trueneg.specs.resources import RESOURCES, Resources
from trueneg.specs.settings import Name, Settings

WITH_KIND = BeforeValidator(
    lambda study: {"kind": DEFAULT, **study} if isinstance(study, dict) else study
)


def _rule(default: Resources) -> Any:
    """Return the type and default of a rule's resources; omitted keys take the rule's defaults."""
    complete = BeforeValidator(
        lambda keys: default.model_dump() | keys if isinstance(keys, dict) else keys
    )
    return Annotated[type(default), complete], Field(default, description=f"default: {default}")


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
    resources: RuleResources = Field(default_factory=RuleResources)
    """resources of rules that no study configures"""

    @property
    def trained(self) -> dict[str, TrainedStudy]:
        """The studies that train encoders, by name."""
        return {
            name: study for name, study in self.studies.items() if isinstance(study, TrainedStudy)
        }

    @property
    def scored(self) -> dict[str, LikelihoodStudy]:
        """The studies whose sentences language models score, by name."""
        return {name: study for name, study in self.studies.items() if study.is_scored}

    @property
    def computed(self) -> dict[str, ExperimentStudy]:
        """The studies that compute experiments without training, by name."""
        return {name: study for name, study in self.studies.items() if study.EXPERIMENTS}

    def resolved(self) -> dict[str, Any]:
        """Return the configuration as plain values with all defaults filled in."""
        plain = self.model_dump(mode="json")
        return plain.pop("studies") | plain
