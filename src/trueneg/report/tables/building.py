"""The table builder: means beside paired differences, every comparison with its tests, and ours beside printed numbers."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from trueneg.report.formats import Cell, Group, Table
from trueneg.report.labels import seed_count, with_unit
from trueneg.report.metrics import evaluation_name, higher_is_better, interval, metric_name, unit, written
from trueneg.stats.comparison import KEYS, holm, means, paired_differences
from trueneg.stats.measurement import KEYS as MEASURED
from trueneg.stats.measurement import Measurement, by_measurement

SIGNIFICANT = 0.05


def compare(rows: pd.DataFrame, baseline: str, measured: Sequence[Measurement], split: str = "test") -> pd.DataFrame:
    """The numbers of all tables: means, paired differences, p values adjusted over the objectives of a measurement.

    Args:
        rows: tidy rows, one variant per objective.
        baseline: the objective that is subtracted.
        measured: which measurements; a data set that lacks one is left out of it.
        split: which split.

    Returns:
        One row per (study, dataset, measurement, objective), data sets first, measurements in the given order within them, with
        ``seeds``, ``mean``, ``low``, ``high``, ``runs`` and, except for the baseline, ``difference``, ``difference low``,
        ``difference high``, ``standard deviation``, ``smallest detectable``, ``p``, ``p Holm``, ``p signed-rank``, ``baseline
        runs``.

    Raises:
        ValueError: if no data set has one of them.
    """
    held = by_measurement(rows[rows["split"] == split])
    chosen = []
    for dataset in dict.fromkeys(rows["dataset"]):
        chosen += [held[dataset, one] for one in measured if (dataset, one) in held]
    for one in measured:
        if not any((dataset, one) in held for dataset in rows["dataset"].unique()):
            raise ValueError(f"rows hold no {evaluation_name(one)}, {metric_name(one)}, {split}; the table needs it.")
    chosen = pd.concat(chosen, ignore_index=True)
    differences = paired_differences(chosen, baseline)
    differences["p Holm"] = differences.groupby(KEYS, sort=False, dropna=False)["p"].transform(holm)
    differences = differences.drop(columns=["mean", "baseline mean", "baseline", "runs"]).rename(
        columns={"seeds": "pairs", "low": "difference low", "high": "difference high"}
    )
    level = means(chosen).drop(columns="standard deviation")
    return level.merge(differences, how="left", on=[*KEYS, "objective"]).astype({"pairs": "Int64"})


class Head(NamedTuple):
    """What stands above a mean and its difference: a title over both, the mean's name, and the metric, which tells the unit."""

    title: str
    name: str
    metric: str


class Beside(NamedTuple):
    """A column that is no comparison: a title, its name, and a cell for each (data set, objective)."""

    title: str
    name: str
    cells: Mapping[tuple[str, str], Cell]


def side_by_side(
    values: pd.DataFrame,
    heads: Sequence[Head],
    layout: Mapping[str, Sequence[Measurement]],
    baseline: str,
    oracle: str | None = None,
    gate: pd.DataFrame | None = None,
    beside: Sequence[Beside] = (),
    notes: Sequence[str] = (),
) -> Table:
    """Means and paired differences, one line an objective; which measurements form a group of lines is the caller's.

    A mean is bold if it is the best, lies in no other interval, and its difference to the baseline (if it is
    the baseline: every difference) passes Holm's correction. The oracle takes no part, and where the gate
    failed nothing is marked.

    Args:
        values: from :func:`compare`.
        heads: one per measurement of a group.
        layout: title of each group (the data set's name goes before it), with its measurement under each head.
        baseline: the objective that was subtracted.
        oracle: the objective that uses labels.
        gate: from :func:`trueneg.stats.comparison.gate`.
        beside: columns after the comparisons.
        notes: sentences under the table, after those that every such table has.
    """
    failed = {} if gate is None else gate[~gate["passed"].astype(bool)].set_index("dataset")["verdict"].to_dict()
    measured = by_measurement(values)
    groups = []
    for dataset in dict.fromkeys(values["dataset"]):
        for title, of_group in layout.items():
            columns = [measured.get((dataset, one)) for one in of_group]
            present = [column for column in columns if column is not None]
            if not present:
                continue
            lines: dict[str, list[Cell]] = {name: [] for column in present for name in column["objective"]}
            for column in columns:
                cells = {} if column is None else _cells(column, baseline, oracle, marked=dataset not in failed)
                for name, line in lines.items():
                    line.extend(cells.get(name, (Cell("–"), Cell(""))))
            for extra in beside:
                for name, line in lines.items():
                    line.append(extra.cells.get((dataset, name), Cell("–")))
            remark = " (uninformative at this size)" if dataset in failed else ""
            groups.append(Group("; ".join(filter(None, (dataset, title))) + remark, list(lines.items())))
    names = []
    for head in heads:
        names.append((head.title, with_unit(head.name, unit(head.metric))))
        names.append((head.title, with_unit(f"− {baseline}", unit(head.metric, difference=True))))
    names += [(extra.title, extra.name) for extra in beside]
    sentences = [
        f"Mean ± half of its 95 % t interval over seeds ({seed_count(values['seeds'])}); differences to "
        f"{baseline} are paired within seeds, with their 95 % t intervals.",
        f"* p < {SIGNIFICANT} (paired t test, Holm's correction over the objectives of a column). "
        "Bold: the best mean, if it lies in no other interval and its difference has a star "
        f"(for {baseline}: if all have one).",
    ]
    if oracle is not None:
        sentences.append(f"{oracle} uses the labels: it shows what could be gained and is no method.")
    sentences += [*notes, *(f"{dataset}: {verdict}." for dataset, verdict in failed.items())]
    return Table(values, names, groups, sentences, corner="objective")


def published_table(rows: pd.DataFrame, printed: pd.DataFrame, split: str = "test", notes: Sequence[str] = ()) -> Table:
    """Our means beside printed numbers, and the difference with our interval; one group of lines a measurement.

    Args:
        rows: tidy rows.
        printed: ``dataset``, ``objective`` and the key columns as in the rows, ``value`` in the metric's own unit; perhaps
            ``standard_error``, and ``printed as``, which then names the group too.
        split: which split.
        notes: sentences under the table.
    """
    keys = ["dataset", *MEASURED]
    values = means(rows[rows["split"] == split]).merge(
        printed.rename(columns={"value": "published"}), on=[*keys, "objective"], how="inner"
    )
    for end in ("mean", "low", "high"):
        values[f"{end} − published"] = values[end] - values["published"]
    one_unit = len({unit(metric) for metric in values["metric"]}) == 1
    named = ["printed as"] if "printed as" in values else []
    groups = []
    for _, group in values.groupby([*keys, *named], sort=False, dropna=False):
        first, lines = group.iloc[0], []
        measured, sources, metric = Measurement.of(first), [first[name] for name in named], first["metric"]
        for _, row in group.iterrows():
            difference, low, high = (row[f"{end} − published"] for end in ("mean", "low", "high"))
            difference_text = f"{written(difference, metric, signed=True)} {interval(low, high, metric)}"
            place = sources[0] if sources else "the table that the study's settings name"
            ours, theirs = Cell(_mean(row), runs=row["runs"]), Cell(_printed(row), printed=place)
            lines.append((row["objective"], [ours, theirs, Cell(difference_text, runs=row["runs"])]))
        what = evaluation_name(measured)
        title = "; ".join([first["dataset"], *sources, f"ours: {what}, {metric_name(measured)}" if sources else what])
        groups.append(Group(title if one_unit else with_unit(title, unit(metric)), lines))
    names = ("ours", "published", "ours − published")
    units = [unit(values["metric"].iloc[0], difference=name == names[-1]) if one_unit else "" for name in names]
    sentences = [
        f"Ours: mean ± half of its 95 % t interval over seeds ({seed_count(values['seeds'])}). The printed numbers come without "
        "an interval, at most with a standard error (s.e.): the difference's interval is ours alone.",
        *notes,
    ]
    columns = [("", with_unit(*pair)) for pair in zip(names, units, strict=True)]
    return Table(values, columns, groups, sentences, corner="objective")


def difference_table(values: pd.DataFrame, baseline: str, notes: Sequence[str] = ()) -> Table:
    """Every comparison with its spread, its tests, and the smallest difference that its seeds could see.

    Args:
        values: from :func:`compare`.
        baseline: the objective that was subtracted.
        notes: sentences under the table, after those that every such table has.
    """
    compared = values[values["objective"] != baseline]
    one_unit = len({unit(metric, difference=True) for metric in values["metric"]}) == 1
    groups = []
    for (dataset, measured), group in by_measurement(compared).items():
        lines = []
        for _, row in group.iterrows():
            texts = [
                str(row["pairs"]),
                difference_text(row, baseline, starred=False),
                written(row["standard deviation"], measured.metric),
                written(row["smallest detectable"], measured.metric),
                *(p_text(row[column]) for column in ("p", "p Holm", "p signed-rank")),
            ]
            lines.append((row["objective"], [Cell(text, runs=runs_of_difference(row)) for text in texts]))
        what = f"{dataset}; {evaluation_name(measured)}; {metric_name(measured)}"
        groups.append(Group(what if one_unit else with_unit(what, unit(measured.metric, difference=True)), lines))
    points = unit(values["metric"].iloc[0], difference=True) if one_unit else ""
    amounts = (f"− {baseline}", "standard deviation", "smallest detectable")
    names = ["pairs", *(with_unit(name, points) for name in amounts), "p", "p, Holm", "p, signed-rank"]
    sentences = [
        f"Differences to {baseline} within seeds, with their 95 % t intervals over seeds and their spread.",
        "Smallest detectable: what these seeds would have seen with a power of 80 % at 5 %.",
        "p: paired t test; Holm: corrected over a group's objectives; signed-rank: exact, not corrected.",
        *notes,
    ]
    return Table(compared, [("", name) for name in names], groups, sentences, corner="objective")


def _cells(column: pd.DataFrame, baseline: str, oracle: str | None, marked: bool) -> dict[str, tuple[Cell, Cell]]:
    """Mean and difference of every objective in one column of the table."""
    best = _clearly_best(column, baseline, oracle) if marked else None
    return {
        row["objective"]: (
            Cell(_mean(row), bold=row["objective"] == best, runs=row["runs"]),
            Cell(difference_text(row, baseline, starred=marked), runs=runs_of_difference(row)),
        )
        for _, row in column.iterrows()
    }


def _clearly_best(column: pd.DataFrame, baseline: str, oracle: str | None) -> str | None:
    """The objective whose mean may be printed bold, if there is one."""
    methods = column[column["objective"] != oracle].set_index("objective")
    if higher_is_better(column["metric"].iloc[0]):
        best, reach, side = methods["mean"].idxmax(), methods["high"], 1
    else:
        best, reach, side = methods["mean"].idxmin(), methods["low"], -1
    others = methods.drop(index=best)
    mean = methods.loc[best, "mean"]
    # An objective with one seed has no interval, and is never clearly different.
    outside = (side * (mean - reach.drop(index=best)) > 0).all() and methods.loc[best, ["low", "high"]].notna().all()
    tested = others["p Holm"] if best == baseline else methods.loc[[best], "p Holm"]
    return best if outside and (tested < SIGNIFICANT).all() else None


def _mean(row: pd.Series) -> str:
    return f"{written(row['mean'], row['metric'])} ± {written(row['high'] - row['mean'], row['metric'])}"


def difference_text(row: pd.Series, baseline: str, starred: bool) -> str:
    """A line of :func:`compare` as its difference with the interval; nothing for the baseline itself.

    Args:
        row: the line.
        baseline: the objective that was subtracted.
        starred: whether to mark what is significant after Holm's correction.
    """
    if row["objective"] == baseline:
        return ""
    metric = row["metric"]
    star = "*" if starred and row["p Holm"] < SIGNIFICANT else ""
    within = interval(row["difference low"], row["difference high"], metric)
    return f"{written(row['difference'], metric, signed=True)}{star} {within}"


def runs_of_difference(row: pd.Series) -> str:
    """The runs behind a line's difference: the objective's and the baseline's."""
    return row["runs"] if pd.isna(row["baseline runs"]) else f"{row['runs']} {row['baseline runs']}"


def p_text(value: float) -> str:
    """A p value as text."""
    if pd.isna(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _printed(row: pd.Series) -> str:
    error = row.get("standard_error", float("nan"))
    text = written(row["published"], row["metric"])
    return text if pd.isna(error) else f"{text} (s.e. {written(error, row['metric'])})"
