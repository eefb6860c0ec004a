"""From a study's gathered tables to its figures, its tables and the page: what each name in the catalogue draws."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from trueneg.report import catalogue, figures, formats, tables
from trueneg.report import curves as curve_figures
from trueneg.report.page import PageFigure, PageTable, StudyPage
from trueneg.study import provenance, runs
from trueneg.study.image_study import ImageStudy

# Title of each figure and table, and a sentence on what to see in it.
TITLES = {
    "primary_by_fraction": (
        "The primary measurement against the imbalance r",
        "Lines that part towards small r would say that the correction matters where classes are uneven.",
    ),
    "primary_by_negatives": (
        "The primary measurement against the number of negatives",
        "BCL's Table 1 as curves: whether a correction matters more where there are few negatives, or many.",
    ),
    "probe_by_fraction": (
        "Linear probe against the imbalance r",
        "The first paper's Fig. 2, left: accuracy of a linear classifier on the frozen encoder.",
    ),
    "probe_by_label_fraction": (
        "Linear probe against the share of labels",
        "The first paper's Fig. 2, right: whether a gain grows when fewer labels train the classifier.",
    ),
    "class_groups": (
        "Who gains: common and rare classes",
        "Differences to the baseline in the primary measurement; a dot whose bar crosses zero could be noise.",
    ),
    "embedding": (
        "t-SNE of the test images",
        "The first paper's Fig. 4: rare classes in reds, common ones in blues, one seed.",
    ),
    "training_loss": ("Loss while training", "Losses of different objectives are not comparable; their shapes are."),
    "share_at_bound": (
        "Share of anchors at the bound",
        "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
    ),
    "same_class_ratio": (
        "Same-class images against the positive",
        "Debiased losses take 1 for this ratio; where it is lower they subtract more than the false negatives' mass.",
    ),
    "true_negative_mean": (
        "The mean over true negatives, estimated and true",
        "What each objective takes for the mean of e^s over true negatives, beside that mean computed with labels.",
    ),
    "accuracy": (
        "Accuracy of every objective, with paired differences",
        "The primary measurement leads; the rest is exploratory.",
    ),
    "published": (
        "Beside the printed table",
        "Our numbers and the paper's, in the study's own setting: where data, network or length differ, they need not agree.",
    ),
    "differences": (
        "Every paired difference, with its tests",
        "The same numbers with their spread and what could have been seen.",
    ),
}


@dataclass(frozen=True)
class Gathered:
    """What a study's figures and tables are made of.

    Attributes:
        study: the resolved study.
        rows: tidy rows; a swept objective stands for the variant that the validation split selected, under its own name.
        curves: training curves, likewise.
        comparison: gate, primary contrast and selection.
        published: printed numbers: dataset, objective, value.
    """

    study: ImageStudy
    rows: pd.DataFrame
    curves: pd.DataFrame
    comparison: Mapping[str, Any]
    published: pd.DataFrame

    @classmethod
    def read(cls, folder: Path) -> "Gathered":
        """From ``results/<study>/artefacts``."""
        comparison = json.loads((folder / "comparison.json").read_text())
        return cls(
            ImageStudy.model_validate(yaml.safe_load((folder / "study.yaml").read_text())),
            _selected(pd.read_parquet(folder / "rows.parquet"), comparison["selection"]),
            _selected(pd.read_parquet(folder / "curves.parquet"), comparison["selection"]),
            comparison,
            pd.read_parquet(folder / "published.parquet"),
        )

    @property
    def dataset(self) -> str:
        """Label of the primary contrast's data set."""
        return self.study.primary.dataset or next(iter(runs.datasets(self.study)))

    @property
    def measurement(self) -> dict[str, str]:
        """Task and setting of the primary contrast."""
        return {"task": self.study.primary.task, "setting": self.study.primary.setting}

    @property
    def note(self) -> str:
        """What is printed under every figure: the study's own note, and what a sweep selected."""
        swept = [
            f"{entry['dataset']}: {entry['chosen']} of {entry['candidates']} variants, selected on the validation split."
            for entry in self.comparison["selection"]
            if entry["candidates"] > 1
        ]
        return " ".join([*swept, self.study.note]).strip()

    def full_probe(self, pool: str) -> dict[str, str]:
        """The linear probe on all labels of a pool."""
        largest = max(self.study.evaluation.linear_probe.label_fractions)
        return {"task": "linear probe", "setting": runs.probe_setting(pool, largest)}


def _selected(table: pd.DataFrame, selection: list[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of the selected variants only, under the objective's own name."""
    names = pd.DataFrame(selection)[["dataset", "objective", "chosen"]]
    table = table.merge(names, left_on=["dataset", "objective"], right_on=["dataset", "chosen"], suffixes=(" given", ""))
    return table.drop(columns=["objective given", "chosen"])


def draw(name: str, folder: Path, artefacts: list[str]) -> Figure:
    """One figure of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.figures_of`.
        folder: the study's artefacts, with the gathered tables.
        artefacts: files of this figure alone.

    Raises:
        KeyError: if there is no figure of that name.
    """
    gathered = Gathered.read(folder)
    base = name.removesuffix("_differences")
    paired = {"baseline": _base_name(gathered.study.primary.baseline)} if name != base else {}
    return _drawing(base)(gathered, base, paired, artefacts)


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it."""
    return title_of(name), _titled(name)[1]


def title_of(name: str) -> str:
    """A figure's or table's title."""
    pool = _pool_of(name.removesuffix("_differences"))
    labels = {"all": ", labels of all training images", "imbalanced": ", labels of the imbalanced subset", None: ""}[pool]
    return _titled(name)[0] + labels + (": paired differences" if name.endswith("_differences") else "")


def _titled(name: str) -> tuple[str, str]:
    base = name.removesuffix("_differences")
    return TITLES[base.removesuffix(f"_{_pool_of(base)}_labels")]


def _pool_of(base: str) -> str | None:
    """The label pool that a figure's name ends with."""
    return next((pool for pool in ("all", "imbalanced") if base.endswith(f"_{pool}_labels")), None)


def _drawing(base: str) -> Callable[[Gathered, str, dict[str, str], list[str]], Figure]:
    for prefix, drawing in _DRAWINGS.items():
        if base.startswith(prefix):
            return drawing
    raise KeyError(f"There is no figure {base!r}.")


def _by_fraction(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    fractions = {label: settings.fraction for label, settings in runs.datasets(gathered.study).items()}
    if base == "primary_by_fraction":
        measured = gathered.measurement | {"metric": gathered.study.primary.metric}
    else:
        measured = gathered.full_probe(_pool_of(base))
    draw = figures.accuracy_by_condition_paired if paired else figures.accuracy_by_condition
    return draw(gathered.rows, fractions, **paired, **measured, note=gathered.note)


def _by_negatives(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    measured = gathered.measurement | {"metric": gathered.study.primary.metric, "axis": figures.NEGATIVES_AXIS}
    draw = figures.accuracy_by_condition_paired if paired else figures.accuracy_by_condition
    return draw(gathered.rows, runs.negative_counts(gathered.study), **paired, **measured, note=gathered.note)


def _by_label_fraction(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    dataset = gathered.study.figures.label_fractions.dataset or gathered.dataset
    draw = figures.accuracy_by_label_fraction_paired if paired else figures.accuracy_by_label_fraction
    return draw(gathered.rows, dataset, **paired, labels=_pool_of(base), note=gathered.note)


def _class_groups(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    baseline = _base_name(gathered.study.primary.baseline)
    return figures.class_accuracy(gathered.rows, gathered.dataset, baseline, **gathered.measurement, note=gathered.note)


def _embedding(gathered: Gathered, base: str, paired: dict[str, str], artefacts: list[str]) -> Figure:
    wanted = gathered.study.figures.embedding
    coordinates = pd.concat(map(pd.read_parquet, artefacts), ignore_index=True)
    return figures.embedding(coordinates, wanted.dataset or gathered.dataset, wanted.objectives, note=gathered.study.note)


def _curves(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    def drawing(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
        return draw(gathered.curves, note=gathered.note)

    return drawing


def _true_negative_mean(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    return curve_figures.true_negative_mean(gathered.curves, gathered.dataset, note=gathered.note)


_DRAWINGS: dict[str, Callable[..., Figure]] = {
    "primary_by_fraction": _by_fraction,
    "primary_by_negatives": _by_negatives,
    "probe_by_fraction": _by_fraction,
    "probe_by_label_fraction": _by_label_fraction,
    "class_groups": _class_groups,
    "embedding": _embedding,
    "training_loss": _curves(curve_figures.training_curves),
    "share_at_bound": _curves(curve_figures.share_at_bound),
    "same_class_ratio": _curves(curve_figures.same_class_ratio),
    "true_negative_mean": _true_negative_mean,
}


def table(name: str, folder: Path) -> formats.Table:
    """One table of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.tables_of`.
        folder: the study's artefacts, with the gathered tables.

    Raises:
        KeyError: if there is no table of that name.
    """
    return table_of(name, Gathered.read(folder))


def table_of(name: str, gathered: Gathered) -> formats.Table:
    """A table of gathered rows.

    Raises:
        KeyError: if there is no table of that name.
    """
    study = gathered.study
    baseline = _base_name(study.primary.baseline)
    probes = [gathered.full_probe(pool) for pool in study.evaluation.linear_probe.label_pools]
    others = [
        {"task": task, "setting": f"labels={pool}"}
        for task in ("knn", "mean classifier")
        for pool in study.evaluation.knn.label_pools
    ]
    # The primary measurement leads; everything after it is exploratory.
    ordered = [gathered.measurement, *(each for each in (*probes, *others) if each != gathered.measurement)]
    if name == "published":
        return tables.published_table(gathered.rows, gathered.published, **gathered.measurement)
    groups = tables.METRICS if study.dataset.rare_classes else ("accuracy",)
    values = tables.compare(gathered.rows, baseline, [(each["task"], each["setting"]) for each in ordered], groups)
    if name == "differences":
        return tables.difference_table(values, baseline)
    if name == "accuracy":
        gate = pd.DataFrame(gathered.comparison["gate"])
        return tables.accuracy_table(values, baseline, _base_name(study.primary.oracle), gate)
    raise KeyError(f"There is no table {name!r}.")


def page(folder: Path) -> StudyPage:
    """What the page shows of the study with these artefacts."""
    gathered = Gathered.read(folder)
    study, comparison = gathered.study, gathered.comparison
    records = json.loads((folder / "runs.json").read_text())
    selection = pd.DataFrame(comparison["selection"])
    drawn = [name for name in catalogue.figures_of(study) if (folder.parent / f"figures/{name}.png").is_file()]
    return StudyPage(
        name=folder.parent.name,
        title=study.title,
        question=study.question,
        answer=comparison["primary"]["answer"],
        gate=[f"{gate['dataset']}: {gate['verdict']}" for gate in comparison["gate"]],
        warnings=_warnings(gathered, records),
        figures=[_page_figure(folder.parent / "figures", name) for name in drawn],
        tables=[PageTable(*heading(name), table_of(name, gathered)) for name in catalogue.tables_of(study)],
        config=(folder / "study.yaml").read_text(),
        provenance=[_provenance(record) for record in records],
        selection=selection[selection["candidates"] > 1] if (selection["candidates"] > 1).any() else None,
    )


def _page_figure(folder: Path, name: str) -> PageFigure:
    # The footnote stands in the picture already.
    return PageFigure(*heading(name), folder / f"{name}.png", folder / f"{name}.pdf")


def _warnings(gathered: Gathered, records: list[Mapping[str, Any]]) -> list[str]:
    found = [gathered.study.note] if gathered.study.note else []
    stale = sum(provenance.is_stale(record) for record in records)
    if stale:
        found.append(f"{stale} of {len(records)} runs were made with other code than today's (stale).")
    # An exact signed-rank test cannot reach p < 0.05 with five pairs, whatever the differences.
    if gathered.comparison["seeds"] < 6:
        found.append(f"{gathered.comparison['seeds']} seeds are too few to tell an effect from noise; 8 or more can.")
    return found


def _provenance(record: Mapping[str, Any]) -> dict[str, Any]:
    versions = record["versions"]
    return {
        "run": record["id"],
        "dataset": record["dataset"],
        "objective": record["objective"],
        "seed": record["seed"],
        "state": "stale" if provenance.is_stale(record) else "finished",
        "images": record["images"],
        "seconds": round(record["seconds"], 1),
        "device": record["device"],
        "threads": record["threads"],
        "commit": record["commit"][:12],
        "code": record["fingerprint"],
        "data": record["source"]["checksum"][:12],
        "torch": versions["torch"],
        "python": versions["python"],
        "finished": record["finished"],
    }


def _base_name(objective: str) -> str:
    return objective.split(",")[0]
