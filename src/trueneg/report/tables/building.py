"""Table builders: means beside paired differences, comparisons with their tests, and our numbers
beside published ones.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd
from numpy import ndarray
from pandas import DataFrame, Series

from trueneg.report.formats import Cell, Head, Table, pivot
from trueneg.report.gathered import Gathered
from trueneg.report.labels import seed_count, with_unit
from trueneg.report.layouts import Place
from trueneg.report.metrics import (
    format_metric,
    full_name,
    higher_is_better,
    in_unit,
    interval,
    margin_text,
    minus,
    unit,
)
from trueneg.report.published import PLACE
from trueneg.specs.kinds.trained import OTHERS, PRIMARY, NamedContrast
from trueneg.stats.comparison import (
    CLEAR,
    KEYS,
    SIGNIFICANT,
    UNKNOWN,
    detectable_multiplier,
    holm,
    means,
    outcome,
    over_samples,
    paired_differences,
    subtracted,
    within_headroom,
)
from trueneg.stats.measurement import KEYS as MEASURED
from trueneg.stats.measurement import Measurement, by_measurement

Cells = Mapping[tuple[str, str], Cell]  # by data set and objective
Names = Mapping[tuple[str, str], str]  # by data set and objective
Margins = Mapping[Measurement, float]  # equivalence margins
UNNAMED: Names = MappingProxyType({})
ENDS = ("mean", "low", "high")
OWN_FAMILY = (
    "the primary contrast is a family of its own, and outside the primary measurement one of the"
    " unnamed differences"
)


class Named(NamedTuple):
    """The comparisons that a study names: the primary contrast in one measurement, and contrasts in
    all measurements; ``crossed``: those of this measurement over runs and samples, if there are
    any. The oracle must gain over ``same``, too: the baseline at its temperature.
    """

    dataset: str
    measured: Measurement
    treatment: str
    contrasts: Sequence[NamedContrast] = ()
    oracle: str | None = None
    crossed: DataFrame | None = None
    same: str | None = None


def comparisons(
    rows: DataFrame,
    baseline: str,
    measured: Sequence[Measurement],
    margins: Margins | None = None,
    named: Named | None = None,
) -> DataFrame:
    """Compute every comparison of a study, with p values adjusted within families.

    The families of each measurement are those of the named contrasts, and one for the other
    differences from the baseline. The primary contrast is a family of its own. A comparison
    therefore has the same outcome wherever it is shown.

    Args:
        rows: tidy rows, one variant per objective; only the test split is used.
        baseline: objective that is subtracted where no contrast names another one.
        measured: measurements to include; each covers only the data sets that have it.
        margins: equivalence margin of measurements, as in
            :func:`trueneg.stats.comparison.paired_differences`.
        named: the comparisons that the study names.

    Returns:
        One row per (study, dataset, measurement, comparison), named contrasts first, with the
            columns of :func:`trueneg.stats.comparison.paired_differences` (``seeds`` is called
            ``pairs``; ``low`` and ``high`` are called ``difference low`` and ``difference high``;
            the minimum detectable difference is that of the family's first Holm step), ``contrast``
            (its name), ``family``, ``p Holm``, ``p equivalence Holm`` and ``outcome``. Contrasts
            without a family have no p values; their outcome is ``interval only``. ``exploratory``:
            whether a tested comparison is outside the primary measurement or not named.
    """
    named = named or Named("", Measurement("", ""), "")
    table = _all_differences(_test_rows(rows, measured), baseline, margins, named)
    is_named = (table["family"] == OTHERS) & table.duplicated([*KEYS, "contrast"])
    table = table[~is_named].reset_index(drop=True)
    is_measured = _is_primary_measurement(table, named)
    is_plain = table["contrast"] == table["objective"] + " − " + table["baseline"]
    table = _widened(table, is_measured & is_plain, named)
    is_primary = is_measured & (table["contrast"] == f"{named.treatment} − {baseline}")
    table["family"] = table["family"].mask(is_primary, PRIMARY)
    is_tested = table["family"].notna()
    table["exploratory"] = is_tested & ~(is_measured & (table["family"] != OTHERS))
    tests = ["p", "p signed-rank", "p equivalence"]
    table[tests] = table[tests].where(is_tested)
    families: Any = table.groupby([*KEYS, "family"], sort=False, dropna=False)
    table["p Holm"] = families["p"].transform(holm)
    table["p equivalence Holm"] = families["p equivalence"].transform(holm)
    of_family = families["p"].transform("count").clip(lower=1)
    first_step = map(detectable_multiplier, table["seeds"], of_family)
    table["minimum detectable"] *= [*first_step] / table["seeds"].map(detectable_multiplier)
    outcomes = map(
        outcome,
        table["difference"],
        table["p Holm"],
        table["p equivalence Holm"],
        table["metric"].map(higher_is_better),
    )
    table["outcome"] = Series([*outcomes], dtype=object).where(is_tested, "interval only")
    return table.rename(
        columns={"seeds": "pairs", "low": "difference low", "high": "difference high"}
    )


def _all_differences(
    chosen: DataFrame, baseline: str, margins: Margins | None, named: Named
) -> DataFrame:
    """Return the named differences and all from the baseline; equivalence is tested only where the
    oracle's gains exceed the margin.
    """
    parts = [_named_differences(chosen, contrast, margins) for contrast in named.contrasts]
    others = paired_differences(chosen, baseline, margins=margins)
    others = others.assign(contrast=others["objective"] + f" − {baseline}", family=OTHERS)
    table = pd.concat([*parts, others], ignore_index=True)
    gains = [others[others["objective"] == named.oracle]]
    if named.oracle is not None and named.same is not None:
        gains.append(paired_differences(chosen, named.same, [named.oracle]))
    of_oracle = pd.concat(gains, ignore_index=True)
    wider = _widened(of_oracle, _is_primary_measurement(of_oracle, named), named)
    return within_headroom(table, wider, baseline)


def _is_primary_measurement(table: DataFrame, named: Named) -> ndarray:
    """Return which rows are of the primary measurement on its data set."""
    of_dataset = table[table["dataset"] == named.dataset]
    is_measured: ndarray = table.index.isin(named.measured.rows_of(of_dataset).index)
    return is_measured


def _widened(table: DataFrame, is_wider: ndarray | Series, named: Named) -> DataFrame:
    """Return differences, some of them with intervals and tests over samples, too, if there are
    any.
    """
    wider = over_samples(table[is_wider], named.crossed)
    table = table.reindex(columns=wider.columns)
    table.loc[wider.index] = wider
    return table


def _test_rows(rows: DataFrame, measured: Sequence[Measurement]) -> DataFrame:
    """Return the rows of some measurements on the test split, ordered by data set and then by
    measurement.
    """
    held = by_measurement(rows[rows["split"] == "test"])
    places = itertools.product(dict.fromkeys(rows["dataset"]), measured)
    return pd.concat([held[place] for place in places if place in held], ignore_index=True)


def _named_differences(
    rows: DataFrame, contrast: NamedContrast, margins: Margins | None
) -> DataFrame:
    """Compute a named contrast, which may be a difference of differences, for each measurement."""
    treatment = contrast.treatment
    baseline = contrast.baseline
    other = contrast.minus
    name = f"{treatment} − {baseline}"
    if other is not None:
        pairs = ((treatment, other.treatment), (baseline, other.baseline))
        rows = pd.concat([subtracted(rows, *pair) for pair in pairs], ignore_index=True)
        name = f"({name}) − ({other.treatment} − {other.baseline})"
    return paired_differences(rows, baseline, [treatment], margins).assign(
        contrast=name, family=contrast.family
    )


def compare(
    rows: DataFrame,
    baseline: str,
    measured: Sequence[Measurement],
    margins: Margins | None = None,
    named: Named | None = None,
) -> DataFrame:
    """Compute means and their differences from the baseline.

    Args:
        rows, baseline, measured, margins, named: as for :func:`comparisons`.

    Returns:
        One row per (study, dataset, measurement, objective), ordered by data set and then by
            measurement as given, with ``seeds``, ``mean``, ``low``, ``high``, ``runs`` and, except
            for the baseline, the columns of :func:`comparisons`.
    """
    differences = comparisons(rows, baseline, measured, margins, named)
    is_plain = differences["contrast"] == differences["objective"] + f" − {baseline}"
    differences = differences[is_plain].drop(
        columns=["mean", "baseline mean", "baseline", "runs", "contrast"]
    )
    return (
        means(_test_rows(rows, measured))
        .drop(columns="standard deviation")
        .merge(differences, how="left", on=[*KEYS, "objective"])
        .astype({"pairs": "Int64"})
    )


def side_by_side(
    values: DataFrame,
    layout: Iterable[Place],
    gathered: Gathered,
    beside: Mapping[tuple[str, str], Cells] | None = None,
) -> Table:
    """Build a table of means and paired differences with one line per objective.

    Args:
        values: table from :func:`compare`.
        layout: places of the measurements; the name of the data set precedes a group's title.
        gathered: the study's :class:`trueneg.report.gathered.Gathered`.
        beside: further columns without a comparison; maps spanning title and name of a column to
            its cells by data set and objective.
    """
    baseline = gathered.baseline
    remarks = headroom_remarks(gathered.headroom)
    beside = beside or {}
    values = with_names(values, gathered.names)
    compared = by_measurement(values)
    heads: dict[Any, list[Head]] = {}
    cells: list[Any] = []
    for dataset, place in itertools.product(dict.fromkeys(values["dataset"]), layout):
        metric = place.measured.metric
        column = (place.top, place.name, metric)
        heads[column] = [
            (place.top, with_unit(place.name, unit(metric))),
            (place.top, with_unit(f"− {baseline}", unit(metric, difference=True))),
        ]
        title = group_title(dataset, remarks, place.group)
        for row in records(compared.get((dataset, place.measured), values.iloc[:0])):
            line = (title, row["shown as"])
            cells.append((*line, column, [mean_cell(row), difference_cell(row)]))
            for head, others in beside.items():
                shown = others.get((dataset, row["objective"]), Cell("–"))
                cells.append((*line, head, [shown]))
    heads |= {head: [head] for head in beside}
    sentences = [
        f"Mean ± half of its 95 % t interval over seeds ({seed_count(values['seeds'])})."
        f" Differences from {baseline} are paired within seeds and have 95 % t intervals.",
        f"* p < {SIGNIFICANT} (paired t test with Holm's correction over the comparisons of a"
        f" family, for each group and column; {OWN_FAMILY}).",
        *test_notes(values),
    ]
    sentences += [*gathered.label_notes, *gathered.table_notes]
    for row in records(gathered.headroom):
        if row["dataset"] in remarks:
            sentences.append(f"{row['dataset']}: {row['sentence']}.")
    return Table(values, *pivot(cells, heads), sentences, corner="objective")


def group_title(dataset: Any, remarks: Mapping[Any, str], title: str) -> str:
    """Return the title of a group of lines: the data set and the content, with the remark on the
    data set's headroom.
    """
    remark = f" ({remarks[dataset]})" if dataset in remarks else ""
    return "; ".join(filter(None, (dataset, title))) + remark


def headroom_remarks(headroom: DataFrame) -> dict[Any, str]:
    """Return the label of each data set without clear headroom, or whose baseline is not clearly
    above chance.
    """
    return {
        row["dataset"]: row["label"]
        for row in records(headroom)
        if row["label"] not in (CLEAR, UNKNOWN)
    }


def published_table(
    rows: DataFrame, printed: DataFrame, notes: Sequence[str] = (), names: Names = UNNAMED
) -> Table:
    """Lay out a table as a paper prints it, with our mean beside each of its numbers.

    A line is a method of the paper with an objective that implements it, or an objective that the
    paper lacks; a column is a task, setting and metric. What one side lacks is a dash. The CSV also
    has the differences, with the intervals of our means.

    Args:
        rows: tidy rows of the test split.
        printed: the numbers of one table, from :func:`trueneg.report.published.published_numbers`.
        notes: sentences under the table.
        names: name of each line, by data set and objective, where it differs from the objective's.
    """
    values = _with_means(printed, rows)
    marks = {text: "†" * count for count, text in enumerate(values["differs"].dropna().unique(), 1)}
    title, shared, heads = _printed_heads(printed)
    elsewhere = f"not printed in {printed['table'].iloc[0]}"
    printed_decimals = printed["printed"].str.partition(".")[2].str.len()
    decimals: Any = printed_decimals.groupby([printed[level] for level in PLACE]).max()
    cells: list[Any] = []
    for method, of_method in values.groupby("method", sort=False, dropna=False):
        group = with_unit(elsewhere if pd.isna(method) else title, shared)
        # a method without an objective has a line of its own
        for objective in list(of_method["objective"].dropna().unique()) or [method]:
            is_line = of_method["objective"].isna() | (of_method["objective"] == objective)
            name = _published_name(method, objective, of_method[is_line], names)
            for row in records(of_method[is_line]):
                place = tuple(row[level] for level in PLACE)
                cell = _beside_printed(row, decimals[place], marks)
                cells.append((group, name, place, [cell]))
    sentences = [
        "Ours: mean ± half of its 95 % t interval over seeds"
        f" ({seed_count(values['seeds'].dropna())}). In parentheses: the published number, ±"
        " its standard error if it is known.",
        *(f"{mark} {text}" for text, mark in marks.items()),
        *notes,
    ]
    return Table(values, *pivot(cells, heads), sentences, corner="method")


def _printed_heads(printed: DataFrame) -> tuple[str, str, dict[Any, list[Head]]]:
    """Return what all columns of a printed table have in common, their unit if it is the same, and
    the head of each column by its place.
    """
    places = printed.drop_duplicates(PLACE)
    levels = [level for level in PLACE if places[level].nunique() > 1] or PLACE[2:]
    title = ", ".join(filter(None, places[PLACE].drop(columns=levels).iloc[0]))
    shared = places["unit"].iloc[0] if places["unit"].nunique() == 1 else ""
    heads: dict[Any, list[Head]] = {}
    for row in records(places):
        *tops, name = (row[level] for level in levels)
        head = (", ".join(tops), name if shared else with_unit(name, row["unit"]))
        heads[tuple(row[level] for level in PLACE)] = [head]
    return title, shared, heads


def _with_means(printed: DataFrame, rows: DataFrame) -> DataFrame:
    """Return the printed numbers beside our means, and our means of objectives that the paper
    lacks.
    """
    keys = ["dataset", *MEASURED]
    ours = means(rows).drop(columns="standard deviation")
    of_column = ["paper", "table", *PLACE, "unit", "differs", *keys]
    further = ours[~ours["objective"].isin(printed["objective"])]
    further = printed.dropna(subset="dataset")[of_column].drop_duplicates().merge(further, on=keys)
    values = printed.rename(columns={"value": "published"}).merge(
        ours, "left", [*keys, "objective"]
    )
    values = pd.concat([values, further], ignore_index=True)
    for end in ENDS:
        values[f"{end} − published"] = values[end] - values["published"]
    return values


def _published_name(method: Any, objective: str, line: DataFrame, names: Names) -> str:
    """Return the name of a line: the paper's method, and our objective where it is called
    differently.
    """
    datasets = line.loc[line["objective"] == objective, "dataset"]
    ours = {names.get((dataset, objective), objective) for dataset in datasets}
    # the selected values may differ between data sets
    name = ours.pop() if len(ours) == 1 else objective
    return name if pd.isna(method) or name == method else f"{method}; ours: {name}"


def _beside_printed(row: Any, decimals: int, marks: Mapping[str, str]) -> Cell:
    """Return the cell with our mean and, in parentheses, the published number, in its unit."""

    def shown(value: float) -> str:
        return in_unit(value, row["metric"], row["unit"], decimals)

    ours, runs = "–", ""
    if pd.notna(row["mean"]):
        mark = marks.get(row["differs"], "")
        ours = f"{shown(row['mean'])} ± {shown(row['high'] - row['mean'])}{mark}"
        runs = row["runs"]
    theirs, source = "–", ""
    if pd.notna(row["published"]):
        error = row["standard_error"]
        theirs = row["printed"] if pd.isna(error) else f"{row['printed']} ± {shown(error)}"
        source = f"{row['paper']}, {row['table']}"
    return Cell(f"{ours} ({theirs})", runs, source)


def difference_table(
    compared: DataFrame, notes: Sequence[str] = (), names: Names = UNNAMED
) -> Table:
    """Build a table of every comparison with its spread, its tests and its minimum detectable
    difference.

    Args:
        compared: table from :func:`comparisons`.
        notes: sentences under the table, after the standard ones.
        names: display name of each objective, by data set and objective, where it differs from the
            objective's name.
    """
    compared = with_names(compared, names)
    # units that differ are shown in the titles of the groups
    units = {unit(metric, difference=True) for metric in compared["metric"]}
    shared = units.pop() if len(units) == 1 else ""
    tests = {"p": "p", "p Holm": "p, Holm", "p signed-rank": "p, signed-rank"}
    if compared["margin"].notna().any():
        tests["p equivalence Holm"] = "p, equivalence, Holm"
    families = ["family"] if compared["family"].nunique(dropna=False) > 1 else []
    lines = []
    for row in records(compared):
        metric = row["metric"]
        texts = [
            outcome_text(row),
            difference_text(row, starred=False),
            str(row["pairs"]),
            format_metric(row["standard deviation"], metric),
            format_metric(row["minimum detectable"], metric),
            "–" if pd.isna(row["correlation"]) else minus(f"{row['correlation']:.2f}"),
            *(p_text(row[name]) for name in tests),
            *(row[name] or "–" for name in families),
        ]
        title = f"{row['dataset']}; {full_name(Measurement.of(row), '; ')}"
        if not shared:
            title = with_unit(title, unit(metric, difference=True))
        cells = [Cell(text, runs=runs_of_difference(row)) for text in texts]
        lines.append((title, row["shown as"], cells))
    difference, *spread = (
        with_unit(name, shared)
        for name in ("difference", "standard deviation", "minimum detectable")
    )
    heads = ["outcome", difference, "pairs", *spread, "correlation", *tests.values(), *families]
    sentences = [
        "Differences within seeds, with their 95 % t intervals over seeds and their standard"
        " deviations.",
        "Minimum detectable: the true difference that the t test in the first of Holm's steps (5 %"
        " divided by the size of the family) detects with a power of 80 %, given this standard"
        " deviation. Correlation: Pearson's, of the two sides' values over seeds.",
        "p: paired t test, or an exact sign test of differences that are the same for all seeds."
        f" Holm: corrected over the comparisons of a family in a group; {OWN_FAMILY}."
        " Signed-rank: exact, not corrected.",
        *test_notes(compared),
        f"Outcome: better or worse if p, Holm is below {SIGNIFICANT}; equivalent if only that of"
        " equivalence is; otherwise undecided. Exploratory: outside the primary measurement,"
        " or not named by the study. Interval only: named without a test.",
        *notes,
    ]
    return Table(compared, [("", head) for head in heads], lines, sentences, corner="comparison")


def outcome_text(row: Any) -> str:
    """Return the outcome in a row of :func:`comparisons` with its margin, marked if it is an
    exploratory finding.
    """
    text = row["outcome"]
    if text.startswith("equivalent"):
        text += f" within ±{margin_text(row['margin'], row['metric'])}"
    return text + (", exploratory" if row["exploratory"] and text != "undecided" else "")


def with_names(values: DataFrame, names: Names) -> DataFrame:
    """Add the column ``shown as`` to a table from :func:`comparisons` or :func:`compare`: the name
    of the comparison or objective, with the selected values of the objective.
    """
    shown = []
    for row in records(values):
        name = names.get((row["dataset"], row["objective"]), row["objective"])
        contrast = row.get("contrast")
        if contrast is not None:
            # a difference of differences keeps its name
            is_plain = contrast == f"{row['objective']} − {row['baseline']}"
            name = f"{name} − {row['baseline']}" if is_plain else contrast
        shown.append(name)
    return values.assign(**{"shown as": shown})


def test_notes(values: DataFrame) -> list[str]:
    """Return the notes on the tests in a table from :func:`compare`: those over samples, and those
    of equivalence.
    """
    notes = []
    if values.get("clusters", Series(dtype=float)).notna().any():
        notes.append(
            "In the primary measurement, intervals and tests (not signed-rank) cover other test"
            f" samples, too: {values['clusters'].max():,.0f} independent groups of them."
        )
        if "contrast" in values:
            plain = values["objective"] + " − " + values["baseline"]
            if (values["contrast"] != plain).any():
                notes.append("Those of differences of differences cover seeds alone.")
    tested = values.dropna(subset="margin")
    if tested.empty:
        return notes
    margin = margin_text(tested["margin"].iloc[0], tested["metric"].iloc[0])
    notes += [
        f"Equivalence (≈): within ±{margin}, p < {SIGNIFICANT} (two one-sided paired t tests with"
        " Holm's correction; primary measurement only)."
    ]
    if (tested["family"].notna() & tested["p equivalence"].isna()).any():
        notes.append(
            "Without a test of equivalence: where the Oracle's gain is not shown to exceed the"
            " margin, being within it would mean nothing."
        )
    return notes


def records(values: DataFrame) -> Iterable[Any]:
    """Return the rows of a table as dictionaries."""
    return values.to_dict("records")


def difference_text(row: Any, starred: bool = True) -> str:
    """Format the difference in a row of :func:`comparisons` or :func:`compare` with its interval;
    empty for the baseline.

    Args:
        row: row of the table.
        starred: whether to mark differences that are significant after Holm's correction (*) or
            equivalent (≈).
    """
    if pd.isna(row["outcome"]):
        return ""
    metric = row["metric"]
    marks = ""
    if starred and row["p Holm"] < SIGNIFICANT:
        marks += "*"
    if starred and row["p equivalence Holm"] < SIGNIFICANT:
        marks += "≈"
    return (
        f"{format_metric(row['difference'], metric, signed=True)}{marks}"
        f" {interval(row['difference low'], row['difference high'], metric)}"
    )


def runs_of_difference(row: Any) -> str:
    """Return the ids of the runs behind a row's difference: those of the objective and of the
    baseline.
    """
    return row["runs"] if pd.isna(row["baseline runs"]) else f"{row['runs']} {row['baseline runs']}"


def mean_cell(row: Any) -> Cell:
    """Return the cell of the mean in a row of :func:`compare` and half the width of its
    interval.
    """
    metric = row["metric"]
    return Cell(
        f"{format_metric(row['mean'], metric)} ±"
        f" {format_metric(row['high'] - row['mean'], metric)}",
        runs=row["runs"],
    )


def difference_cell(row: Any) -> Cell:
    """Return the cell of the difference in a row of :func:`comparisons` or :func:`compare`."""
    return Cell(difference_text(row), runs=runs_of_difference(row))


def p_text(value: float) -> str:
    """Format a p value."""
    if pd.isna(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
