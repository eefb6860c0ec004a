"""Several tasks against a constant class probability (the first paper's Fig. 3)."""

from collections.abc import Mapping
from typing import Any

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing, twins
from trueneg.report.drawing import Figure
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import main_measurements
from trueneg.report.retrieval import with_means
from trueneg.report.sweeps import Sweep, sweep_figure
from trueneg.specs.settings import Study

ORDER = 20


def drawings(study: Study) -> list[Drawing]:
    """Declare the trade-off figure if an image–text study sweeps constant class probabilities."""
    objective = constant_sweep(study) if isinstance(study, ImageTextStudy) else None
    if objective is None:
        return []
    title = "Three tasks against a constant η"
    caption = (
        "The first paper's Fig. 3: does one η suit all tasks, and does a class probability of each sentence beat every constant?"
    )
    return twins("tradeoff", tradeoff, title, caption, objective=objective)


def tradeoff(gathered: Gathered, paired: bool, objective: str) -> Figure:
    """Draw the trade-off, one panel per task."""
    measured = main_measurements(with_means(gathered.rows[gathered.rows["dataset"] == gathered.dataset]))
    return sweep_figure(gathered, Sweep(objective, "class_probability", "Constant η", from_baseline=True), measured, paired)


def constant_sweep(study: ImageTextStudy) -> str | None:
    """Return the DCL objective that sweeps constant class probabilities, if there is one."""
    objectives: Mapping[str, Any] = study.objectives
    for name, objective in objectives.items():
        swept = objective.class_probability if objective.name == "dcl" else None
        if isinstance(swept, list) and sum(not isinstance(value, str) for value in swept) > 1:
            return name
    return None
