"""The tables of a study: means beside paired differences, and every comparison with its tests."""

from collections.abc import Sequence

import pandas as pd

from trueneg.report.formats import Cell, Group, Table
from trueneg.report.labels import seed_count, with_unit
from trueneg.study.comparison import KEYS, holm, means, paired_differences
from trueneg.study.metrics import group_name, metric_name, task_name, unit, written

METRICS = ("accuracy", "accuracy rare", "accuracy common")
SIGNIFICANT = 0.05


def compare(
    rows: pd.DataFrame,
    baseline: str,
    measurements: Sequence[tuple[str, str]],
    metrics: Sequence[str] = METRICS,
    split: str = "test",
) -> pd.DataFrame:
    """The numbers of both tables: means, paired differences, p values adjusted over a column's objectives.

    Args:
        rows: tidy rows.
        baseline: the objective that is subtracted.
        measurements: pairs of task and setting.
        metrics: which metrics.
        split: which split.

    Returns:
        One row a (study, dataset, task, setting, metric, objective), in the order of `measurements` and
        `metrics`, with ``seeds``, ``mean``, ``low``, ``high`` and, but for the baseline, ``difference``,
        ``difference low``, ``difference high``, ``standard deviation``, ``smallest detectable``, ``p``, ``p
        Holm``, ``p signed-rank``.

    Raises:
        ValueError: if there are no such rows.
    """
    found = []
    for dataset in dict.fromkeys(rows["dataset"]):
        for task, setting in measurements:
            for metric in metrics:
                wanted = {
                    "dataset": dataset,
                    "task": task,
                    "setting": setting,
                    "metric": metric,
                    "split": split,
                }
                chosen = rows[(rows[list(wanted)] == pd.Series(wanted)).all(axis=1)]
                if chosen.empty:
                    raise ValueError(f"rows hold no {', '.join(wanted.values())}; the table needs it.")
                found.append(_compare_one(chosen, baseline))
    return pd.concat(found, ignore_index=True)


def accuracy_table(values: pd.DataFrame, baseline: str, oracle: str | None = None, gate: pd.DataFrame | None = None) -> Table:
    """Means and paired differences, one line an objective, one group of lines a data set and evaluation.

    A mean is bold if it is the best, lies in no other interval, and its difference to the baseline (if it is
    the baseline: every difference) passes Holm's correction. The oracle takes no part, and where the gate
    failed nothing is marked.

    Args:
        values: from :func:`compare`.
        baseline: the objective that was subtracted.
        oracle: the objective that uses labels.
        gate: from :func:`trueneg.study.comparison.gate`.
    """
    failed = {} if gate is None else gate[~gate["passed"].astype(bool)].set_index("dataset")["verdict"].to_dict()
    groups = []
    for (dataset, task, setting), group in values.groupby(["dataset", "task", "setting"], sort=False):
        lines: dict[str, list[Cell]] = {}
        for _, column in group.groupby("metric", sort=False):
            best = None if dataset in failed else _clearly_best(column, baseline, oracle)
            for _, row in column.iterrows():
                cells = [Cell(_mean(row), bold=row["objective"] == best)]
                cells.append(Cell(_difference(row, baseline, starred=dataset not in failed)))
                lines.setdefault(row["objective"], []).extend(cells)
        remark = " (uninformative at this size)" if dataset in failed else ""
        groups.append(Group(_title(dataset, task, setting) + remark, list(lines.items())))
    columns = []
    for metric in dict.fromkeys(values["metric"]):
        columns.append((group_name(metric), with_unit("accuracy", unit(metric))))
        columns.append((group_name(metric), with_unit(f"− {baseline}", unit(metric, difference=True))))
    notes = [
        f"Mean ± half of its 95 % t interval over seeds ({seed_count(values['seeds'])}); differences to "
        f"{baseline} are paired within seeds, with their 95 % t intervals.",
        f"* p < {SIGNIFICANT} (paired t test, Holm's correction over the objectives of a column). "
        "Bold: the best mean, if it lies in no other interval and its difference has a star "
        f"(for {baseline}: if all have one).",
    ]
    if oracle is not None:
        notes.append(f"{oracle} uses the labels: it shows what could be gained and is no method.")
    notes += [f"{dataset}: {verdict}." for dataset, verdict in failed.items()]
    return Table(values, columns, groups, notes, corner="objective")


def published_table(rows: pd.DataFrame, printed: pd.DataFrame, task: str, setting: str, split: str = "test") -> Table:
    """Our accuracies beside printed ones, and the difference with our interval; one group of lines a data set.

    Args:
        rows: tidy rows.
        printed: dataset, objective, value (a share of one).
        task: which evaluation of ours stands beside the printed one.
        setting: which of its settings.
        split: which split.
    """
    measured = {"task": task, "setting": setting, "metric": "accuracy", "split": split}
    ours = means(rows[(rows[list(measured)] == pd.Series(measured)).all(axis=1)])
    values = ours.merge(printed.rename(columns={"value": "published"}), on=["dataset", "objective"], how="inner")
    for end in ("mean", "low", "high"):
        values[f"{end} − published"] = values[end] - values["published"]
    groups = []
    for dataset, group in values.groupby("dataset", sort=False):
        lines = []
        for _, row in group.iterrows():
            difference, low, high = (
                written(row[f"{end} − published"], "accuracy", signed=True) for end in ("mean", "low", "high")
            )
            published = written(row["published"], "accuracy")
            lines.append((row["objective"], [Cell(_mean(row)), Cell(published), Cell(f"{difference} [{low}, {high}]")]))
        groups.append(Group(_title(dataset, task, setting), lines))
    columns = [
        ("", with_unit("ours", unit("accuracy"))),
        ("", with_unit("published", unit("accuracy"))),
        ("", with_unit("ours − published", unit("accuracy", difference=True))),
    ]
    notes = [
        f"Ours: mean ± half of its 95 % t interval over seeds ({seed_count(values['seeds'])}). The printed numbers come without "
        "an interval: the difference's is ours alone.",
    ]
    return Table(values, columns, groups, notes, corner="objective")


def difference_table(values: pd.DataFrame, baseline: str) -> Table:
    """Every comparison with its spread, its tests, and the smallest difference that its seeds could see.

    Args:
        values: from :func:`compare`.
        baseline: the objective that was subtracted.
    """
    compared = values[values["objective"] != baseline]
    groups = []
    for (dataset, task, setting, metric), group in compared.groupby(["dataset", "task", "setting", "metric"], sort=False):
        lines = [
            (
                row["objective"],
                [
                    Cell(str(row["pairs"])),
                    Cell(_difference(row, baseline, starred=False)),
                    Cell(written(row["standard deviation"], metric)),
                    Cell(written(row["smallest detectable"], metric)),
                    *(Cell(_p(row[column])) for column in ("p", "p Holm", "p signed-rank")),
                ],
            )
            for _, row in group.iterrows()
        ]
        groups.append(Group(f"{_title(dataset, task, setting)}; {metric_name(metric)}", lines))
    points = unit(values["metric"].iloc[0], difference=True)
    amounts = (f"− {baseline}", "standard deviation", "smallest detectable")
    names = ["pairs", *(with_unit(name, points) for name in amounts), "p", "p, Holm", "p, signed-rank"]
    notes = [
        f"Differences to {baseline} within seeds, with their 95 % t intervals over seeds and their spread.",
        "Smallest detectable: what these seeds would have seen with a power of 80 % at 5 %.",
        "p: paired t test; Holm: corrected over a group's objectives; signed-rank: exact, not corrected.",
    ]
    return Table(compared, [("", name) for name in names], groups, notes, corner="objective")


def _compare_one(rows: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Means and differences of one column of the table."""
    differences = paired_differences(rows, baseline)
    differences["p Holm"] = holm(differences["p"])
    differences = differences.drop(columns=["mean", "baseline mean", "baseline"]).rename(
        columns={"seeds": "pairs", "low": "difference low", "high": "difference high"}
    )
    level = means(rows).drop(columns="standard deviation")
    return level.merge(differences, how="left", on=[*KEYS, "objective"]).astype({"pairs": "Int64"})


def _clearly_best(column: pd.DataFrame, baseline: str, oracle: str | None) -> str | None:
    """The objective whose mean may be printed bold, if there is one."""
    methods = column[column["objective"] != oracle].set_index("objective")
    best = methods["mean"].idxmax()
    others = methods.drop(index=best)
    mean = methods.loc[best, "mean"]
    # An objective with one seed has no interval, and is never clearly different.
    outside = (mean > others["high"]).all() and methods.loc[best, ["low", "high"]].notna().all()
    tested = others["p Holm"] if best == baseline else methods.loc[[best], "p Holm"]
    return best if outside and (tested < SIGNIFICANT).all() else None


def _title(dataset: str, task: str, setting: str) -> str:
    return f"{dataset}; {task_name(task)}, {setting}"


def _mean(row: pd.Series) -> str:
    return f"{written(row['mean'], row['metric'])} ± {written(row['high'] - row['mean'], row['metric'])}"


def _difference(row: pd.Series, baseline: str, starred: bool) -> str:
    if row["objective"] == baseline:
        return ""
    metric = row["metric"]
    low, high = (written(row[f"difference {end}"], metric, signed=True) for end in ("low", "high"))
    star = "*" if starred and row["p Holm"] < SIGNIFICANT else ""
    return f"{written(row['difference'], metric, signed=True)}{star} [{low}, {high}]"


def _p(value: float) -> str:
    if pd.isna(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
