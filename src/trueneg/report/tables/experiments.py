"""Tables of the theory experiments."""

import math

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.formats import Cell, Table, from_frame, grouped
from trueneg.report.gathered import Gathered

ORDER = 10
drawings = ExperimentDrawings()


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


def _size(value: float) -> str:
    if math.isinf(value):
        return "–"
    return f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"
