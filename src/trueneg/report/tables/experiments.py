"""Tables of the theory experiments."""

import math
from typing import Any

from trueneg.config.theory_study import TheoryStudy
from trueneg.report.declared import Drawing, of_experiment
from trueneg.report.formats import Cell, Group, Table, from_frame
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import minus
from trueneg.specs.settings import Study

ORDER = 10


def drawings(study: Study) -> list[Drawing]:
    """Declare the tables of a theory study."""
    if not isinstance(study, TheoryStudy):
        return []
    return [
        of_experiment(protocol_numbers, "BCL's estimators, measured again", "Earlier numbers beside new ones."),
        of_experiment(normalisation, "Proposition 3.1", "Densities integrate to 1 and are nowhere negative."),
        of_experiment(informative_sizes, "Where Proposition 1 says something", "With ten classes and one positive: nowhere."),
    ]


def protocol_numbers(gathered: Gathered) -> Table:
    """Compare each earlier number with its new measurement, with both standard errors."""
    frame = gathered.experiment("protocol_numbers")
    rows: list[Any] = frame.to_dict("records")
    lines = []
    for row in rows:
        measured, error = f"{row['value']:.3g} ± {row['standard error']:.1g}", row["earlier error"]
        earlier = _interval(row["earlier low"], row["earlier high"])
        texts = (measured, earlier, f"{error:.1g}" if error else "–", "yes" if row["agrees"] else "no")
        lines.append((f"{row['estimator']}: {row['quantity']}; {row['setting']}", [Cell(minus(text)) for text in texts]))
    columns = ("measured ± standard error", "earlier", "its standard error", "agrees")
    notes = [
        "Against the mean of the drawn true negatives, in the BCL paper's setting but for what is named. The earlier numbers "
        "were rounded and come from 1,000 anchors, so they have a standard error too.",
        "Agrees: within two standard errors of the difference; an order holds by more than two.",
    ]
    return Table(frame, [("", name) for name in columns], [Group("", lines)], notes, corner="number")


def informative_sizes(gathered: Gathered) -> Table:
    """Tabulate the number of negatives from which Proposition 1 is tighter than the trivial bound."""
    frame = gathered.experiment("informative_sizes")
    objectives = list(dict.fromkeys(frame["objective"]))
    groups = []
    for positives, of_count in frame.groupby("positives", sort=False):
        lines = []
        for (imbalance, temperature), part in of_count.groupby(["imbalance", "temperature"], sort=False):
            sizes = part.set_index("objective")["value"]
            lines.append((f"r = {imbalance:g}, t = {temperature:g}", [Cell(_size(sizes[name])) for name in objectives]))
        groups.append(Group(f"Positives: {positives}", lines))
    notes = ["The smallest number of negatives at which the bound lies below the trivial one; –: no number is enough."]
    return Table(frame, [("", name) for name in objectives], groups, notes, corner="classes and temperature")


def normalisation(gathered: Gathered) -> Table:
    """Tabulate the integrals and minimum values of the densities (Proposition 3.1)."""
    return from_frame(gathered.experiment("normalisation"))


def _interval(low: float, high: float) -> str:
    if math.isinf(high):
        return f"above {low:g}"
    if math.isinf(low):
        return f"below {high:g}"
    return f"{low:.3g} to {high:.3g}"


def _size(value: float) -> str:
    if math.isinf(value):
        return "–"
    return f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"
