"""Table of the errors of class probabilities, with the gains of the objectives that use them."""

import dataclasses

import pandas as pd

from trueneg.report.declared import Drawing
from trueneg.report.figures import eta_quality
from trueneg.report.formats import Table, from_frame
from trueneg.report.gathered import Gathered
from trueneg.report.labels import INTERVAL, PAIRED_INTERVAL, measurement_name
from trueneg.report.metrics import scale
from trueneg.specs.kinds.trained import TrainedStudy

ORDER = 25
KIND = TrainedStudy
ERROR = (
    "Error: E|1/(1 − η) − 1/(1 − ρ)| over training sentences whose class is known; the baseline"
    " counts as η = 0."
)
NOTE = (
    f"{ERROR} Gain over the baseline: {PAIRED_INTERVAL}, not corrected, exploratory. Slope: fitted"
    f" in each seed, {INTERVAL}."
)
FRACTIONS = "Gains and slopes are fractions: 0.01 is one point."


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the table of every study that has the figure."""
    return [dataclasses.replace(figure, make=draw) for figure in eta_quality.drawings(study)]


def draw(gathered: Gathered) -> Table:
    """Build a table with one line per class probability, from the smallest error to the largest,
    and one for the trend.
    """
    gains, trend = eta_quality.gains_by_error(gathered)
    values = pd.concat(
        [
            gains.sort_values("error of η"),
            trend.assign(objective="slope on the error: " + trend["objective"]),
        ]
    )
    columns = ["objective", *eta_quality.QUANTITIES, "seeds", "shown", "low", "high"]
    table = from_frame(values[columns].rename(columns={"shown": "gain"}))
    return dataclasses.replace(
        table,
        notes=[
            f"{measurement_name(gathered.primary, gathered.dataset)}. {NOTE}",
            *([FRACTIONS] if scale(gathered.primary.metric) != 1 else []),
            *gathered.table_notes,
        ],
    )
