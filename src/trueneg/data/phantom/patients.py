"""Variation between the phantom's patients and between the exposures of their films.

The ranges (``patients.csv``; lengths in image widths) overlap with the effects of findings: a
healthy heart may be larger than another patient's slightly enlarged heart, shallow breathing crowds
the vessels as mild edema does, and a high diaphragm looks like fluid. Therefore no single pixel
reveals a finding.
"""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

RANGES = pd.read_csv(Path(__file__).with_suffix(".csv"), index_col="name")


class Patient(SimpleNamespace):
    """A random patient on one film: one number per row of :data:`RANGES`, drawn uniformly from its
    range.
    """

    def __init__(self, generator: np.random.Generator):
        ranges = zip(RANGES.index, RANGES["low"], RANGES["high"], strict=True)
        super().__init__(**{name: generator.uniform(low, high) for name, low, high in ranges})
