"""ReCo's Fig. 5: the primary measurement against batch size, size of the embedding, and weight of the negatives."""

from typing import TYPE_CHECKING

import pandas as pd

from trueneg.config import runs
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing, twins
from trueneg.report.gathered import Gathered
from trueneg.report.plots import Axis, by_place, rows_measuring
from trueneg.report.retrieval import with_means
from trueneg.report.sweeps import Sweep, note_along, places_of, sweep_figure
from trueneg.specs.settings import Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = 80
BATCH_AXIS = Axis("Batch size", logarithmic=True)
DIMENSIONS_AXIS = Axis("Size D of the embedding", logarithmic=True)


def drawings(study: Study) -> list[Drawing]:
    """Of an image–text study, where it sweeps the setting."""
    if not isinstance(study, ImageTextStudy):
        return []
    found = []
    if "batch_size" in study.conditions:
        found += twins(
            "ablation_batch_size",
            by_batch_size,
            "The primary measurement against the batch size",
            "ReCo's Fig. 5 (a): more negatives at once, and more false ones among them.",
        )
    if isinstance(study.projection.dimensions, list):
        title = "The primary measurement against the embedding's size"
        found += twins("ablation_dimensions", by_dimensions, title, "ReCo's Fig. 5 (b).")
    if (objective := strength_sweep(study)) is not None:
        found += twins(
            "ablation_strength",
            by_strength,
            "The primary measurement against ReCo's weight of the negatives",
            "ReCo's Fig. 5 (c): over which range of λ does it beat the baseline?",
            objective=objective,
        )
    return found


def strength_sweep(study: ImageTextStudy) -> str | None:
    """The ReCo objective that tries several weights of the negatives, if there is one."""
    sweeping = (
        name
        for name, objective in study.objectives.items()
        if objective.name == "reco" and isinstance(objective.negative_weight, list)
    )
    return next(sweeping, None)


def by_batch_size(gathered: Gathered, paired: bool) -> "Figure":
    """Batch sizes are conditions side by side."""
    conditions = runs.conditions(gathered.study)
    others = conditions[gathered.dataset] | {"batch_size": None}
    places = {label: own["batch_size"] for label, own in conditions.items() if own | {"batch_size": None} == others}
    rows = gathered.rows[gathered.rows["dataset"].isin(places)]
    return _along(gathered, rows.assign(x=rows["dataset"].map(places)), BATCH_AXIS, paired, gathered.note)


def by_dimensions(gathered: Gathered, paired: bool) -> "Figure":
    """Every objective has each size among its variants: sizes take the place of data sets."""
    of_dataset, parts = gathered.variants[gathered.variants["dataset"] == gathered.dataset], []
    for objective, variants in runs.candidates(gathered.study).items():
        for variant, size in places_of(variants.values(), gathered.chosen(objective), "dimensions").items():
            own = of_dataset[(of_dataset["objective"] == objective) & (of_dataset["variant"] == variant)]
            parts.append(own.assign(dataset=f"dimensions={size:g}", x=size))
    rows = pd.concat(parts, ignore_index=True)
    return _along(gathered, rows, DIMENSIONS_AXIS, paired, note_along(gathered, "dimensions"))


def by_strength(gathered: Gathered, paired: bool, objective: str) -> "Figure":
    """λ along one curve, the other objectives as lines across."""
    sweep = Sweep(objective, "negative_weight", f"λ of {objective}, weight of the negatives")
    return sweep_figure(gathered, sweep, [gathered.primary], paired)


def _along(gathered: Gathered, rows: pd.DataFrame, axis: Axis, paired: bool, note: str) -> "Figure":
    places = rows[["dataset", "x"]].drop_duplicates()
    chosen = with_means(rows[rows["split"] == "test"].drop(columns="x"))
    chosen = rows_measuring(chosen, gathered.primary).merge(places, on="dataset")
    baseline = gathered.baseline if paired else None
    return by_place(chosen, gathered.primary, rows["objective"], baseline, axis, note)
