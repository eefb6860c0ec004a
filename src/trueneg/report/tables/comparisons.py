"""Tables of all paired differences of a study with their tests, and of our numbers beside published ones."""

from typing import Any

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
# Note on the significance of the published differences, shown where ReCo's Table 1 is compared with our numbers.
RECO_TABLE_1 = (
    "Of the seven differences of ReCo's Table 1, four have p < 0.05 by the printed standard errors (four seeds each, Welch's "
    "t test), and none has after Holm's correction."
)


def drawings(study: Study) -> list[Drawing]:
    """Declare the tables of a trained study; published numbers are included if the study names any."""
    if isinstance(study, ImageStudy):
        about = "The same numbers with their spread and what could have been seen."
        title = "Beside the printed table"
        caption = (
            "Our numbers and the paper's, in the study's own setting: where data, network or length differ, they need not agree."
        )
    elif isinstance(study, ImageTextStudy):
        about = "The primary contrast was named beforehand; all else is exploratory."
        title = "Beside the printed tables"
        caption = "Our numbers and the papers': where data, network or length differ, they need not agree."
    else:
        return []
    found = [Drawing("differences", differences, "Every paired difference, with its tests", about)]
    return [*found, Drawing("published", published, title, caption, (*ROWS, PUBLISHED))] if study.published else found


def differences(gathered: Gathered) -> Table:
    """Build the table of paired differences for every measurement in every table."""
    comparison, study = comparison_of(gathered), gathered.study
    measured = measured_of(study) if isinstance(study, ImageStudy) else every_measurement(comparison.rows)
    return difference_table(compare(comparison.rows, comparison.baseline, measured), comparison.baseline, comparison.notes)


def published(gathered: Gathered) -> Table:
    """Build the table of published numbers in configuration order; image–text studies also name each number's source."""
    comparison, printed, entries = comparison_of(gathered), gathered.read(PUBLISHED), gathered.study.published
    if isinstance(gathered.study, ImageStudy):
        return published_table(comparison.rows, printed)
    places: Any = [
        f"{entry.paper}, {entry.table}: {', '.join(filter(None, (entry.task, entry.setting, entry.metric)))}"
        for entry in entries
        for _ in entry.methods
    ]
    of_reco = any((entry.paper, entry.table) == ("relaxing-contrastiveness", "Table 1") for entry in entries)
    notes = [*([RECO_TABLE_1] if of_reco else []), *comparison.notes]
    return published_table(comparison.rows, printed.assign(**{"printed as": places}), notes=notes)
