"""Training curves and monitors of a study's runs, thinned so that thousands of runs fit into one page."""

from typing import Any

import numpy as np

from trueneg.report.page.artefacts import Artefacts

NUMBERS_AT_MOST = 600_000  # of a study: about 4 MB of text
FEWEST_POINTS, MOST_POINTS = 20, 200  # of a curve


def curves_of(artefacts: Artefacts) -> dict[str, Any]:
    """The curves of a study's runs, in the order of its records.

    Long curves are thinned to evenly spaced epochs, the first and the last among them; no value is a mean of others.

    Args:
        artefacts: of the study.

    Returns:
        ``monitors`` (names), ``epochs`` (lists of epochs that runs share) and ``runs``: for each record None, or a place in
        ``epochs`` followed by a list of values for each monitor (None where the run does not have it), four digits each.
    """
    curves, keys = artefacts.curves, [one["id"] for one in artefacts.records]
    if curves.empty or not keys:
        return {"monitors": [], "epochs": [], "runs": []}
    numbers = curves.select_dtypes("number").drop(columns=["seed", "epoch"])
    monitors = [name for name in numbers if numbers[name].notna().any()]
    points = int(np.clip(NUMBERS_AT_MOST // (len(keys) * max(1, len(monitors))), FEWEST_POINTS, MOST_POINTS))
    ordered = curves.sort_values("epoch", kind="stable", ignore_index=True)
    of_run = ordered.groupby("run", sort=False).indices
    epoch, measured = ordered["epoch"].to_numpy(), ordered[monitors].to_numpy(float)
    places: dict[tuple[int, ...], int] = {}
    found: list[list[Any] | None] = []
    for key in keys:
        lines = of_run.get(key)
        if lines is None:
            found.append(None)
            continue
        kept = lines[np.unique(np.linspace(0, len(lines) - 1, points).round().astype(int))]
        place = places.setdefault(tuple(epoch[kept].tolist()), len(places))
        found.append([place, *map(_values, measured[kept].T)])
    epochs = [list(shared) for shared in places]
    return {"monitors": monitors, "epochs": epochs, "runs": found}


def _values(measured: np.ndarray) -> list[float | None] | None:
    if np.isnan(measured).all():
        return None
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in measured.tolist()]
