"""What each method gains in the primary measurement and in another one, and what it costs."""

from collections.abc import Mapping
from typing import Any

from pandas import DataFrame

from trueneg.report.claims import in_other_families
from trueneg.report.declared import ROWS, Drawing
from trueneg.report.formats import Cell, Head, Table
from trueneg.report.gathered import Gathered
from trueneg.report.labels import PAIRED_INTERVAL, with_unit
from trueneg.report.layouts import compared_rows
from trueneg.report.methods import gains
from trueneg.report.metrics import format_metric, interval, measured_name, name_beside, unit
from trueneg.report.tables.building import mean_cell, runs_of_difference
from trueneg.report.tables.comparisons import LABELS
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.stats.comparison import means
from trueneg.stats.measurement import Measurement
from trueneg.store import records

ORDER = 5
KIND = TrainedStudy
RUNS = "runs.json"
COST = "training of a run (s)"


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the table of a trained study."""
    baseline = study.primary.baseline
    return [
        Drawing(
            "methods",
            methods,
            "What does each method gain, and what does it cost?",
            f"Gains over {baseline}, or over {baseline} at the temperature of the method if the"
            " gain over that is smaller.",
            (*ROWS, RUNS),
        )
    ]


def methods(gathered: Gathered) -> Table:
    """Build a table with a row per objective; of those with the baseline's loss, only the
    baseline.
    """
    rows = compared_rows(gathered)
    rows = rows[rows["dataset"] == gathered.dataset]
    reached = means(gathered.primary.rows_of(rows)).set_index("objective", drop=False)
    found = gains(gathered)
    elsewhere: dict[str, dict[Measurement | None, Any]] = {
        name: {Measurement.of(each): each for each in in_other_families(rows, gain)}
        for name, gain in found.items()
    }
    other = next((each for measured in elsewhere.values() for each in measured), None)
    seconds = _seconds(gathered)
    names = [gathered.baseline, *(name for name in gathered.study.objectives if name in found)]
    names = [name for name in names if name in reached.index]
    names.sort(key=lambda name: name != gathered.study.first_baseline)
    lines = []
    values = []
    for name in names:
        mean: Any = reached.loc[name].to_dict()
        gain = found.get(name)
        beside = elsewhere.get(name, {}).get(other)
        cost = seconds.get(name)
        outcome = "" if gain is None else gain["outcome"]
        cells = [
            Cell(outcome, runs="" if gain is None else runs_of_difference(gain)),
            mean_cell(mean),
            _gain_cell(gain),
            *([] if other is None else [_gain_cell(beside)]),
            Cell("–" if cost is None else f"{cost:.3g}", runs=mean["runs"]),
            Cell(gathered.study.labels_used(name)),
        ]
        lines.append(("", name, cells))
        differences = _prefixed("gain", gain) | _prefixed("elsewhere", beside)
        values.append({**mean, **differences, "seconds": cost})
    return Table(DataFrame(values), _heads(gathered, other), lines, _notes(gathered), "method")


def _heads(gathered: Gathered, other: Measurement | None) -> list[Head]:
    primary = gathered.primary
    gain = f"− {gathered.baseline}"
    heads = [
        ("", "outcome"),
        (measured_name(primary), with_unit("mean", unit(primary.metric))),
        (measured_name(primary), with_unit(gain, unit(primary.metric, difference=True))),
    ]
    if other is not None:
        shown = with_unit(gain, unit(other.metric, difference=True))
        heads.append((name_beside(other, primary), shown))
    return [*heads, ("", COST), ("", LABELS)]


def _notes(gathered: Gathered) -> list[str]:
    return [
        f"{gathered.dataset}, test split. Gains: {gathered.paired_intervals}, not corrected; of the"
        f" other measurement, {PAIRED_INTERVAL}. Outcomes are corrected (Holm), and exploratory"
        " unless the study names the comparison.",
        *gathered.label_notes,
        *gathered.data_notes,
    ]


def _seconds(gathered: Gathered) -> Mapping[str, float]:
    """Return the mean time to train a compared run of each objective."""
    runs = records.read_json(gathered.folder / RUNS, list[records.RunRecord])
    table = DataFrame(
        [(run["id"], run["objective"], run["seconds"]) for run in runs],
        columns=["run", "objective", "seconds"],
    )
    compared = table[table["run"].isin(gathered.rows["run"])]
    seconds: Any = compared.groupby("objective")["seconds"].mean().to_dict()
    return seconds


def _prefixed(prefix: str, row: Any) -> dict[str, Any]:
    """Return a paired difference with longer names for the CSV; nothing if there is none."""
    return {f"{prefix}: {name}": value for name, value in (row or {}).items()}


def _gain_cell(row: Any) -> Cell:
    """Return the cell of a paired difference with its interval; empty if there is none."""
    if row is None:
        return Cell("")
    metric = row["metric"]
    text = format_metric(row["difference"], metric, signed=True)
    return Cell(f"{text} {interval(row['low'], row['high'], metric)}", runs=runs_of_difference(row))
