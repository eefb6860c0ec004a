"""The temperature t of a run: logits are similarities in [−1, 1] divided by t.

The *logit scale* is the inverse of the temperature. Studies of images set t, under ``training``;
studies of pairs set the logit scale, as CLIP does, under ``similarity``. An objective's own value
takes precedence.
"""

from typing import Any, NamedTuple

from trueneg.specs.sections import RunSettings

INITIAL_TEMPERATURE = ("temperature", "logit_scale")
TEMPERATURE_KEYS = {*INITIAL_TEMPERATURE, "learned_logit_scale", "maximum_logit_scale"}


class Temperature(NamedTuple):
    """The temperature of a run.

    Attributes:
        initial: t at the start of training.
        learned: whether t is trained with the networks.
        minimum: smallest t that training can reach.
    """

    initial: float
    learned: bool = False
    minimum: float = 0.0

    @property
    def logit_scale(self) -> float:
        """1/t at the start of training."""
        return 1 / self.initial

    @property
    def maximum_logit_scale(self) -> float:
        """Largest 1/t that training can reach."""
        return 1 / self.minimum


def temperature_of(settings: RunSettings) -> Temperature:
    """Return the temperature from a run's resolved settings, by section."""
    values: dict[str, Any] = {}
    for section in ("training", "similarity", "objective"):
        of_section = settings.get(section, {})
        values |= {
            key: of_section[key] for key in TEMPERATURE_KEYS if of_section.get(key) is not None
        }
    if "temperature" in values:
        return Temperature(values["temperature"])
    return Temperature(
        1 / values["logit_scale"],
        values["learned_logit_scale"],
        1 / values["maximum_logit_scale"],
    )
