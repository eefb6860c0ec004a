"""What the rules ask of the studies that train encoders: paths and parameters by a job's wildcards."""

from collections.abc import Callable
from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.expansion import Expansion
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.store import provenance, user_files


class Trainings:
    """The data sets, objectives and blocks of seeds; most methods take a job's wildcards.

    Attributes:
        studies: the studies that train encoders, by name.
        image_text: those of images with sentences.
        expanded: what each study's runs are.
    """

    def __init__(self, configuration: Configuration):
        self.studies = {name: study for name, study in configuration.studies.items() if isinstance(study, TrainedStudy)}
        self.image_text = {name: study for name, study in self.studies.items() if isinstance(study, ImageTextStudy)}
        self.expanded = {name: Expansion(name, study) for name, study in self.studies.items()}
        self._longest = max((expanded.longest for expanded in self.expanded.values()), default=0.0)
        self._retrains_stale = configuration.retrain_stale

    def every(self, pattern: str) -> Callable[[Any], list[str]]:
        """The pattern for every data set, objective and block of the study, as far as it names them."""
        return lambda wildcards: list(dict.fromkeys(self.expanded[wildcards.study].paths(pattern)))

    def first(self, pattern: str) -> Callable[[Any], str]:
        """The pattern; what the wildcards lack is the first block, or the first objective that trains: all start alike."""

        def path(wildcards: Any) -> str:
            expanded = self.expanded[wildcards.study]
            trains = [label for (_, label), run in expanded.settings.items() if run["objective"]["name"] != "released"]
            objective = next(iter(trains), None)
            return pattern.format(**{"objective": objective, "block": next(iter(expanded.blocks)), **wildcards})

        return path

    def each_block(self, pattern: str) -> list[str]:
        """The pattern for every data set, objective and block of every study that trains."""
        return [path for expanded in self.expanded.values() for path in expanded.paths(pattern)]

    def source(self, wildcards: Any) -> str:
        """The decoded images of a data set, or its images with their sentences."""
        return self.expanded[wildcards.study].sources[wildcards.dataset]

    def beside_source(self, table: str) -> Callable[[Any], str | list[str]]:
        """A table beside images with sentences; nothing beside images alone."""

        def path(wildcards: Any) -> str | list[str]:
            is_beside = wildcards.study in self.image_text
            return f"{self.source(wildcards).removesuffix('.npz')}-{table}.parquet" if is_beside else []

        return path

    def dataset(self, wildcards: Any) -> dict[str, Any]:
        """The settings of a data set."""
        return self.expanded[wildcards.study].datasets[wildcards.dataset]

    def seeds(self, wildcards: Any) -> list[int]:
        """The seeds of a block."""
        return self.expanded[wildcards.study].blocks[wildcards.block]

    def runs(self, wildcards: Any) -> list[dict[str, Any]]:
        """The runs of a training job."""
        return self.expanded[wildcards.study].runs(wildcards.dataset, wildcards.objective, wildcards.block)

    def row_names(self, wildcards: Any) -> dict[str, str]:
        """What the rows of a data set and an objective are named by."""
        return self.expanded[wildcards.study].row_names[wildcards.dataset, wildcards.objective]

    def longest_first(self, wildcards: Any) -> float:
        """The priority of a training job: from 1 to 9, the longest first, so that none is left over at the end."""
        cost = self.expanded[wildcards.study].cost(wildcards.dataset, wildcards.objective, wildcards.block)
        return 1 + 8 * cost / self._longest if self._longest else 1

    def retrained_code(self, wildcards: Any) -> str | None:
        """The training code, if stale runs are to be trained again: otherwise an edit must plan no training."""
        if not self._retrains_stale:
            return None
        return provenance.training_fingerprint(self.expanded[wildcards.study].settings[wildcards.dataset, wildcards.objective])

    def of_devices(self, key: str) -> Callable[[Any], int]:
        """What a training job asks for: a setting of its training for each of its devices."""

        def asked(wildcards: Any) -> int:
            training = self.studies[wildcards.study].training
            return getattr(training, key) * training.devices

        return asked

    def benchmark(self, wildcards: Any) -> str | list[str]:
        """CheXpert 8×200 at the size of the study's images; nothing where it is not measured."""
        study = self.image_text.get(wildcards.study)
        if study is None or study.evaluation.chexpert_8x200 is None:
            return []
        size = self.dataset(wildcards)["resolution"]
        return f"results/{user_files.of_benchmark(study.evaluation.chexpert_8x200, size).place}.npz"

    def retrieval_examples(self) -> list[str]:
        """What the page shows of retrieval, by the first variant of each objective in the primary contrast."""
        found = []
        for name, study in self.image_text.items():
            primary, variants = study.primary, runs.candidates(study)
            dataset = primary.dataset or next(iter(self.expanded[name].datasets))
            asked = dict.fromkeys((primary.baseline, primary.treatment, primary.oracle))
            labels = [next(iter(variants[objective])) for objective in asked if objective is not None]
            found += [f"results/{name}/artefacts/retrieval/{dataset}/{label}.parquet" for label in labels]
        return found

    def phrases(self, wildcards: Any) -> int:
        """How many phrases have their heatmaps kept."""
        overlays = self.image_text[wildcards.study].figures.overlays
        return 0 if overlays is None else overlays.phrases
