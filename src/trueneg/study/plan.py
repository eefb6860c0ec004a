"""What the rules ask: which files, settings and resources belong to a study, a data set, an objective, a block of seeds.

Nothing here imports torch or looks at this machine: the plan is the same on a laptop and on a cluster's login node.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trueneg.report import catalogue
from trueneg.study import provenance, runs
from trueneg.study.config import Configuration
from trueneg.study.store import RunStore


class Plan:
    """The answers for one configuration. Methods that take `wildcards` are input functions and parameters of rules.

    Args:
        configuration: the checked configuration.

    Attributes:
        studies: its studies by name.
        settings: the same as plain values, every default filled in: what ``lookup`` reads and what jobs are handed.
    """

    def __init__(self, configuration: Configuration):
        self.configuration = configuration
        self.studies = configuration.studies
        self.settings = {name: study.model_dump(mode="json") for name, study in self.studies.items()}

    def of_block(self, pattern: str) -> list[str]:
        """`pattern` for every study, data set, objective and block of seeds."""
        return [path for name in self.studies for path in self._of_study(name, pattern)]

    def of_study(self, pattern: str) -> Callable[[Any], list[str]]:
        """An input function: `pattern` for every data set, objective and block of seeds of the study."""

        def paths(wildcards: Any) -> list[str]:
            return self._of_study(wildcards.study, pattern)

        return paths

    def _of_study(self, name: str, pattern: str) -> list[str]:
        study = self.studies[name]
        return [
            pattern.format(study=name, dataset=dataset, objective=objective, block=block)
            for dataset in runs.datasets(study)
            for objective in runs.objectives(study)
            for block in runs.blocks(study)
        ]

    def figures(self) -> list[str]:
        """The figures of every study."""
        return [
            f"results/{name}/figures/{figure}.png"
            for name, study in self.studies.items()
            for figure in catalogue.figures_of(study)
        ]

    def tables(self) -> list[str]:
        """The tables of every study."""
        return [f"results/{name}/tables/{table}.csv" for name in self.studies for table in catalogue.TABLES]

    def seeds(self, wildcards: Any) -> list[int]:
        """The seeds of a block."""
        return runs.blocks(self.studies[wildcards.study])[wildcards.block]

    def dataset(self, wildcards: Any) -> dict[str, Any]:
        """Resolved settings of a data set."""
        return runs.datasets(self.studies[wildcards.study])[wildcards.dataset].model_dump(mode="json")

    def source(self, wildcards: Any) -> str:
        """The decoded images of a data set."""
        return f"results/sources/{runs.source_key(self.dataset(wildcards))}.npz"

    def reading(self, wildcards: Any) -> dict[str, Any]:
        """How to read a source."""
        return self._readings()[wildcards.source]

    def _readings(self) -> dict[str, dict[str, Any]]:
        keys = {"source", "path", "resolution", "download"}
        listed = [
            dataset.model_dump(mode="json", include=keys)
            for study in self.studies.values()
            for dataset in runs.datasets(study).values()
        ]
        return {runs.source_key(reading): reading for reading in listed}

    def runs(self, wildcards: Any) -> list[dict[str, Any]]:
        """The runs of a block, every setting resolved."""
        study = self.studies[wildcards.study]
        seeds = self.seeds(wildcards)
        return [run.to_json() for run in runs.runs_of(wildcards.study, study, wildcards.dataset, wildcards.objective, seeds)]

    def memory(self, wildcards: Any, attempt: int) -> int:
        """Memory of a training job in MB, more with each attempt."""
        return self.studies[wildcards.study].training.mem_mb * attempt

    def fingerprint_if_retraining(self, wildcards: Any) -> str | None:
        """A training job knows the code's fingerprint only when stale runs are to be trained anew."""
        return provenance.fingerprint(provenance.TRAINING) if self.configuration.retrain_stale else None

    def first_manifest(self, wildcards: Any) -> str:
        """The manifest that lists the first seed's run."""
        folder = f"results/{wildcards.study}/manifests/{wildcards.dataset}/{wildcards.objective}"
        return f"{folder}/{self._first_block(wildcards)}.json"

    def first_subsets(self, wildcards: Any) -> str:
        """The subsets that hold the first seed's."""
        return f"results/{wildcards.study}/subsets/{wildcards.dataset}/{self._first_block(wildcards)}.parquet"

    def _first_block(self, wildcards: Any) -> str:
        return next(iter(runs.blocks(self.studies[wildcards.study])))

    def artefacts(self, wildcards: Any) -> list[str]:
        """What a figure reads beyond the gathered rows, curves and comparison."""
        return catalogue.artefacts_of(wildcards.figure, wildcards.study, self.studies[wildcards.study])


def report_fingerprint(path: str) -> str:
    """A file that changes with the code that draws, and with nothing else; returns its path.

    As an input it makes an edit of a figure's code draw figures anew.
    """
    today = provenance.fingerprint(provenance.REPORT)
    if not Path(path).is_file() or Path(path).read_text() != today:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(today)
    return path


def stale_message(store: RunStore) -> str:
    """A line about the finished runs that were made with other training code than today's; empty if there are none."""
    stale = provenance.stale_runs(store)
    if not stale:
        return ""
    return (
        f"{len(stale)} runs in {store.path} were made with other code than today's. `trueneg runs` marks them; "
        "`--config retrain_stale=true` trains them anew.\n"
    )
