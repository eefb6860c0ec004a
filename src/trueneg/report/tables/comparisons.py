"""Every paired difference of a study with its tests, and our numbers beside printed ones."""

import pandas as pd

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import ROWS, Drawing
from trueneg.report.formats import Table
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import comparison_of, every_measurement
from trueneg.report.tables.accuracy import measured_of
from trueneg.report.tables.building import compare, difference_table, published_table
from trueneg.specs.settings import Study

ORDER = 40
PUBLISHED = "published.parquet"
# What the printed standard errors say of the printed differences, where that table stands beside ours.
RECO_TABLE_1 = (
    "Of the seven differences of ReCo's Table 1, four have p < 0.05 by the printed standard errors (four seeds each, Welch's "
    "t test), and none has after Holm's correction."
)


def drawings(study: Study) -> list[Drawing]:
    """Of every study that trains; printed numbers where the study names some."""
    title, files = "Every paired difference, with its tests", (*ROWS, PUBLISHED)
    if isinstance(study, ImageStudy):
        found = [Drawing("differences", of_images, title, "The same numbers with their spread and what could have been seen.")]
        caption = (
            "Our numbers and the paper's, in the study's own setting: where data, network or length differ, they need not agree."
        )
        printed = Drawing("published", beside_a_table, "Beside the printed table", caption, files)
    elif isinstance(study, ImageTextStudy):
        caption = "The primary contrast was named beforehand; all else is exploratory."
        found = [Drawing("differences", of_pairs, title, caption)]
        caption = "Our numbers and the papers': where data, network or length differ, they need not agree."
        printed = Drawing("published", beside_tables, "Beside the printed tables", caption, files)
    else:
        return []
    return [*found, printed] if study.published else found


def of_images(gathered: Gathered) -> Table:
    """Every measurement of the table of accuracies."""
    values = compare(gathered.rows, gathered.baseline, measured_of(gathered.study))
    return difference_table(values, gathered.baseline)


def of_pairs(gathered: Gathered) -> Table:
    """Every measurement of every table."""
    comparison = comparison_of(gathered)
    values = compare(comparison.rows, comparison.baseline, every_measurement(comparison.rows))
    return difference_table(values, comparison.baseline, comparison.notes)


def beside_a_table(gathered: Gathered) -> Table:
    """The one printed table of an image study."""
    return published_table(gathered.rows, gathered.read(PUBLISHED))


def beside_tables(gathered: Gathered) -> Table:
    """Printed numbers, each with where it is printed, in the order of the configuration."""
    comparison, entries = comparison_of(gathered), gathered.study.published
    places = [
        f"{entry.paper}, {entry.table}: {', '.join(filter(None, (entry.task, entry.setting, entry.metric)))}"
        for entry in entries
        for _ in entry.methods
    ]
    printed: pd.DataFrame = gathered.read(PUBLISHED).assign(**{"printed as": places})
    of_reco = any((entry.paper, entry.table) == ("relaxing-contrastiveness", "Table 1") for entry in entries)
    return published_table(comparison.rows, printed, notes=[*([RECO_TABLE_1] if of_reco else []), *comparison.notes])
