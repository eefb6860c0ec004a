"""Paired differences on all, common and rare classes, which show which classes gain."""

from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import Figure, add_legend, finish, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import measurement_name
from trueneg.report.metrics import group_name, scale, unit
from trueneg.report.plots import forest, interval_note, shown_values, value_text
from trueneg.specs.settings import Study
from trueneg.stats.measurement import Measurement

ORDER = 30
GROUPS = (None, "common", "rare")


def drawings(study: Study) -> list[Drawing]:
    """Declare the figure of an image study with rare classes."""
    if not isinstance(study, ImageStudy) or not study.dataset.rare_classes:
        return []
    title = "Differences on common and rare classes"
    caption = "Differences from the baseline in the primary measurement; bars are not corrected for the number of comparisons."
    return [Drawing("class_groups", class_groups, title, caption)]


def class_groups(gathered: Gathered) -> Figure:
    """Draw a forest plot of the primary measurement: one row per objective and one dot style per group of classes."""
    rows, dataset, baseline, measured = gathered.rows, gathered.dataset, gathered.baseline, gathered.primary
    chosen = rows[(rows["dataset"] == dataset) & (rows["split"] == "test")]
    points = shown_values(chosen, baseline, *(measured._replace(group=group) for group in GROUPS))
    points["classes"] = [group_name(Measurement.of(dict(row))) for _, row in points.iterrows()]
    objectives, metric, styles = list(dict.fromkeys(points["objective"])), measured.metric, line_styles(points["classes"])
    figure, [[plot]] = panels(height=1.7 + 0.62 * len(objectives))
    plot.axvline(0, color="0.1", linewidth=1)
    forest(plot, points, styles, "classes", objectives, row="objective", factor=scale(metric), apart=11)
    plot.set_xlabel(f"Accuracy minus that of {baseline} ({unit(metric, difference=True)}); right of the line is better")
    add_legend(figure, {name: style._replace(linestyle="none") for name, style in styles.items()})
    what = measurement_name(measured, "test", dataset)
    texts = (f"{row['objective']} on {row['classes']} {value_text(row, metric, signed=True)}" for _, row in points.iterrows())
    about = f"{what}. {interval_note(baseline, points['seeds'])}"
    note = gathered.note_on({dataset}, {baseline, *objectives})
    return finish(figure, [about, note], f"Differences from {baseline} with intervals, {what}: {'; '.join(texts)}.")
