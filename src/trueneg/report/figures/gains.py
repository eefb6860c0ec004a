"""What each method gains over the baseline at equal temperature: the figure beside the answer."""

from typing import Any

from pandas import DataFrame

from trueneg.report.declared import Drawing
from trueneg.report.drawing import Figure, add_legend, dots, finish, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import seed_count, with_unit
from trueneg.report.methods import IN_SHORT, gains, outcomes
from trueneg.report.metrics import amount, margin_text, measured_name, scale, unit
from trueneg.report.plots import forest
from trueneg.specs.kinds.trained import TrainedStudy

ORDER = 4
KIND = TrainedStudy
ASKED, METHOD, REFERENCE, FIRST = "in question", "method", "reference", "no training"
MANY = 12  # rows, above which the numbers of the axis are above them, too
FAR = 2  # times the other gains and their intervals: too far away to be drawn beside them


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the figure of a trained study."""
    baseline = study.primary.baseline
    return [
        Drawing(
            "gains",
            draw,
            f"What does each method gain over {baseline}?",
            f"Gains over {baseline}, or over {baseline} at the temperature of the method if the"
            " gain over that is smaller; the answer states the same number.",
            headline=True,
        )
    ]


def draw(gathered: Gathered) -> Figure:
    """Draw a row per method and reference with its outcome, the largest gain first; a band marks
    the equivalence margin.
    """
    study = gathered.study
    measured = gathered.primary
    found = gains(gathered)
    kinds = dict.fromkeys(found, REFERENCE) | dict.fromkeys(outcomes(gathered), METHOD)
    kinds |= {study.primary.treatment: ASKED, study.first_baseline: FIRST}
    table = DataFrame(
        [
            {**row, "kind": kinds[name]}
            for name, row in found.items()
            if kinds[name] != REFERENCE
            or name in gathered.oracles
            or not study.objectives[name].is_control
        ]
    )
    table = table.sort_values("difference", ascending=False, kind="stable")
    is_first = table["kind"] == FIRST
    farthest = table.loc[~is_first, ["difference", "low", "high"]].abs().max().max()
    is_far = is_first & (table["difference"].abs() > FAR * farthest)
    sentences = [
        f"Bars: {gathered.paired_intervals}, not corrected ({seed_count(table['seeds'])});"
        " outcomes are corrected (Holm).",
        *(
            f"{row['objective']}, without training: outside of the figure, at"
            f" {amount(row['difference'], measured.metric, signed=True, difference=True)}."
            for row in table[is_far].to_dict("records")
        ),
    ]
    table = table[~is_far]
    styles = line_styles(
        kind for kind in (ASKED, METHOD, REFERENCE, FIRST) if kind in {*table["kind"]}
    )
    size = scale(measured.metric)
    short = table["outcome"].map(lambda outcome: IN_SHORT.get(outcome, outcome))
    table = table.assign(row=table["objective"] + ": " + short)
    names = list(table["row"])
    figure, [[plot]] = panels(width=5.4, height=1.5 + 0.3 * len(names))
    entries: dict[str, Any] = dict(dots(styles))
    for margin in gathered.margins.values():
        band = plot.axvspan(-size * margin, size * margin, color="0.88", linewidth=0, zorder=0)
        entries[f"margin, ±{margin_text(margin, measured.metric)}"] = band
    plot.axvline(0, color="0.1", linewidth=1)
    forest(plot, table, styles, "kind", names, row="row", y="difference", factor=size)
    label = f"Gain in {measured_name(measured)}"
    plot.set_xlabel(f"{with_unit(label, unit(measured.metric, difference=True))}: right is better")
    plot.locator_params(axis="x", nbins=5)  # next to longer labels
    if len(names) > MANY:
        plot.tick_params(axis="x", labeltop=True)
    add_legend(figure, entries)
    return finish(figure, *sentences, gathered.study_note)
