"""Paired differences of a study at a glance, and its measurements for a comparison with another study."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from trueneg.report.gathered import Gathered
from trueneg.report.labels import with_unit
from trueneg.report.metrics import evaluation_name, metric_name, scale, unit, written
from trueneg.report.page.provenance import Provenance
from trueneg.report.tables.building import difference_text, p_text, runs_of_difference
from trueneg.stats.measurement import KEYS, Measurement

NAMES = ["dataset", *KEYS, "objective"]
ENDS = ["difference low", "difference", "difference high"]
COMPARED = [*NAMES, "seeds", "mean", "low", "high", *ENDS, "p Holm", "runs", "baseline runs"]
LEFT, WIDTH = 6, 88  # of the axis, in per cent of the drawing


def compared_values(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """The numbers of all tables that compare objectives with the baseline; what several tables show, once.

    A table that also holds what is no objective's (people's ratings of pairs) has no metric there, and is left out.
    """
    parts = [one for one in tables if {*COMPARED} <= {*one} and "baseline" not in one and one["metric"].notna().all()]
    return pd.concat(parts, ignore_index=True).drop_duplicates(NAMES, ignore_index=True)


def glance(values: pd.DataFrame, gathered: Gathered, provenance: Provenance) -> list[dict[str, Any]]:
    """The primary measurement's differences as a forest plot for each data set, that of the primary contrast first.

    Args:
        values: from :func:`compared_values`.
        gathered: the study: what is primary, and whether each data set can tell.
        provenance: gets that of these numbers.

    Returns:
        For each data set ``dataset``, ``verdict``, ``passed``, ``measure``, ``head`` (with the unit), ``ticks`` (place, text),
        ``zero`` (place) and ``lines``: ``objective``, ``role`` (primary, oracle or none), ``text``, ``pairs``, ``p``, ``places``
        (of low end, difference and high end) and ``origin``. Places are in per cent of the drawing's width.
    """
    primary, measured, baseline = gathered.study.primary, gathered.primary, gathered.baseline
    roles = {primary.treatment: "primary", primary.oracle: "oracle"}
    gates = {gate["dataset"]: gate for gate in gathered.comparison["gate"]}
    chosen = measured.rows_of(values).dropna(subset=ENDS)
    order = sorted(dict.fromkeys(chosen["dataset"]), key=gathered.dataset.__ne__)
    groups = []
    for dataset in order:
        rows, gate = chosen[chosen["dataset"] == dataset], gates[dataset]
        passed, reach = bool(gate["passed"]), rows[ENDS].to_numpy(float) * scale(measured.metric)
        ticks = MaxNLocator(4).tick_values(min(0.0, reach.min()), max(0.0, reach.max()))
        places = LEFT + WIDTH * (np.vstack([reach, np.zeros(3)]) - ticks[0]) / np.ptp(ticks)
        lines = [
            {
                "objective": row["objective"],
                "role": roles.get(row["objective"], ""),
                "text": difference_text(row, baseline, starred=passed),
                "pairs": int(row["seeds"]),
                "p": p_text(row["p Holm"]),
                "places": line.round(2).tolist(),
                "origin": provenance.of_runs(runs_of_difference(row).split()),
            }
            for (_, row), line in zip(rows.iterrows(), places[:-1], strict=True)
        ]
        texts = [f"{tick:+.6g}".replace("-", "−").replace("+0", "0") for tick in ticks]
        group = {
            "dataset": dataset,
            "verdict": gate["verdict"],
            "passed": passed,
            "measure": f"{metric_name(measured)}, {evaluation_name(measured)}",
            "head": with_unit(f"− {baseline}", unit(measured.metric, difference=True)),
            "ticks": list(zip(np.linspace(LEFT, LEFT + WIDTH, len(ticks)).round(2).tolist(), texts, strict=True)),
            "zero": places[-1, 0].round(2),
            "lines": lines,
        }
        groups.append(group)
    return groups


def measurements(values: pd.DataFrame, baseline: str) -> list[dict[str, Any]]:
    """All compared numbers as the page's script reads them, to set one study beside another.

    Returns:
        For each what was ``measured``, the ``objective``, ``mean`` and ``difference`` as text, the ``unit`` of a difference,
        ``seeds``, and ``value`` and ``half`` of its interval in that unit (None if unknown).
    """
    found = []
    rows: list[Any] = values.to_dict("records")
    for row in rows:
        measured, metric = Measurement.of(row), row["metric"]
        numbers = [row["mean"], row["high"] - row["mean"]]
        value, half = (None if pd.isna(number) else float(f"{number * scale(metric):.7g}") for number in numbers)
        one = {
            "measured": f"{row['dataset']}; {evaluation_name(measured)}, {metric_name(measured)}",
            "objective": row["objective"],
            "mean": " ± ".join(written(number, metric) for number in numbers),
            "difference": "" if pd.isna(row["difference"]) else difference_text(row, baseline, starred=False),
            "unit": unit(metric, difference=True),
            "seeds": int(row["seeds"]),
            "value": value,
            "half": half,
        }
        found.append(one)
    return found
