"""ReCo's Fig. 5: the primary measurement against batch size, embedding size, and weight of the negatives."""

from functools import partial

import pandas as pd

from trueneg.config import runs
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing, twins
from trueneg.report.drawing import Figure
from trueneg.report.figures.by_condition import accuracy_by_condition
from trueneg.report.figures.sweeps import note_along, places_of, sweep_figure, swept_objective
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import with_means
from trueneg.report.plots import Axis
from trueneg.specs.settings import Study

ORDER = 80
BATCH_AXIS = Axis("Batch size", logarithmic=True)
DIMENSIONS_AXIS = Axis("Embedding size D", logarithmic=True)


def drawings(study: Study) -> list[Drawing]:
    """Declare the ablation figures for the settings that an image–text study sweeps."""
    if not isinstance(study, ImageTextStudy):
        return []
    drawings = []
    title = "Primary measurement against the batch size"
    caption = "ReCo's Fig. 5 (a): a larger batch has more negatives, and more false negatives among them."
    if "batch_size" in study.conditions:
        drawings += twins(study, "ablation_batch_size", by_batch_size, title, caption)
    elif isinstance(study.training.batch_size, list) and study.tuning is None:
        drawings += twins(study, "ablation_batch_size", by_variant, title, caption, field="batch_size", axis=BATCH_AXIS)
    if isinstance(study.projection.dimensions, list) and study.tuning is None:
        title, caption = "Primary measurement against the embedding size", "ReCo's Fig. 5 (b)."
        drawings += twins(study, "ablation_dimensions", by_variant, title, caption, field="dimensions", axis=DIMENSIONS_AXIS)
    if (objective := swept_objective(study, "reco", "negative_weight")) is not None:
        title = "Primary measurement against ReCo's weight of the negatives"
        caption = "ReCo's Fig. 5 (c): for which values of λ does ReCo beat the baseline?"
        drawings += twins(study, "ablation_strength", by_strength, title, caption, objective=objective)
    return drawings


def by_batch_size(gathered: Gathered, baseline: str | None) -> Figure:
    """Plot the primary measurement against the batch size; each batch size is one condition of the study."""
    settings = {label: values for label, (values, _) in runs.conditions(gathered.study).items()}
    others = settings[gathered.dataset] | {"batch_size": None}
    places = {label: values["batch_size"] for label, values in settings.items() if values | {"batch_size": None} == others}
    note = partial(gathered.note_on, places)
    return accuracy_by_condition(with_means(gathered.rows), places, gathered.primary, baseline, BATCH_AXIS, note)


def by_variant(gathered: Gathered, baseline: str | None, field: str, axis: Axis) -> Figure:
    """Plot the primary measurement against a setting that the objectives sweep; each value is treated as a condition."""
    of_dataset, parts, places = gathered.variants[gathered.variants["dataset"] == gathered.dataset], [], {}
    for objective, variants in runs.variants(gathered.study).items():
        for variant, value in places_of(variants.values(), gathered.chosen(objective), field).items():
            of_variant = (of_dataset["objective"] == objective) & (of_dataset["variant"] == variant)
            parts.append(of_dataset[of_variant].assign(dataset=f"{field}={value:g}"))
            places[f"{field}={value:g}"] = value
    rows, note = with_means(pd.concat(parts, ignore_index=True)), partial(note_along, gathered, field)
    return accuracy_by_condition(rows, places, gathered.primary, baseline, axis, note)


def by_strength(gathered: Gathered, baseline: str | None, objective: str) -> Figure:
    """Plot the primary measurement against λ as a curve, and the other objectives as horizontal lines."""
    label = f"λ of {objective}, weight of the negatives"
    return sweep_figure(gathered, baseline, objective, "negative_weight", label, [gathered.primary])
