"""What an answer has to admit in the same sentence: the baseline's temperature, other families of
tasks, labels, and few seeds.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd
from pandas import DataFrame

from trueneg.config.equal_temperature import baseline_at, oracle_gains_over
from trueneg.report.gathered import methods
from trueneg.report.labels import few_pilots
from trueneg.report.metrics import (
    DISPLAYED,
    amount,
    ends,
    higher_is_better,
    name_beside,
    scale,
    unit,
)
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.stats.comparison import (
    holm,
    outcome,
    paired_differences,
    primary_contrast,
    with_exact_ends,
)
from trueneg.stats.measurement import Measurement, measurements


class Claim(NamedTuple):
    """The comparison that the answer states.

    Attributes:
        row: the contrast with the smaller gain, as from
            :func:`trueneg.stats.comparison.primary_contrast`.
        baseline: what it is compared with, for the sentence.
        caveats: clauses that belong to the same sentence.
    """

    row: Any
    baseline: str
    caveats: list[str]


def claim(
    study: TrainedStudy,
    rows: DataFrame,
    dataset: str,
    selection: Iterable[Mapping[str, Any]],
    crossed: DataFrame | None = None,
) -> Claim:
    """Return the comparison of the treatment with the baseline, and what it has to admit.

    Args:
        study: a trained study.
        rows: tidy rows of its selected variants on the test split.
        dataset: label of the primary contrast's data set.
        selection: entries of the selection in ``comparison.json``.
        crossed: comparisons over runs and samples, as for
            :func:`trueneg.stats.comparison.primary_contrast`.
    """
    primary = study.primary
    selection = [entry for entry in selection if entry["dataset"] == dataset]
    row, same = smaller_gain(study, rows, dataset, selection, primary.treatment, crossed)
    shown = row["baseline"]
    at_equal = f"{primary.baseline} at the temperature of {primary.treatment}"
    caveats = disagreements(rows, row)
    if same is None:
        caveats.append(f"{at_equal} was not measured")
    elif same != primary.baseline:
        shown = f"{same} ({at_equal})" if same == shown else f"{shown} at its own temperature"
    if study.positives_by_label:
        caveats.append("positives are drawn by label, so every training uses labels")
    return Claim(row, shown, [*caveats, *filter(None, [few_pilots(selection)])])


def smaller_gain(
    study: TrainedStudy,
    rows: DataFrame,
    dataset: str,
    selection: Iterable[Mapping[str, Any]],
    name: str,
    crossed: DataFrame | None = None,
) -> tuple[Any, str | None]:
    """Compare an objective with the baseline and, if it was measured, with the baseline at the
    objective's temperature; return the comparison with the smaller gain, and the name of the
    latter baseline (:func:`trueneg.config.equal_temperature.baseline_at`).

    Args:
        study, rows, dataset, selection, crossed: as for :func:`claim`; the selection on one data
            set.
        name: name of the objective.
    """
    primary = study.primary
    variants = {entry["objective"]: entry["variant"] for entry in selection}
    same = baseline_at(study, variants, name)
    found = [
        primary_contrast(
            rows,
            name,
            baseline,
            primary.measurement,
            dataset,
            primary.margin,
            primary.oracle,
            crossed,
            oracle_gains_over(study, variants),
        )
        for baseline in dict.fromkeys(filter(None, (primary.baseline, same)))
    ]
    return min(found, key=lambda row: row["difference"]), same


def over_untrained(
    study: TrainedStudy, rows: DataFrame, dataset: str, crossed: DataFrame | None = None
) -> dict[str, Any]:
    """Compare the baseline, the treatment and every method with the towers before training, in the
    primary measurement; these comparisons are a family, corrected by Holm's method.

    Args:
        study, rows, dataset, crossed: as for :func:`claim`.

    Returns:
        The rows of :func:`trueneg.stats.comparison.primary_contrast` by name, ``p`` and ``outcome``
            after the correction; empty if the towers before training were not measured.
    """
    first = study.first_baseline
    primary = study.primary
    measured = {*rows["objective"]}
    if first is None or first not in measured:
        return {}
    names = dict.fromkeys((primary.baseline, primary.treatment, *methods(study)))
    found = {
        name: primary_contrast(rows, name, first, primary.measurement, dataset, crossed=crossed)
        for name in names
        if name in measured - {first}
    }
    corrected = holm([row["p"] for row in found.values()])
    for row, p in zip(found.values(), corrected, strict=True):
        row["p"] = p
        row["outcome"] = outcome(row["difference"], p)
    return found


def disagreements(rows: DataFrame, row: Any) -> list[str]:
    """Return a clause on the other families of tasks whose intervals do not agree with a
    comparison; empty if there are none.
    """
    said: dict[str, str] = {}
    for other in filter(lambda other: _disagrees(row, other), in_other_families(rows, row)):
        metric = other["metric"]
        said.setdefault(
            other["task"],
            f"{name_beside(Measurement.of(other), Measurement.of(row))} differs by"
            f" {amount(other['difference'], metric, signed=True, difference=True)}"
            f" ({ends(other['low'], other['high'], metric)})",
        )
    return [f"but {' and '.join(said.values())}, not corrected"] if said else []


def in_other_families(rows: DataFrame, row: Any) -> list[dict[str, Any]]:
    """Return the paired differences of a comparison's objectives in the other families of tasks."""
    treatment, baseline = row["objective"], row["baseline"]
    rows = rows[(rows["dataset"] == row["dataset"]) & rows["objective"].isin((treatment, baseline))]
    others = [*_of_families(measurements(rows), Measurement.of(row))]
    if not others:
        return []
    values = pd.concat([each.rows_of(rows) for each in others], ignore_index=True)
    differences: Any = with_exact_ends(paired_differences(values, baseline, [treatment]))
    return list(differences.to_dict("records"))


def losses(rows: DataFrame, row: Any) -> list[str]:
    """Return the other families of tasks in which a comparison's treatment is shown to be worse,
    each once, with the difference; not corrected for multiple comparisons.
    """
    said: dict[str, str] = {}
    for other in in_other_families(rows, row):
        metric = other["metric"]
        if other["high"] < 0 if higher_is_better(metric) else other["low"] > 0:
            difference = amount(other["difference"], metric, signed=True, difference=True)
            said.setdefault(other["task"], f"{other['task']} ({difference})")
    return [*said.values()]


def _of_families(measured: list[Measurement], primary: Measurement) -> Iterator[Measurement]:
    """Yield the measurements of the other tasks, with the group of classes and the labels of the
    primary measurement where a task has these, and with the largest fraction of them.
    """
    grouped = {each.task for each in measured if each.group == primary.group}
    whole = [
        each
        for each in measured
        if each.task != primary.task
        and each.group == (primary.group if each.task in grouped else None)
        and each.direction is None
        and each.metric in DISPLAYED
        and DISPLAYED[each.metric].higher_is_better is not None
    ]
    for each in whole:
        of_task = [other for other in whole if other.task == each.task]
        has_labels = any(other.labels == primary.labels for other in of_task)
        fraction = max(other.fraction or 0 for other in of_task)
        if (each.fraction or 0) == fraction and (each.labels == primary.labels or not has_labels):
            yield each


def _disagrees(row: Any, other: Any) -> bool:
    """Return whether the interval of another measurement is on the other side of zero, or excludes
    what the row claims: of a gain or loss, it contains zero and not the difference. Amounts are
    compared in equal units only.
    """
    low, high = other["low"], other["high"]
    if not higher_is_better(other["metric"]):
        low, high = -high, -low
    is_same_unit = scale(row["metric"]) == scale(other["metric"]) and unit(row["metric"]) == unit(
        other["metric"]
    )
    match row["outcome"].split(" ")[0]:
        case "better":
            return bool(high < 0 or (is_same_unit and low <= 0 and high < row["difference"]))
        case "worse":
            return bool(low > 0 or (is_same_unit and high >= 0 and low > row["difference"]))
        case "equivalent":
            margin = row["margin"] if is_same_unit else 0
            return bool(low > margin or high < -margin)
        case _:
            return bool(low > 0 or high < 0)
