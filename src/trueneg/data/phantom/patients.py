"""What differs between the phantom's patients, and between the exposures of their films.

The ranges (``patients.csv``; lengths in widths of the image) overlap with what findings do: a healthy heart may be larger than
another's slightly enlarged one, a shallow breath crowds the vessels as a mild edema does, and a high diaphragm looks like fluid.
So no single pixel tells a finding.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

RANGES = pd.read_csv(Path(__file__).with_suffix(".csv"), index_col="name")


class Patient(SimpleNamespace):
    """One patient on one film: a number for each row of :data:`RANGES`."""


def draw_patient(generator: np.random.Generator) -> Patient:
    """A patient at random, each number uniform in its range."""
    ranges = zip(RANGES.index, RANGES["low"], RANGES["high"], strict=True)
    return Patient(**{name: generator.uniform(low, high) for name, low, high in ranges})
