"""What studies share that train nothing: each of their experiments is computed by one job and gives
one table.
"""

from collections.abc import Mapping
from typing import ClassVar

from trueneg.specs.sections import Section
from trueneg.specs.settings import Count, Study, Technical

ABOUT = ("kind", "title", "question", "note", "mem_mb", "runtime")


class ExperimentStudy(Study):
    """A study of experiments.

    Attributes:
        COMPUTED_BY: computes an experiment, given its name and :attr:`experiment_settings`, and
            returns a data frame.
        TABLES: title and caption of each experiment that is shown as a table.
    """

    DESCRIBED_BY = "trueneg.cli.check:describe_experiments"
    FOUND_BY = "trueneg.report.findings:of_experiments"
    COMPUTED_BY: ClassVar[str]
    TABLES: ClassVar[Mapping[str, tuple[str, str]]] = {}

    mem_mb: Technical[Count] = 2000
    """memory of an experiment in MB"""
    runtime: Technical[Count] = 10
    """time limit of an experiment on a cluster, in minutes"""

    @property
    def experiment_settings(self) -> Section:
        """The settings that determine the results of the experiments, as plain values."""
        return self.model_dump(mode="json", exclude={*ABOUT})
