"""From an image–text study's gathered tables to its figures, its tables and the page: what each name in the catalogue draws."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from trueneg.config import runs
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report import catalogue, figures
from trueneg.report import curves as curve_figures
from trueneg.report.drawing import Drawing
from trueneg.report.formats import Table
from trueneg.report.gathered import Gathered, page_of, twins
from trueneg.report.image_text import tables
from trueneg.report.image_text.class_probabilities import eta_by_class
from trueneg.report.image_text.overlays import grounding_overlays
from trueneg.report.image_text.positives import positive_similarity
from trueneg.report.image_text.ratings import eta_by_anchor, human_ratings
from trueneg.report.image_text.ratings_table import human_ratings_table
from trueneg.report.image_text.retrieval import with_means
from trueneg.report.image_text.similarities import similarity_histograms
from trueneg.report.image_text.sweeps import Sweep, places_of, sweep_figure
from trueneg.report.page import StudyPage
from trueneg.report.tables import published_table
from trueneg.stats.comparison import selected
from trueneg.stats.measurement import Measurement
from trueneg.store.records import read_rows

# Said under every figure and table of a study on synthetic data.
PHANTOM = (
    "Phantom: synthetic radiographs and reports whose classes, boxes and class probabilities are known. "
    "Its numbers say nothing of patients and are not those of the papers' data."
)
# What the printed standard errors say of the printed differences, where that table stands beside ours.
RECO_TABLE_1 = (
    "Of the seven differences of ReCo's Table 1, four have p < 0.05 by the printed standard errors (four seeds each, Welch's "
    "t test), and none has after Holm's correction."
)
# Title of each table, and a sentence on what to see in it.
TABLES = {
    "human_ratings": (
        "Which negatives people call false, and who ranks them so",
        "Flickr8k's experts rated captions of other images: does a method's weight of a pair follow what they say?",
    ),
    "tasks": (
        "Every task, with paired differences",
        "The first paper's Table 1, and beside it the share of anchors that each objective has switched off.",
    ),
    "contrasts": (
        "What the study asks besides, task by task",
        "Whether it is the estimate that helps: against its own permutation, and against constants.",
    ),
    "zero_shot": ("Zero-shot classification by class", "The first paper's Table 3: AUC by difference of two prompts."),
    "retrieval": (
        "Retrieval, both directions",
        "The first paper's Table 5 and ReCo's Table 3; of median ranks the smaller is the better.",
    ),
    "precision": ("Precision of retrieval by label", "ReCo's Table 1."),
    "grounding": (
        "Grounding by finding",
        "The first paper's Table 4: contrast-to-noise ratio and mean IoU of a phrase's heatmap.",
    ),
    "linear_evaluation": ("Classifiers by share of the labels", "ReCo's Table 2, the mean of the classes and each class."),
    "published": (
        "Beside the printed tables",
        "Our numbers and the papers': where data, network or length differ, they need not agree.",
    ),
    "differences": (
        "Every paired difference, with its tests",
        "The primary contrast was named beforehand; all else is exploratory.",
    ),
}
BATCH_AXIS = figures.ConditionAxis("Batch size", logarithmic=True)
DIMENSIONS_AXIS = figures.ConditionAxis("Size D of the embedding", logarithmic=True)


def draw(name: str, folder: Path, artefacts: list[str]) -> Figure:
    """One figure of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.figures_of`.
        folder: the study's artefacts, with the gathered tables.
        artefacts: files of this figure alone.
    """
    return FIGURES[name].draw(read(folder), artefacts)


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it."""
    return TABLES[name] if name in TABLES else (FIGURES[name].title, FIGURES[name].caption)


def table(name: str, folder: Path) -> Table:
    """One table of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.tables_of`.
        folder: the study's artefacts, with the gathered tables.

    Raises:
        KeyError: if there is no table of that name.
    """
    return table_of(name, read(folder), folder)


def table_of(name: str, gathered: Gathered[ImageTextStudy], folder: Path) -> Table:
    """A table of gathered rows.

    Args:
        name: which.
        gathered: what was read from the folder.
        folder: the study's artefacts, for what is not gathered.

    Raises:
        KeyError: if there is no table of that name.
    """
    notes = _notes(gathered)
    # The validation split may hold classes that the test split of no seed can measure.
    rows = gathered.rows[gathered.rows["split"] == "test"]
    comparison = tables.Comparison(with_means(rows), gathered.baseline, gathered.study.primary.oracle, gathered.gate, notes)
    if name == "published":
        named = {(entry.paper, entry.table) for entry in gathered.study.published}
        said = [RECO_TABLE_1] if ("relaxing-contrastiveness", "Table 1") in named else []
        return published_table(comparison.rows, _printed(gathered), notes=[*said, *notes])
    if name == "human_ratings":
        return _ratings_table(gathered, folder)
    if name == "differences":
        return tables.differences(comparison)
    if name == "contrasts":
        return tables.contrasts(comparison, [(each.treatment, each.baseline) for each in gathered.study.contrasts])
    if name in tables.LAYOUTS:
        beside = [tables.at_bound(gathered.curves)] if name == "tasks" else []
        return tables.layout_table(name, comparison, beside)
    raise KeyError(f"There is no table {name!r}.")


def page(folder: Path) -> StudyPage:
    """What the page shows of the study with these artefacts."""
    gathered = read(folder)
    return page_of(folder, gathered, heading, lambda name: table_of(name, gathered, folder))


def read(folder: Path) -> Gathered[ImageTextStudy]:
    """What was gathered of an image–text study, from ``results/<study>/artefacts``."""
    return Gathered.read(folder, ImageTextStudy)


def _printed(gathered: Gathered[ImageTextStudy]) -> pd.DataFrame:
    """The printed numbers, each with where it is printed; they stand in the order of the configuration."""
    places = [
        f"{entry.paper}, {entry.table}: {', '.join(filter(None, (entry.task, entry.setting, entry.metric)))}"
        for entry in gathered.study.published
        for _ in entry.methods
    ]
    return gathered.published.assign(**{"printed as": places})


def _notes(gathered: Gathered[ImageTextStudy]) -> list[str]:
    return [PHANTOM] if gathered.study.dataset.source == "phantom" else []


def _note(gathered: Gathered[ImageTextStudy], along: str = "") -> str:
    """The footnote's end.

    Args:
        gathered: of the study.
        along: the swept setting that is the figure's axis; the others are as the validation split chose them.
    """
    own = gathered.note
    if along:
        others = {field for variant in gathered.selection["variant"] for field in json.loads(variant)} - {along}
        chosen = f"Selected on the validation split: {', '.join(sorted(others))}." if others else ""
        own = f"{chosen} {gathered.study.note}".strip()
    return " ".join(filter(None, [own, *_notes(gathered)]))


def _artefact_note(gathered: Gathered[ImageTextStudy]) -> str:
    """Of figures that show the variants which the configuration names."""
    return " ".join(filter(None, [gathered.study.note, *_notes(gathered)]))


def _of_dataset(gathered: Gathered[ImageTextStudy], rows: pd.DataFrame) -> pd.DataFrame:
    return with_means(rows[rows["dataset"] == gathered.dataset])


def _references(gathered: Gathered[ImageTextStudy], without: str) -> list[str]:
    """Objectives that are lines across: baseline, treatment, oracle, and DCL with the language model's or the true η."""
    primary = gathered.study.primary
    named = {primary.baseline, primary.treatment, primary.oracle}
    return [
        name
        for name, objective in gathered.study.objectives.items()
        if name != without
        and (name in named or (objective.name == "dcl" and objective.class_probability in ("language model", "true")))
    ]


def _sweep(
    gathered: Gathered[ImageTextStudy],
    objective: str,
    field: str,
    label: str,
    measured: Sequence[Measurement],
    paired: bool,
    from_baseline: bool = False,
) -> Figure:
    candidates = runs.candidates(gathered.study)[objective]
    places = places_of(candidates.values(), gathered.chosen(objective), field)
    return sweep_figure(
        _of_dataset(gathered, gathered.rows),
        _of_dataset(gathered, gathered.variants),
        Sweep(objective, places, label, from_baseline),
        measured,
        _references(gathered, objective),
        gathered.baseline,
        paired,
        note=_note(gathered, along=field),
    )


def _tradeoff(gathered: Gathered[ImageTextStudy], _: list[str], paired: bool) -> Figure:
    objective = catalogue.constant_sweep(gathered.study)
    measured = tables.main_measurements(_of_dataset(gathered, gathered.rows))
    return _sweep(gathered, objective, "class_probability", "Constant η", measured, paired, from_baseline=True)


def _strength(gathered: Gathered[ImageTextStudy], _: list[str], paired: bool) -> Figure:
    objective = catalogue.strength_sweep(gathered.study)
    label = f"λ of {objective}, weight of the negatives"
    return _sweep(gathered, objective, "negative_weight", label, [gathered.primary], paired)


def _by_condition(
    gathered: Gathered[ImageTextStudy],
    rows: pd.DataFrame,
    places: dict[str, float],
    axis: figures.ConditionAxis,
    paired: bool,
    note: str,
) -> Figure:
    baseline = gathered.baseline if paired else None
    return figures.accuracy_by_condition(with_means(rows), places, gathered.primary, baseline, axis=axis, note=note)


def _batch_size(gathered: Gathered[ImageTextStudy], _: list[str], paired: bool) -> Figure:
    conditions = runs.conditions(gathered.study)
    others = conditions[gathered.dataset] | {"batch_size": None}
    places = {label: own["batch_size"] for label, own in conditions.items() if own | {"batch_size": None} == others}
    return _by_condition(gathered, gathered.rows, places, BATCH_AXIS, paired, _note(gathered))


def _dimensions(gathered: Gathered[ImageTextStudy], _: list[str], paired: bool) -> Figure:
    """Every objective has each size among its variants: sizes take the place of data sets."""
    of_dataset = gathered.variants[gathered.variants["dataset"] == gathered.dataset]
    parts, sizes = [], {}
    for objective, variants in runs.candidates(gathered.study).items():
        for variant, size in places_of(variants.values(), gathered.chosen(objective), "dimensions").items():
            label = f"dimensions={size:g}"
            sizes[label] = size
            own = of_dataset[(of_dataset["objective"] == objective) & (of_dataset["variant"] == variant)]
            parts.append(own.assign(dataset=label))
    rows, note = pd.concat(parts, ignore_index=True), _note(gathered, along="dimensions")
    return _by_condition(gathered, rows, sizes, DIMENSIONS_AXIS, paired, note)


def _histograms(gathered: Gathered[ImageTextStudy], artefacts: list[str]) -> Figure:
    similarities = pd.concat(map(read_rows, artefacts), ignore_index=True)
    return similarity_histograms(similarities, gathered.study.figures.similarities.objectives, _artefact_note(gathered))


def _overlays(gathered: Gathered[ImageTextStudy], artefacts: list[str]) -> Figure:
    wanted = gathered.study.figures.overlays
    overlays = pd.concat(map(read_rows, artefacts), ignore_index=True)
    return grounding_overlays(overlays, wanted.objectives, wanted.phrases, _artefact_note(gathered))


def _eta(gathered: Gathered[ImageTextStudy], artefacts: list[str]) -> Figure:
    (path,) = artefacts
    return eta_by_class(read_rows(path), _artefact_note(gathered))


def _ratings(gathered: Gathered[ImageTextStudy], paths: Iterable[str | Path]) -> list[pd.DataFrame]:
    """The ratings' tables, those of objectives for the selected variants; of the summary first what needs no objective."""
    summary, *others = map(read_rows, paths)
    chosen = [selected(table, gathered.selection) for table in (summary, *others)]
    return [summary[summary["objective"] == ""], *chosen]


def _ratings_table(gathered: Gathered[ImageTextStudy], folder: Path) -> Table:
    paths = [folder / "human_ratings" / f"{part}.parquet" for part in catalogue.RATINGS["human_ratings"]]
    failed = gathered.gate.loc[~gathered.gate["passed"].astype(bool), "dataset"].tolist()
    return human_ratings_table(*_ratings(gathered, paths), gathered.baseline, failed, _notes(gathered))


def _human_ratings(gathered: Gathered[ImageTextStudy], artefacts: list[str]) -> Figure:
    own = [table[table["dataset"] == gathered.dataset] for table in _ratings(gathered, artefacts)]
    references, networks, _rows, calibration = own
    return human_ratings(references, networks, calibration, list(gathered.study.objectives), _note(gathered))


def _eta_by_anchor(gathered: Gathered[ImageTextStudy], artefacts: list[str]) -> Figure:
    own = [table[table["dataset"] == gathered.dataset] for table in map(read_rows, artefacts)]
    return eta_by_anchor(*own, _artefact_note(gathered))


def _curves(drawn: Callable[..., Figure]) -> Callable[..., Figure]:
    def drawing(gathered: Gathered[ImageTextStudy], _: list[str]) -> Figure:
        return drawn(gathered.curves, note=_note(gathered))

    return drawing


FIGURES: dict[str, Drawing] = {
    **twins(
        "tradeoff",
        _tradeoff,
        "Three tasks against a constant η",
        "The first paper's Fig. 3: does one η suit all tasks, and does a class probability of each sentence beat every constant?",
    ),
    "similarity_histograms": Drawing(
        _histograms,
        "Similarities of pairs, by how they are related",
        "ReCo's Fig. 4: an objective that tells false negatives apart keeps what is true of an image away from what is not.",
    ),
    "grounding_overlays": Drawing(
        _overlays, "Where the models look", "The same phrases under every objective; the boxes are where the finding is."
    ),
    "eta_by_class": Drawing(
        _eta,
        "The language model's class probability beside the known one",
        "The nearer to a rising line, the better a likelihood tells how common a class is.",
    ),
    "human_ratings": Drawing(
        _human_ratings,
        "Which negatives people call false, and who ranks them so",
        "Flickr8k's experts rated captions of other images: does a method's weight of a pair follow what they say?",
    ),
    "eta_by_anchor": Drawing(
        _eta_by_anchor,
        "The class probability beside the rate of false negatives",
        "η belongs to a caption, not to a pair: does it rise with the share of its rated images that it describes?",
    ),
    **twins(
        "ablation_batch_size",
        _batch_size,
        "The primary measurement against the batch size",
        "ReCo's Fig. 5 (a): more negatives at once, and more false ones among them.",
    ),
    **twins("ablation_dimensions", _dimensions, "The primary measurement against the embedding's size", "ReCo's Fig. 5 (b)."),
    **twins(
        "ablation_strength",
        _strength,
        "The primary measurement against ReCo's weight of the negatives",
        "ReCo's Fig. 5 (c): over which range of λ does it beat the baseline?",
    ),
    "training_loss": Drawing(
        _curves(curve_figures.training_curves),
        "Loss while training",
        "Losses of different objectives are not comparable; their shapes are.",
    ),
    "share_at_bound": Drawing(
        _curves(curve_figures.share_at_bound),
        "Share of anchors at the bound",
        "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
    ),
    "positive_similarity": Drawing(
        _curves(positive_similarity),
        "Similarity of the training pairs",
        "The nearer the positives, the more a debiased loss subtracts, and the more anchors reach the bound.",
    ),
}
