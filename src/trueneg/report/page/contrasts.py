"""Paired differences of a study at a glance, and its measurements for a comparison with another study."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from scipy import stats

from trueneg.report.labels import with_unit
from trueneg.report.metrics import evaluation_name, metric_name, scale, unit, written
from trueneg.report.page.artefacts import Artefacts
from trueneg.report.page.origins import Origins
from trueneg.report.tables import difference_text, p_text, runs_of_difference
from trueneg.stats.measurement import KEYS, Measurement

NAMES = ["dataset", *KEYS, "objective"]
COMPARED = {"seeds", "mean", "low", "high", "difference", "difference low", "difference high", "p Holm", "runs", "baseline runs"}
DEGREES_AT_MOST = 200
WIDTH, MARGIN = 260, 18  # of an interval's drawing, in pixels


def compared_values(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The numbers of all tables that compare objectives with the baseline; what several tables show, once.

    A table that also holds what is no objective's (people's ratings of pairs) has no metric there, and intervals of another
    kind: it is left out.
    """
    parts = [
        values
        for values in tables
        if {*COMPARED, *NAMES} <= set(values) and "baseline" not in values and values["metric"].notna().all()
    ]
    if not parts:
        return pd.DataFrame(columns=[*NAMES, *sorted(COMPARED)])
    return pd.concat(parts, ignore_index=True).drop_duplicates(NAMES, ignore_index=True)


def glance(values: pd.DataFrame, artefacts: Artefacts, origins: Origins) -> list[dict[str, Any]]:
    """The primary measurement's differences, a group a data set: the first thing that the page shows of a study.

    Args:
        values: from :func:`compared_values`.
        artefacts: of the study: what is primary, and whether each data set can tell.
        origins: gets the origins of these numbers.

    Returns:
        Groups with ``title``, ``verdict``, ``passed``, ``head`` (with the unit), ``ticks`` (place, text), ``zero``
        (place) and ``lines``: ``objective``, ``role`` (primary, oracle or none), ``text``, ``pairs``, ``p``, ``left``,
        ``right``, ``centre``, ``origin``. Places are pixels in a drawing of :data:`WIDTH`.
    """
    primary = artefacts.comparison.get("primary", {})
    if not primary:
        return []
    chosen = Measurement.of(primary).rows_of(values)
    chosen = chosen[chosen["difference"].notna() & chosen["difference low"].notna()]
    gates = {one["dataset"]: one for one in artefacts.comparison.get("gate", ())}
    # The primary data set leads.
    order = sorted(dict.fromkeys(chosen["dataset"]), key=lambda name: name != primary["dataset"])
    return [_group(name, chosen[chosen["dataset"] == name], artefacts, gates.get(name, {}), origins) for name in order]


def _group(dataset: str, lines: pd.DataFrame, artefacts: Artefacts, gate: Mapping[str, Any], origins: Origins) -> dict[str, Any]:
    primary = artefacts.comparison["primary"]
    measured, baseline = Measurement.of(primary), primary["baseline"]
    metric = measured.metric
    low, high = min(0.0, lines["difference low"].min()), max(0.0, lines["difference high"].max())
    ticks = MaxNLocator(4).tick_values(low * scale(metric), high * scale(metric))
    span = ticks[-1] - ticks[0]

    def place(value: float) -> float:
        return round(MARGIN + (WIDTH - 2 * MARGIN) * (value * scale(metric) - ticks[0]) / span, 1)

    roles = {primary["objective"]: "primary", artefacts.settings["primary"].get("oracle"): "oracle"}
    return {
        "title": dataset,
        "verdict": gate.get("verdict", ""),
        "passed": bool(gate.get("passed", True)),
        "head": with_unit(f"− {baseline}", unit(metric, difference=True)),
        "measure": f"{metric_name(measured)}, {evaluation_name(measured)}",
        "ticks": [(place(tick / scale(metric)), f"{tick:+.6g}".replace("-", "−").replace("+0", "0")) for tick in ticks],
        "zero": place(0.0),
        "lines": [
            {
                "objective": row["objective"],
                "role": roles.get(row["objective"], ""),
                "text": difference_text(row, baseline, starred=bool(gate.get("passed", True))),
                "pairs": int(row["seeds"]),
                "p": p_text(row["p Holm"]),
                "left": place(row["difference low"]),
                "right": place(row["difference high"]),
                "centre": place(row["difference"]),
                "origin": origins.of_runs(runs_of_difference(row)),
            }
            for _, row in lines.iterrows()
        ],
    }


def measurements(values: pd.DataFrame, baseline: str) -> dict[str, Any]:
    """All compared numbers as the page holds them, to set one study beside another.

    Returns:
        ``baseline``; ``metrics``: for each, ``scale``, ``unit`` of a difference; ``rows``: data set, what was measured, metric,
        objective, mean and difference as text, and seeds, mean and half of its interval in the metric's own unit.
    """
    rows = []
    for _, row in values.iterrows():
        measured, metric, half = Measurement.of(row), row["metric"], row["high"] - row["mean"]
        what = f"{evaluation_name(measured)}, {metric_name(measured)}"
        mean = f"{written(row['mean'], metric)} ± {written(half, metric)}"
        difference = "" if pd.isna(row["difference"]) else difference_text(row, baseline, starred=False)
        numbers = [int(row["seeds"]), *(None if pd.isna(value) else float(f"{value:.7g}") for value in (row["mean"], half))]
        rows.append([row["dataset"], what, metric, row["objective"], mean, difference, *numbers])
    shown = {
        metric: {"scale": scale(metric), "unit": unit(metric, difference=True)} for metric in dict.fromkeys(values["metric"])
    }
    return {"baseline": baseline, "metrics": shown, "rows": rows}


def t_quantiles() -> list[float]:
    """The 97.5 % quantiles of Student's t with 1, 2, … degrees of freedom."""
    return np.round(stats.t.ppf(0.975, np.arange(1, DEGREES_AT_MOST + 1)), 5).tolist()


def ordered(tables: Sequence[tuple[str, str, Any]]) -> list[tuple[str, str, Any]]:
    """Tables of paired differences first, then those beside printed numbers, then the others, each in the given order."""

    def turn(entry: tuple[str, str, Any]) -> int:
        values = entry[2].values
        if "difference" in values and values["difference"].notna().all():
            return 0
        return 1 if "published" in values else 2

    return sorted(tables, key=turn)
