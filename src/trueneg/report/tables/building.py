"""Table builders: means beside paired differences, comparisons with their tests, and our numbers beside published ones."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from trueneg.report.formats import Cell, Group, Table
from trueneg.report.labels import seed_count, with_unit
from trueneg.report.metrics import evaluation_name, higher_is_better, interval, metric_name, unit, written
from trueneg.stats.comparison import KEYS, holm, means, paired_differences
from trueneg.stats.measurement import KEYS as MEASURED
from trueneg.stats.measurement import Measurement, by_measurement

if TYPE_CHECKING:
    from trueneg.report.layouts import Comparison, Layout

SIGNIFICANT = 0.05


def compare(rows: pd.DataFrame, baseline: str, measured: Sequence[Measurement], split: str = "test") -> pd.DataFrame:
    """Compute the numbers of all tables: means, paired differences, and p values adjusted over each measurement's objectives.

    Args:
        rows: tidy rows, one variant per objective.
        baseline: objective that is subtracted.
        measured: measurements to include; each covers only the data sets that have it.
        split: name of the split.

    Returns:
        One row per (study, dataset, measurement, objective), ordered by data set and then by measurement as given, with
        ``seeds``, ``mean``, ``low``, ``high``, ``runs`` and, except for the baseline, ``difference``, ``difference low``,
        ``difference high``, ``standard deviation``, ``smallest detectable``, ``p``, ``p Holm``, ``p signed-rank``, ``baseline
        runs``.

    Raises:
        ValueError: if no data set has one of the measurements.
    """
    held, datasets = by_measurement(rows[rows["split"] == split]), list(dict.fromkeys(rows["dataset"]))
    for one in measured:
        if not any((dataset, one) in held for dataset in datasets):
            raise ValueError(f"rows hold no {evaluation_name(one)}, {metric_name(one)}, {split}; the table needs it.")
    places = [place for place in itertools.product(datasets, measured) if place in held]
    chosen = pd.concat([held[place] for place in places], ignore_index=True)
    differences = with_holm(paired_differences(chosen, baseline))
    differences = differences.drop(columns=["mean", "baseline mean", "baseline", "runs"]).rename(
        columns={"seeds": "pairs", "low": "difference low", "high": "difference high"}
    )
    level = means(chosen).drop(columns="standard deviation")
    return level.merge(differences, how="left", on=[*KEYS, "objective"]).astype({"pairs": "Int64"})


def with_holm(table: pd.DataFrame) -> pd.DataFrame:
    """Add ``p Holm``, corrected over the comparisons of each measurement."""
    adjust: Any = holm
    return table.assign(**{"p Holm": table.groupby(KEYS, sort=False, dropna=False)["p"].transform(adjust)})


class Head(NamedTuple):
    """Head of a mean and its difference: a title that spans both, the name of the mean, and the metric, which sets the unit."""

    title: str
    name: str
    metric: str


class Beside(NamedTuple):
    """Extra column without a comparison: a title, a name, and one cell per (data set, objective)."""

    title: str
    name: str
    cells: Mapping[tuple[str, str], Cell]


def side_by_side(values: pd.DataFrame, layout: "Layout", comparison: "Comparison", beside: Sequence[Beside] = ()) -> Table:
    """Build a table of means and paired differences with one line per objective.

    A mean is bold if it is the best, lies in no other interval, and its difference from the baseline (for the baseline itself,
    every difference) is significant after Holm's correction. The oracle is excluded, and nothing is marked where the gate
    failed.

    Args:
        values: table from :func:`compare`.
        layout: column heads, and the measurements in each group of lines; the name of the data set precedes the group's title.
        comparison: data shared by the study's tables.
        beside: columns after the comparisons.
    """
    baseline, failed = comparison.baseline, failed_gates(comparison.gate)
    compared = {
        place: _cells(column, baseline, comparison.oracle, marked=place[0] not in failed)
        for place, column in by_measurement(values).items()
    }
    groups = []
    for dataset, (title, measured) in itertools.product(dict.fromkeys(values["dataset"]), layout.groups.items()):
        columns = [compared.get((dataset, one), {}) for one in measured]
        lines = []
        for name in dict.fromkeys(itertools.chain(*columns)):
            pairs = (column.get(name, (Cell("–"), Cell(""))) for column in columns)
            others = (extra.cells.get((dataset, name), Cell("–")) for extra in beside)
            lines.append((name, [*itertools.chain(*pairs), *others]))
        if lines:
            groups.append(Group(group_title(dataset, failed, title), lines))
    names = []
    for head in layout.heads:
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
    if comparison.oracle is not None:
        sentences.append(f"{comparison.oracle} uses the labels: it shows what could be gained and is no method.")
    sentences += [*comparison.notes, *(f"{dataset}: {verdict}." for dataset, verdict in failed.items())]
    return Table(values, names, groups, sentences, corner="objective")


def group_title(dataset: Any, failed: Collection[str], title: str = "") -> str:
    """Return the title of a group of lines: the data set and the content, with a remark if the gate failed."""
    remark = " (uninformative at this size)" if dataset in failed else ""
    return "; ".join(filter(None, (dataset, title))) + remark


def failed_gates(gate: pd.DataFrame) -> dict[Any, str]:
    """Return the verdict on each data set whose gate failed; nothing is marked on those data sets."""
    return gate[~gate["passed"].astype(bool)].set_index("dataset")["verdict"].to_dict()


def published_table(rows: pd.DataFrame, printed: pd.DataFrame, split: str = "test", notes: Sequence[str] = ()) -> Table:
    """Build a table of our means, published numbers and their difference with our interval; one group per measurement.

    Args:
        rows: tidy rows.
        printed: published numbers with ``dataset``, ``objective`` and the key columns as in the rows, and ``value`` in the
            metric's own unit; optionally ``standard_error``, and ``printed as``, which is added to the title of the group.
        split: name of the split.
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
        rows_of_group: list[Any] = group.to_dict("records")
        first, lines = rows_of_group[0], []
        measured, sources, metric = Measurement.of(first), [first[name] for name in named], first["metric"]
        for row in rows_of_group:
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
    """Build a table of every comparison with its spread, its tests and its minimum detectable difference.

    Args:
        values: table from :func:`compare`.
        baseline: objective that was subtracted.
        notes: sentences under the table, after the standard ones.
    """
    compared = values[values["objective"] != baseline]
    one_unit = len({unit(metric, difference=True) for metric in values["metric"]}) == 1
    groups = []
    for (dataset, measured), group in by_measurement(compared).items():
        lines = []
        for _, row in group.iterrows():
            spread = (written(row[name], measured.metric) for name in ("standard deviation", "smallest detectable"))
            tests = (p_text(row[name]) for name in ("p", "p Holm", "p signed-rank"))
            texts = (str(row["pairs"]), difference_text(row, baseline, starred=False), *spread, *tests)
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
    """Return the cells with mean and difference of each objective for one measurement."""
    best = _clearly_best(column, baseline, oracle) if marked else None
    rows: list[Any] = column.to_dict("records")
    return {
        row["objective"]: (
            Cell(_mean(row), bold=row["objective"] == best, runs=row["runs"]),
            Cell(difference_text(row, baseline, starred=marked), runs=runs_of_difference(row)),
        )
        for row in rows
    }


def _clearly_best(column: pd.DataFrame, baseline: str, oracle: str | None) -> str | None:
    """Return the objective whose mean is printed in bold, if there is one."""
    methods = column[column["objective"] != oracle].set_index("objective")
    higher = higher_is_better(column["metric"].iloc[0])
    sign, reach = (1, methods["high"]) if higher else (-1, methods["low"])
    best: Any = (sign * methods["mean"]).idxmax()
    is_other = methods.index != best
    # An objective with one seed has no interval, so it is never clearly different.
    outside = (sign * (methods["mean"][best] - reach[is_other]) > 0).all() and pd.notna(reach[best])
    tested = methods["p Holm"][is_other if best == baseline else ~is_other]
    return best if outside and (tested < SIGNIFICANT).all() else None


def _mean(row: Any) -> str:
    return f"{written(row['mean'], row['metric'])} ± {written(row['high'] - row['mean'], row['metric'])}"


def difference_text(row: Any, baseline: str, starred: bool) -> str:
    """Format the difference in a row of :func:`compare` with its interval; empty for the baseline itself.

    Args:
        row: row of the table.
        baseline: objective that was subtracted.
        starred: whether to star differences that are significant after Holm's correction.
    """
    if row["objective"] == baseline:
        return ""
    metric = row["metric"]
    star = "*" if starred and row["p Holm"] < SIGNIFICANT else ""
    within = interval(row["difference low"], row["difference high"], metric)
    return f"{written(row['difference'], metric, signed=True)}{star} {within}"


def runs_of_difference(row: Any) -> str:
    """Return the ids of the runs behind a row's difference, of both the objective and the baseline."""
    return row["runs"] if pd.isna(row["baseline runs"]) else f"{row['runs']} {row['baseline runs']}"


def p_text(value: float) -> str:
    """Format a p value."""
    if pd.isna(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _printed(row: Any) -> str:
    error = row.get("standard_error", float("nan"))
    text = written(row["published"], row["metric"])
    return text if pd.isna(error) else f"{text} (s.e. {written(error, row['metric'])})"
