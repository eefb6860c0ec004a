"""The input files and parameters of every job, as functions of its wildcards that the rules name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.expansion import Expansion
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.specs.pairs import PAIRS
from trueneg.store import provenance, user_files
from trueneg.store.user_files import Reading

MODELS = "results/{study}/text/{corpus}/language_models/{model}.json"
LIKELIHOODS = "results/{study}/text/{corpus}/likelihoods/{model}.parquet"


class Plan:
    """What the rules ask of a configuration; most methods take a job's wildcards.

    Args:
        configuration: a checked one.

    Attributes:
        trained: the studies that train encoders, expanded, by name.
        image_text: those of images with sentences.
        likelihood: the studies of likelihoods.
    """

    def __init__(self, configuration: Configuration):
        self._configuration, studies = configuration, configuration.studies
        self._trained = {name: study for name, study in studies.items() if isinstance(study, TrainedStudy)}
        self.trained = {name: Expansion(name, study) for name, study in self._trained.items()}
        self.image_text = {name: study for name, study in self._trained.items() if isinstance(study, ImageTextStudy)}
        self.likelihood = {name: study for name, study in studies.items() if isinstance(study, LikelihoodStudy)}
        self._longest = max((expanded.longest for expanded in self.trained.values()), default=0.0)
        self._readings = {reading.place: reading for reading in self._all_readings()}
        self._files: dict[str, dict[str, Any]] = {}

    def _all_readings(self) -> list[Reading]:
        found = [reading for name, study in self.likelihood.items() for reading in user_files.of_corpora(name, study).values()]
        for name, expanded in self.trained.items():
            for dataset in expanded.datasets.values():
                if name not in self.image_text:
                    found.append(user_files.of_images(dataset))
                    continue
                found.append(user_files.of_pairs(dataset, self.likelihood))
                lists = self.image_text[name].evaluation.chexpert_8x200
                if lists is not None:
                    found.append(user_files.of_benchmark(lists, dataset["resolution"]))
        return found

    # Data sets, objectives and blocks of seeds.

    def every(self, pattern: str) -> Callable[[Any], list[str]]:
        """The pattern for every data set, objective and block of the study, as far as it names them."""
        return lambda wildcards: list(dict.fromkeys(self.trained[wildcards.study].paths(pattern)))

    def first(self, pattern: str) -> Callable[[Any], str]:
        """The pattern; what the wildcards lack is the first block, or the first objective that trains: all start alike."""

        def path(wildcards: Any) -> str:
            expanded = self.trained[wildcards.study]
            objective = next(label for (_, label), run in expanded.settings.items() if run["objective"]["name"] != "released")
            return pattern.format(**{"objective": objective, "block": next(iter(expanded.blocks)), **wildcards})

        return path

    def each_block(self, pattern: str) -> list[str]:
        """The pattern for every data set, objective and block of every study that trains."""
        return [path for expanded in self.trained.values() for path in expanded.paths(pattern)]

    def source(self, wildcards: Any) -> str:
        """The decoded images of a data set, or its images with their sentences."""
        return self.trained[wildcards.study].sources[wildcards.dataset]

    def beside_source(self, table: str) -> Callable[[Any], str | list[str]]:
        """A table beside images with sentences; nothing beside images alone."""

        def path(wildcards: Any) -> str | list[str]:
            is_beside = wildcards.study in self.image_text
            return f"{self.source(wildcards).removesuffix('.npz')}-{table}.parquet" if is_beside else []

        return path

    def dataset(self, wildcards: Any) -> dict[str, Any]:
        """The settings of a data set."""
        return self.trained[wildcards.study].datasets[wildcards.dataset]

    def seeds(self, wildcards: Any) -> list[int]:
        """The seeds of a block."""
        return self.trained[wildcards.study].blocks[wildcards.block]

    def runs(self, wildcards: Any) -> list[dict[str, Any]]:
        """The runs of a training job."""
        return self.trained[wildcards.study].runs(wildcards.dataset, wildcards.objective, wildcards.block)

    def row_names(self, wildcards: Any) -> dict[str, str]:
        """What the rows of a data set and an objective are named by."""
        return self.trained[wildcards.study].row_names[wildcards.dataset, wildcards.objective]

    def longest_first(self, wildcards: Any) -> float:
        """The priority of a training job: from 1 to 9, the longest first, so that none is left over at the end."""
        cost = self.trained[wildcards.study].cost(wildcards.dataset, wildcards.objective, wildcards.block)
        return 1 + 8 * cost / self._longest if self._longest else 1

    def retrained_code(self, wildcards: Any) -> str | None:
        """The training code, if stale runs are to be trained again: otherwise an edit must plan no training."""
        if not self._configuration.retrain_stale:
            return None
        return provenance.training_fingerprint(self.trained[wildcards.study].settings[wildcards.dataset, wildcards.objective])

    def of_devices(self, key: str) -> Callable[[Any], int]:
        """What a training job asks for: a setting of its training for each of its devices."""

        def asked(wildcards: Any) -> int:
            training = self._trained[wildcards.study].training
            return getattr(training, key) * training.devices

        return asked

    # Sources.

    def settings(self, place: str) -> Callable[[Any], dict[str, Any]]:
        """What a job reads; `place` is that of its output in the results folder."""

        def read(wildcards: Any) -> dict[str, Any]:
            reading = self._readings[place.format(**wildcards)]
            seed = {"seed": self.likelihood[reading.settings["text"]].seed} if reading.kind == "pairs" else {}
            return {**reading.settings, **seed}

        return read

    def reading(self, place: str) -> dict[str, Callable[[Any], dict[str, Any]]]:
        """Parameters of a job that reads the user's files: its settings, and the files with a stamp of their content."""

        def files(wildcards: Any) -> dict[str, Any]:
            found = place.format(**wildcards)
            if found not in self._files:  # Snakemake asks several times, and there may be many files
                self._files[found] = user_files.parameter(self._readings[found], Path("results"))
            return self._files[found]

        return {"settings": self.settings(place), "files": files}

    def pair_source(self, wildcards: Any) -> str:
        """The name of the source of images with sentences."""
        return self._readings[f"pairs/{wildcards.pairs}"].settings["source"]

    def pair_texts(self, wildcards: Any) -> dict[str, str]:
        """Tables of the reports that images are joined with."""
        settings = self._readings[f"pairs/{wildcards.pairs}"].settings
        return {name: self._text_table(settings, name) for name in PAIRS[settings["source"]].TEXT_TABLES}

    def _text_table(self, dataset: Any, name: str) -> str:
        corpus = dataset["corpus"] or next(iter(runs.corpora(self.likelihood[dataset["text"]])))
        return f"results/{dataset['text']}/text/{corpus}/{name}.parquet"

    def eta_by_class(self, wildcards: Any) -> dict[str, str]:
        """The sentences of an image–text study, and their latent classes."""
        label, dataset = next(iter(self.trained[wildcards.study].datasets.items()))
        sentences = self.trained[wildcards.study].sources[label].replace(".npz", ".parquet")
        return {"sentences": sentences, "classes": self._text_table(dataset, "classes")}

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
            dataset = primary.dataset or next(iter(self.trained[name].datasets))
            asked = dict.fromkeys((primary.baseline, primary.treatment, primary.oracle))
            labels = [next(iter(variants[objective])) for objective in asked if objective is not None]
            found += [f"results/{name}/artefacts/retrieval/{dataset}/{label}.parquet" for label in labels]
        return found

    def phrases(self, wildcards: Any) -> int:
        """How many phrases have their heatmaps kept."""
        overlays = self.image_text[wildcards.study].figures.overlays
        return 0 if overlays is None else overlays.phrases

    # Texts.

    def each_corpus(self, pattern: str) -> list[str]:
        """The pattern for every corpus of every likelihood study."""
        return [
            pattern.format(study=name, corpus=corpus) for name, study in self.likelihood.items() for corpus in runs.corpora(study)
        ]

    def initial_models(self, wildcards: Any) -> str | list[str]:
        """The models of another study that a training starts from, if there are any."""
        start = self.likelihood[wildcards.study].language_models[wildcards.model].start
        return [] if start is None else MODELS.format(**dict(zip(("study", "corpus", "model"), start.split("/"), strict=True)))

    def scoring_models(self, wildcards: Any) -> str | list[str]:
        """The models that score: a study's own, or another's that it does not train further."""
        own = MODELS.format(**wildcards)
        is_trained = self.likelihood[wildcards.study].language_models[wildcards.model].train
        return own if is_trained else self.initial_models(wildcards) or own

    def scoring(self, wildcards: Any) -> dict[str, Any]:
        """How a language model scores."""
        study = self.likelihood[wildcards.study]
        trusted = study.language_models[wildcards.model].trust_remote_code
        return {**study.scoring.model_dump(mode="json"), "trust_remote_code": trusted}

    def shards(self, wildcards: Any) -> list[str]:
        """The marks of finished shards; none where one job scores everything."""
        count = self.likelihood[wildcards.study].scoring.shards
        base = LIKELIHOODS.format(**wildcards).removesuffix(".parquet")
        return [f"{base}-{shard}.done" for shard in range(count)] if count > 1 else []

    def likelihoods(self, wildcards: Any) -> list[str]:
        """Those of every language model, in the order of the configuration."""
        models = self.likelihood[wildcards.study].language_models
        return [LIKELIHOODS.format(**wildcards, model=model) for model in models]

    def eta_likelihoods(self, wildcards: Any) -> str:
        """Those that class probabilities are estimated from."""
        study = self.likelihood[wildcards.study]
        return LIKELIHOODS.format(**wildcards, model=study.eta.language_model or next(iter(study.language_models)))

    def folds(self, wildcards: Any) -> int:
        """The folds of the simple scorers: as many as the first language model that is trained has."""
        models = self.likelihood[wildcards.study].language_models.values()
        return next((model.folds for model in models if model.train), 2)

    # Theory.

    def experiments(self, wildcards: Any) -> dict[str, Any]:
        """The settings that the experiments of a theory study share."""
        study = self._configuration.studies[wildcards.study].model_dump(mode="json")
        return study["process"] | study["sweeps"]
