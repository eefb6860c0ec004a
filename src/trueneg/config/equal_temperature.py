"""The baseline at a treatment's temperature: without it, a gain may be that of the temperature."""

import json
from collections.abc import Mapping

from trueneg.config.runs import families, followed
from trueneg.legible import counted
from trueneg.specs.kinds.trained import FEW_PILOTS, TrainedStudy
from trueneg.specs.objectives.base import Objective
from trueneg.specs.sections import Section
from trueneg.specs.temperature import TEMPERATURE_KEYS, Temperature, temperature_of


def untempered(objective: Objective) -> Section:
    """Return an objective's settings without its temperature: its loss."""
    return objective.model_dump(exclude=TEMPERATURE_KEYS)


def with_loss_of_baseline(study: TrainedStudy) -> list[str]:
    """Return the names of the objectives that differ from the baseline in their temperature
    alone, the baseline first.
    """
    baseline = study.primary.baseline
    loss = untempered(study.objectives[baseline])
    others = (name for name, each in study.objectives.items() if untempered(each) == loss)
    return list(dict.fromkeys((baseline, *others)))


def baseline_at(study: TrainedStudy, variants: Mapping[str, str], treatment: str) -> str | None:
    """Return the name of the baseline, or of an objective with its loss, that has the temperature
    of a treatment; None: there is none. Of a treatment without a temperature, or with the
    baseline's loss, whose gain is that of its temperature, it is the baseline.

    Args:
        study: a trained study.
        variants: the compared variant of each objective, as canonical JSON.
        treatment: name of the objective that is compared with the baseline.
    """
    objective = study.objectives[treatment]
    same_loss = with_loss_of_baseline(study)
    if treatment in same_loss or not (objective.TRAINED and objective.SCALED):
        return study.primary.baseline
    wanted = _temperature(study, treatment, variants)
    names = (name for name in same_loss if name in variants)
    return next((name for name in names if _temperature(study, name, variants) == wanted), None)


def oracle_gains_over(study: TrainedStudy, variants: Mapping[str, str]) -> list[str]:
    """Return the baselines over which the oracle must gain: the study's, and that at the oracle's
    temperature if there is one.

    Args:
        study, variants: as for :func:`baseline_at`.
    """
    oracle = study.primary.oracle
    same = baseline_at(study, variants, oracle) if oracle and oracle in variants else None
    return list(dict.fromkeys(filter(None, (study.primary.baseline, same))))


def _temperature(study: TrainedStudy, name: str, variants: Mapping[str, str]) -> Temperature:
    sections = study.sections_of(study.objectives[name])
    settings = {section: model.model_dump() for section, model in sections.items()}
    values = json.loads(variants[name])
    settings["objective"] |= {key: values[key] for key in TEMPERATURE_KEYS & values.keys()}
    return temperature_of(settings)


def cautions(study: TrainedStudy) -> list[str]:
    """Return what a tuned study's answer will have to admit: few pilot seeds, and treatments that
    no contrast compares with the baseline at their own temperature.
    """
    if study.tuning is None:
        return []
    said = []
    pilots = len(study.tuning.seeds)
    if pilots < FEW_PILOTS:
        said.append(f"{counted(pilots, 'pilot seed')} in tuning.seeds, fewer than {FEW_PILOTS}")
    same = {*with_loss_of_baseline(study)}
    matched = {followed(study)[name] for name in same & followed(study).keys()}
    baseline = study.primary.baseline
    named = [study.primary, *study.contrasts]
    treatments = dict.fromkeys(each.treatment for each in named if each.baseline == baseline)
    lacking = [
        name
        for name in treatments
        if name in families(study) and name not in same | matched and study.objectives[name].SCALED
    ]
    if lacking:
        said.append(
            f"no {baseline} at the temperature of {', '.join(lacking)}, so a gain may be that of"
            f" the temperature; add an objective with the loss of {baseline} and without a"
            " temperature, let it follow the method (tuning.follow), and name the contrast"
        )
    return said
