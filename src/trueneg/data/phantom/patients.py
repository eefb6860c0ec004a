"""What differs between the phantom's patients, and between the exposures of their films.

The ranges overlap with what findings do: a healthy heart may be larger than another's slightly enlarged one, a shallow breath
crowds the vessels as a mild edema does, and a high diaphragm looks like fluid. So no single pixel tells a finding.
"""

import dataclasses
from dataclasses import dataclass, field

import numpy as np


def between(low: float, high: float) -> float:
    """A field of :class:`Patient` that is uniform in a range."""
    return field(metadata={"range": (low, high)})


@dataclass(frozen=True)
class Patient:
    """What differs between patients, and between the exposures of their films; each is uniform in its range."""

    shift_across: float = between(-0.05, 0.05)
    shift_down: float = between(-0.05, 0.05)
    rotation: float = between(-0.10, 0.10)  # radians
    size: float = between(0.96, 1.18)
    breadth: float = between(0.92, 1.06)
    apex: float = between(0.43, 0.50)  # height of the lungs above their broadest place
    dome: float = between(0.16, 0.25)  # the right diaphragm's top: how deep the breath was
    dome_difference: float = between(-0.03, 0.055)  # the left one's, below it
    angle: float = between(0.06, 0.13)  # depth of the costophrenic angle below the dome
    heart: float = between(0.84, 1.14)
    heart_lean: float = between(0.35, 0.75)  # radians
    mediastinum: float = between(0.045, 0.070)  # half its width
    knob: float = between(0.026, 0.042)  # radius of the aortic knob
    ribs: float = between(8.0, 11.0)  # how many are seen; the fraction cuts the last short
    rib_spacing: float = between(0.058, 0.070)
    rib_start: float = between(-0.38, -0.33)
    rib_width: float = between(0.008, 0.012)  # half
    rib_slope: float = between(0.6, 1.2)
    rib_density: float = between(0.06, 0.13)
    clavicle: float = between(-0.31, -0.25)
    clavicle_slope: float = between(-0.28, 0.0)
    spine: float = between(0.02, 0.09)
    breasts: float = between(-0.06, 0.14)  # density; below 0: none
    gas: float = between(-0.10, 0.16)  # in the stomach; below 0: none
    aeration: float = between(0.50, 0.62)  # attenuation that the lungs' air takes away
    vessels: float = between(0.07, 0.13)
    crowding: float = between(0.0, 0.32)  # share of the air about the hila that a healthy, shallow breath leaves out
    dependent: float = between(0.0, 0.65)  # the same above the diaphragm
    mottle: float = between(0.010, 0.030)
    shade: float = between(0.010, 0.035)
    sharpness: float = between(0.003, 0.008)  # width of every edge: the film's blur
    exposure: float = between(-0.09, 0.09)
    uneven_across: float = between(-0.16, 0.16)  # exposure, over the width of the image
    uneven_down: float = between(-0.16, 0.16)
    gain: float = between(0.85, 1.15)
    grain: float = between(3.0, 8.0)  # standard deviation, of 255


def draw_patient(generator: np.random.Generator) -> Patient:
    """A patient at random."""
    return Patient(**{one.name: generator.uniform(*one.metadata["range"]) for one in dataclasses.fields(Patient)})
