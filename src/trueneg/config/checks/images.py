"""What contradicts itself in an image study."""

from collections.abc import Iterator
from typing import Any

from trueneg.config.checks import trained
from trueneg.config.runs import several
from trueneg.specs.kinds.images import AugmentationSettings, DatasetSettings, ImageStudy
from trueneg.specs.schedules import AdjustedSchedule
from trueneg.specs.settings import values_of
from trueneg.specs.sources import OWN, UNLABELLED


def contradictions(study: ImageStudy, texts: Any) -> Iterator[str]:
    """Report what contradicts itself in an image study."""
    yield from trained.contradictions(study, texts)
    yield from _data(study.dataset)
    if "oracle" not in study.primary.model_fields_set and not study.dataset.unlabelled:
        yield (
            "primary.oracle is missing; expected an objective whose name is oracle, or none: all"
            " images have labels"
        )
    yield from _augmentation(study.augmentation)
    yield from _without_validation(study)
    for name, objective in study.objectives.items():
        yield from _margin(name, objective)


def _data(data: DatasetSettings) -> Iterator[str]:
    """Report settings of the data that exclude each other."""
    if any(value != 1 for value in values_of(data.fraction)) and not data.rare_classes:
        yield (
            "dataset.fraction is below 1, but dataset.rare_classes is empty; list the classes to"
            " thin out"
        )
    unlabelled = data.unlabelled or 0
    available = UNLABELLED.get(data.source, 0)
    if unlabelled > available:
        yield (
            f"dataset.unlabelled is {unlabelled}; expected at most {available}, the number"
            f" available in {data.source}"
        )
    if data.skip_incomplete and data.source not in OWN:
        yield (
            "dataset.skip_incomplete is set; expected only for your own images"
            f" ({' or '.join(OWN)}); remove it"
        )
    if unlabelled and data.rare_classes:
        yield (
            "dataset.rare_classes thins out labelled images only; remove it, or remove"
            " dataset.unlabelled"
        )


def _augmentation(augmentation: AugmentationSettings) -> Iterator[str]:
    """Report settings that only the augmentation `color` has."""
    if {*values_of(augmentation.name)} == {"color"}:
        return
    for key in ("size", "blur"):
        if value := getattr(augmentation, key):
            yield (
                f"augmentation.{key} is {value}, but only the augmentation color has it; remove it,"
                " or set name to color"
            )


def _without_validation(study: ImageStudy) -> Iterator[str]:
    """Report objectives that need a validation split if there is none."""
    if study.dataset.validation:
        return
    for name, objective in study.objectives.items():
        settings = [value for _, setting in objective for value in values_of(setting)]
        if any(isinstance(value, AdjustedSchedule) for value in settings):
            need = "measures a value in training"
        elif name in several(study):
            need = "has variants, which are measured"
        else:
            continue
        yield (
            f"dataset.validation is 0, but objectives.{name} {need} on the validation split;"
            " expected a fraction above 0"
        )


def _margin(name: str, objective: Any) -> Iterator[str]:
    """Report a margin with which a guide of images finds nothing."""
    if not getattr(getattr(objective, "guide", None), "RATES_IMAGES", False):
        return
    margins = [
        margin for margin in values_of(getattr(objective, "margin", None)) if margin is not None
    ]
    if any(margin <= 0 for margin in margins):
        why = "this guide rates both views of an image as equal, so no other image is rated above"
        yield (
            f"objectives.{name}.margin is {min(margins):g}, but {why}; set it above 0, or use"
            " remove with a threshold"
        )
