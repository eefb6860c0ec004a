"""Paths and parameters that the rules need from the studies that train encoders, by a job's wildcards."""

from collections.abc import Callable
from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.expansion import Expansion
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.store import provenance, user_files


class Trainings:
    """Data sets, objectives and blocks of seeds of all studies; most methods take a job's wildcards.

    Attributes:
        studies: the studies that train encoders, by name.
        image_text: the image–text studies among them.
        expanded: the expansion of each study into runs.
    """

    def __init__(self, configuration: Configuration):
        self.studies = {name: study for name, study in configuration.studies.items() if isinstance(study, TrainedStudy)}
        self.image_text = {name: study for name, study in self.studies.items() if isinstance(study, ImageTextStudy)}
        self.expanded = {name: Expansion(name, study) for name, study in self.studies.items()}
        self._longest = max((expanded.longest for expanded in self.expanded.values()), default=0.0)
        self._retrains_stale = configuration.retrain_stale

    def every(self, pattern: str) -> Callable[[Any], list[str]]:
        """Fill in the pattern for every data set, objective and block of the study that it refers to."""
        return lambda wildcards: list(dict.fromkeys(self.expanded[wildcards.study].paths(pattern)))

    def first(self, pattern: str) -> Callable[[Any], str]:
        """Fill in the pattern; missing wildcards default to the first block and first trained objective, as all start alike."""

        def path(wildcards: Any) -> str:
            expanded = self.expanded[wildcards.study]
            trains = [label for (_, label), run in expanded.settings.items() if run["objective"]["name"] != "released"]
            objective = next(iter(trains), None)
            return pattern.format(**{"objective": objective, "block": next(iter(expanded.blocks)), **wildcards})

        return path

    def each_block(self, pattern: str) -> list[str]:
        """Fill in the pattern for every data set, objective and block of every study that trains encoders."""
        return [path for expanded in self.expanded.values() for path in expanded.paths(pattern)]

    def source(self, wildcards: Any) -> str:
        """Return the file of a data set's decoded images, with their sentences in an image–text study."""
        return self.expanded[wildcards.study].sources[wildcards.dataset]

    def beside_source(self, table: str) -> Callable[[Any], str | list[str]]:
        """Return a table stored beside an image–text source; an empty list for other images."""

        def path(wildcards: Any) -> str | list[str]:
            is_beside = wildcards.study in self.image_text
            return f"{self.source(wildcards).removesuffix('.npz')}-{table}.parquet" if is_beside else []

        return path

    def dataset(self, wildcards: Any) -> dict[str, Any]:
        """Return the settings of a data set."""
        return self.expanded[wildcards.study].datasets[wildcards.dataset]

    def seeds(self, wildcards: Any) -> list[int]:
        """Return the seeds of a block."""
        return self.expanded[wildcards.study].blocks[wildcards.block]

    def runs(self, wildcards: Any) -> list[dict[str, Any]]:
        """Return the runs of a training job."""
        return self.expanded[wildcards.study].runs(wildcards.dataset, wildcards.objective, wildcards.block)

    def row_names(self, wildcards: Any) -> dict[str, str]:
        """Return the names that identify the rows of a data set and an objective."""
        return self.expanded[wildcards.study].row_names[wildcards.dataset, wildcards.objective]

    def longest_first(self, wildcards: Any) -> float:
        """Return a training job's priority from 1 to 9; long jobs go first, so that none is left running alone at the end."""
        cost = self.expanded[wildcards.study].cost(wildcards.dataset, wildcards.objective, wildcards.block)
        return 1 + 8 * cost / self._longest if self._longest else 1

    def retrained_code(self, wildcards: Any) -> str | None:
        """Return the training fingerprint if stale runs are retrained; None otherwise, so that edits plan no training."""
        if not self._retrains_stale:
            return None
        return provenance.training_fingerprint(self.expanded[wildcards.study].settings[wildcards.dataset, wildcards.objective])

    def of_devices(self, key: str) -> Callable[[Any], int]:
        """Return a training job's resource request: a per-device setting times the number of devices."""

        def asked(wildcards: Any) -> int:
            training = self.studies[wildcards.study].training
            return getattr(training, key) * training.devices

        return asked

    def benchmark(self, wildcards: Any) -> str | list[str]:
        """Return CheXpert 8×200 at the resolution of the study's images; an empty list if the study does not use it."""
        study = self.image_text.get(wildcards.study)
        if study is None or study.evaluation.chexpert_8x200 is None:
            return []
        size = self.dataset(wildcards)["resolution"]
        return f"results/{user_files.of_benchmark(study.evaluation.chexpert_8x200, size).place}.npz"

    def retrieval_examples(self) -> list[str]:
        """Return the retrieval examples of the page, from the first variant of each objective in the primary contrast."""
        found = []
        for name, study in self.image_text.items():
            primary, variants = study.primary, runs.candidates(study)
            dataset = primary.dataset or next(iter(self.expanded[name].datasets))
            asked = dict.fromkeys((primary.baseline, primary.treatment, primary.oracle))
            labels = [next(iter(variants[objective])) for objective in asked if objective is not None]
            found += [f"results/{name}/artefacts/retrieval/{dataset}/{label}.parquet" for label in labels]
        return found

    def phrases(self, wildcards: Any) -> int:
        """Return the number of phrases for which heatmaps are kept."""
        overlays = self.image_text[wildcards.study].figures.overlays
        return 0 if overlays is None else overlays.phrases
