"""Overview of a study's paired differences."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from trueneg.report.gathered import Gathered
from trueneg.report.labels import with_unit
from trueneg.report.metrics import evaluation_name, metric_name, scale, unit
from trueneg.report.page.provenance import Provenance
from trueneg.report.tables.building import difference_text, objective_name, p_text, records, runs_of_difference

ENDS = ["difference low", "difference", "difference high"]
LEFT, WIDTH = 6, 88  # left edge and width of the axis, in percent of the drawing's width


def glance(values: pd.DataFrame, gathered: Gathered, provenance: Provenance) -> list[dict[str, Any]]:
    """Lay out one forest plot of the primary measurement's differences per data set, the primary contrast's data set first.

    Args:
        values: table from :func:`trueneg.report.tables.comparisons.compare_study`.
        gathered: artefacts of the study, which give the primary contrast and the headroom of each data set.
        provenance: registry to which the provenance of these numbers is added.

    Returns:
        For each data set, ``dataset``, ``headroom`` (a sentence), ``measure``, ``head`` (with the unit), ``ticks`` (position,
        text), ``zero`` (position), ``has_margin`` and ``lines``. Each line has ``objective``, ``role`` (primary, oracle or
        empty), ``text``, ``pairs``, ``p``, ``equivalence`` (its p value), ``outcome``, ``places`` (positions of the low end, the
        difference and the high end; without an interval, the ends are NaN) and ``origin``. Positions are in percent of the
        drawing's width.
    """
    primary, measured, baseline = gathered.study.primary, gathered.primary, gathered.baseline
    roles = {primary.treatment: "primary", primary.oracle: "oracle"}
    headroom = {entry["dataset"]: entry["sentence"] for entry in gathered.comparison["headroom"]}
    chosen = measured.rows_of(values).dropna(subset="difference")
    groups = []
    for dataset in sorted(chosen["dataset"].unique(), key=gathered.dataset.__ne__):
        rows = chosen[chosen["dataset"] == dataset]
        reach = rows[ENDS].to_numpy(float) * scale(measured.metric)
        ticks = MaxNLocator(4).tick_values(min(0.0, np.nanmin(reach)), max(0.0, np.nanmax(reach)))
        places = LEFT + WIDTH * (np.vstack([reach, np.zeros(3)]) - ticks[0]) / np.ptp(ticks)
        lines = [
            {
                "objective": objective_name(row, gathered.names),
                "role": roles.get(row["objective"], ""),
                "text": difference_text(row),
                "pairs": int(row["pairs"]),
                "p": p_text(row["p Holm"]),
                "equivalence": p_text(row["p equivalence"]),
                "outcome": row["outcome"],
                "places": line.round(2).tolist(),
                "origin": provenance.of_runs(runs_of_difference(row).split()),
            }
            for row, line in zip(records(rows), places[:-1], strict=True)
        ]
        texts = [f"{tick:+.6g}".replace("-", "−").replace("+0", "0") for tick in ticks]
        group = {
            "dataset": dataset,
            "headroom": headroom[dataset],
            "has_margin": bool(rows["margin"].notna().any()),
            "measure": f"{metric_name(measured)}, {evaluation_name(measured)}",
            "head": with_unit(f"− {baseline}", unit(measured.metric, difference=True)),
            "ticks": list(zip(np.linspace(LEFT, LEFT + WIDTH, len(ticks)).round(2).tolist(), texts, strict=True)),
            "zero": places[-1, 0].round(2),
            "lines": lines,
        }
        groups.append(group)
    return groups
