"""Entries of the simulations of the theory."""

import functools
from collections.abc import Iterator
from typing import Any

from tests.golden.golden import Entry
from tests.golden.numerics import frame_summary
from tests.theory.sweeps import SWEEPS
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.experiments import SWEEPS as SWEEPS_OF_ERRORS
from trueneg.theory.experiments import run

SMALL = SWEEPS | {"anchors": 40, "long_negative_counts": [64]}
REPETITIONS = {"repetitions": 2}
OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(SWEEPS_OF_ERRORS, REPETITIONS),
    **dict.fromkeys(("errors_by_assumed_alpha", "approximation_errors"), REPETITIONS),
    **{
        name: {"density_draws": 2000}
        for name in ("class_conditional_densities", "observation_densities")
    },
}


def entries() -> Iterator[tuple[str, Entry]]:
    """Every experiment, in miniature."""
    for name in EXPERIMENTS:
        yield f"simulation: {name}", Entry(("simulation",), functools.partial(_experiment, name))


def _experiment(name: str) -> dict[str, Any]:
    return frame_summary(run(name, SMALL, **OWN.get(name, {})))
