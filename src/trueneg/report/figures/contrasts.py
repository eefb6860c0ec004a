"""The comparisons that a study names, as a forest plot of the primary measurement."""

from trueneg.report.declared import Drawing
from trueneg.report.drawing import Figure, add_legend, dots, finish, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import measurement_name, seed_count, with_unit
from trueneg.report.metrics import margin_text, scale, unit
from trueneg.report.plots import forest
from trueneg.report.tables.comparisons import of_primary
from trueneg.specs.kinds.trained import OTHERS, PRIMARY, TrainedStudy

ORDER = 5
KIND = TrainedStudy


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the figure of a trained study that names contrasts."""
    drawing = Drawing(
        "contrasts",
        contrasts,
        "The comparisons that the study names",
        "Differences in the primary measurement. Bars are not corrected for the number of"
        " comparisons; the tables list outcomes.",
    )
    return [drawing] if study.contrasts else []


def contrasts(gathered: Gathered) -> Figure:
    """Draw a row per comparison, the primary one first, in the style of its family; a band marks
    the equivalence margin.
    """
    measured = gathered.primary
    table = of_primary(gathered)
    named = gathered.study.contrasts
    # the first baseline is shown in any case
    first = {gathered.study.first_baseline} - {contrast.baseline for contrast in named}
    table = table[(table["family"] != OTHERS) | table["objective"].isin(first)]
    table = table.assign(
        family=table["family"].fillna("interval only").replace(OTHERS, "exploratory")
    )
    table = table.sort_values("family", key=lambda family: family != PRIMARY, kind="stable")
    table = table.rename(
        columns={"difference": "shown", "difference low": "low", "difference high": "high"}
    )
    styles = line_styles(table["family"])
    size = scale(measured.metric)
    figure, [[plot]] = panels(height=1.6 + 0.34 * len(table))
    sentences = [
        f"{measurement_name(measured, gathered.dataset)}. Bars: {gathered.paired_intervals}, not"
        f" corrected ({seed_count(table['pairs'])})."
    ]
    if gathered.crossed is not None and any(contrast.minus for contrast in named):
        sentences.append("Differences of differences: over seeds only.")
    for margin in gathered.margins.values():
        plot.axvspan(-size * margin, size * margin, color="0.88", linewidth=0, zorder=0)
        sentences.append(f"Band: ±{margin_text(margin, measured.metric)}, the margin.")
    plot.axvline(0, color="0.1", linewidth=1)
    forest(plot, table, styles, "family", list(table["contrast"]), row="contrast", factor=size)
    label = with_unit("Difference", unit(measured.metric, difference=True))
    plot.set_xlabel(f"{label}; right of the line is better")
    add_legend(figure, dots(styles))
    drawn = {*table["objective"], *table["baseline"]}
    for contrast in named:
        if contrast.minus is not None:
            drawn |= {contrast.minus.treatment, contrast.minus.baseline}
    return finish(
        figure,
        *sentences,
        *gathered.protocol_notes,
        gathered.note_on({gathered.dataset}, drawn),
    )
