"""Tables of experiments, as their studies declare them."""

from trueneg.report.declared import Drawing
from trueneg.report.formats import Table, from_frame
from trueneg.report.gathered import Gathered
from trueneg.specs.kinds.experiments import ExperimentStudy

ORDER = 10
KIND = ExperimentStudy


def drawings(study: ExperimentStudy) -> list[Drawing]:
    """Declare the tables of the experiments that a study shows as such."""
    listed = []
    for name, (title, caption) in study.TABLES.items():
        listed.append(
            Drawing(
                name,
                draw,
                title,
                caption,
                ("study.yaml", f"simulation/{name}.parquet"),
                {"experiment": name},
            )
        )
    return listed


def draw(gathered: Gathered, experiment: str) -> Table:
    """Show the data frame of an experiment."""
    return from_frame(gathered.experiment(experiment))
