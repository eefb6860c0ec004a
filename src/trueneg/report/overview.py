"""One figure for several studies: what knowing the false negatives gains, the best method that
treats negatives without labels, and a control; over the baseline at the same temperature where it
was measured.
"""

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pandas import DataFrame

from trueneg.config.equal_temperature import with_loss_of_baseline
from trueneg.errors import UserError
from trueneg.report.drawing import Figure, add_legend, dots, finish, in_style, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import seed_count
from trueneg.report.methods import at_equal_temperature, best_of, least_gain, outcomes
from trueneg.report.metrics import full_name
from trueneg.report.plots import forest

LINE = 46  # characters of a title's line
# the axis is linear from -1 to 1, and logarithmic beyond
TICKS = (-10, -3, -1, -0.5, 0, 0.5, 1, 3, 10)
KNOWING = "Oracle"
METHOD = "best method that treats negatives without labels"
CONTROL = "random removal"
# of the csv file
COLUMNS = [
    "id",
    "title",
    "measured",
    "kind",
    "objective",
    "of",
    "baseline",
    "seeds",
    "difference",
    "low",
    "high",
]


def differences(gathered: Gathered) -> list[dict[str, Any]]:
    """Compare the oracle, the best method that treats negatives without labels and random removal
    with the baseline of a trained study. Of the first two, the smaller gain counts where the
    baseline at their temperature was measured; random removal, a control of the latter, is then
    compared with it.

    The best method is cross-fitted (:func:`trueneg.stats.candidates.cross_fitted`). Objectives with
    the baseline's loss, at any temperature, do not count.

    Returns:
        Rows of :func:`trueneg.stats.comparison.paired_differences` for the primary measurement,
            with ``kind``, ``study`` (a line of text), ``of`` (the number of methods) and ``at``
            (the temperature of the baseline); gains are positive.
    """
    study, primary = gathered.study, gathered.study.primary
    kinds: dict[str, Any] = {}
    same_loss = with_loss_of_baseline(study)
    methods = [
        name
        for name in outcomes(gathered)
        if name not in same_loss and not study.objectives[name].uses_labels
    ]
    if methods and (best := best_of(gathered, methods)) is not None:
        kinds[METHOD] = best
    controls = [name for name in gathered.oracles if study.objectives[name].shuffled]
    if controls:
        kinds[CONTROL] = at_equal_temperature(gathered, controls[0])
    if primary.oracle is not None:
        kinds[KNOWING] = least_gain(gathered, primary.oracle)
    tuned = "tuned" if study.tuning is not None else "fixed settings"
    measured = full_name(gathered.primary)
    line = f"{textwrap.fill(study.title, LINE)}\n{measured}; {tuned}, "
    return [
        {
            **row,
            "id": gathered.folder.parent.name,
            "measured": measured,
            "kind": kind,
            "study": line + seed_count([int(row["seeds"])]),
            "title": study.title,
            "of": len(methods),
        }
        for kind, row in kinds.items()
    ]


@in_style()
def overview(folders: Iterable[Path]) -> tuple[Figure, DataFrame]:
    """Draw a row per study, sorted by the oracle's gain; also return the drawn values.

    Args:
        folders: ``results/<study>/artefacts`` of trained studies.

    Raises:
        UserError: if there is nothing to draw.
    """
    table = DataFrame([row for folder in folders for row in differences(Gathered(folder))])
    if table.empty:
        raise UserError(
            "The configuration has no trained study with an Oracle or a method; expected at least"
            " one for the overview."
        )
    known = table[table["kind"] == KNOWING].set_index("id")["difference"]
    table = table.assign(known=table["id"].map(known))
    table = table.sort_values("known", ascending=False, kind="stable")
    is_repeated = table.groupby("study")["id"].transform("nunique") > 1
    table["study"] += (" (" + table["id"] + ")").where(is_repeated, "")
    names = list(dict.fromkeys(table["study"]))
    styles = line_styles((KNOWING, METHOD, CONTROL))
    figure, [[plot]] = panels(width=8.2, height=1.6 + 0.6 * len(names))
    plot.axvline(0, color="0.1", linewidth=1)
    forest(plot, table, styles, "kind", names, row="study", y="difference", factor=100, apart=7)
    plot.set_xscale("symlog", linthresh=1)
    plot.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
    plot.set_xlabel("Gain over the baseline (points or hundredths)")
    add_legend(figure, dots(styles))
    wider = table[table["clusters"].notna()] if "clusters" in table else table.iloc[:0]
    over = f"Also over test samples: {'; '.join(wider['title'] + ': ' + wider['objective'])}."
    best = table[table["kind"] == METHOD]
    listed = best["title"] + ": " + best["objective"] + " of " + best["of"].astype(str)
    return finish(
        figure,
        "Primary measurement of each study; an AUC in hundredths. Bars: paired 95 % t"
        " intervals over seeds, not corrected. Where the baseline at a method's temperature was"
        " measured, the smaller of both gains, and random removal over it; best methods are chosen"
        " on one half of the seeds and measured on the other.",
        *([over] if len(wider) else []),
        f"Best methods: {'; '.join(listed)}.",
    ), table[COLUMNS]
