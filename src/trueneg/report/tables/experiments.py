"""Tables of the theory experiments."""

import math

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.formats import Cell, Table, from_frame, grouped
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import minus

ORDER = 10
drawings = ExperimentDrawings()


@drawings.add("BCL's estimators, measured again", "Earlier numbers, compared with new ones.")
def protocol_numbers(gathered: Gathered) -> Table:
    """Compare each earlier number with its new measurement, with both standard errors."""
    frame, lines = gathered.experiment("protocol_numbers"), []
    for _, row in frame.iterrows():
        measured, error = f"{row['value']:.3g} ± {row['standard error']:.1g}", row["earlier error"]
        earlier = _interval(row["earlier low"], row["earlier high"])
        texts = (measured, earlier, f"{error:.1g}" if error else "–", "yes" if row["agrees"] else "no")
        name = f"{row['estimator']}: {row['quantity']}; {row['setting']}"
        lines.append(("", name, [Cell(minus(text)) for text in texts]))
    columns = [("", name) for name in ("measured ± standard error", "earlier", "its standard error", "agrees")]
    notes = [
        "Errors against the mean of the drawn true negatives, in the printed setting of BCL unless stated otherwise. The earlier "
        "numbers were rounded and come from 1,000 anchors, so they have a standard error too.",
        "Agrees: within two standard errors of the difference; an ordering agrees if it holds by more than two of them.",
    ]
    return Table(frame, columns, grouped(lines), notes, corner="number")


@drawings.add("Proposition 3.1", "Densities integrate to 1 and are never negative.")
def normalisation(gathered: Gathered) -> Table:
    """Tabulate the integrals and minimum values of the densities (Proposition 3.1)."""
    return from_frame(gathered.experiment("normalisation"))


@drawings.add("Where Proposition 1 is informative", "With ten classes and one positive: nowhere.")
def informative_sizes(gathered: Gathered) -> Table:
    """Tabulate the smallest number of negatives for which Proposition 1 is tighter than the trivial bound."""
    frame, lines = gathered.experiment("informative_sizes"), []
    objectives = frame["objective"].unique()
    for (positives, imbalance, temperature), part in frame.groupby(["positives", "imbalance", "temperature"], sort=False):
        sizes = part.set_index("objective")["value"]
        name = f"r = {imbalance:g}, t = {temperature:g}"
        lines.append((f"Positives: {positives}", name, [Cell(_size(sizes[objective])) for objective in objectives]))
    notes = ["The smallest number of negatives at which the bound lies below the trivial one; –: no number is sufficient."]
    return Table(frame, [("", name) for name in objectives], grouped(lines), notes, corner="classes and temperature")


def _interval(low: float, high: float) -> str:
    if math.isinf(high):
        return f"above {low:g}"
    return f"below {high:g}" if math.isinf(low) else f"{low:.3g} to {high:.3g}"


def _size(value: float) -> str:
    if math.isinf(value):
        return "–"
    return f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"
