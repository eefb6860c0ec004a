"""Tables of the theory experiments."""

from trueneg.report.declared import ExperimentDrawings
from trueneg.report.formats import Table, from_frame
from trueneg.report.gathered import Gathered

ORDER = 10
drawings = ExperimentDrawings()


@drawings.add("Proposition 3.1", "Densities integrate to 1 and are never negative.")
def normalisation(gathered: Gathered) -> Table:
    """Tabulate the integrals and minimum values of the densities (Proposition 3.1)."""
    return from_frame(gathered.experiment("normalisation"))
