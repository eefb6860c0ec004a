"""Paths and parameters that the rules need from the likelihood studies, looked up by a job's
wildcards.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.specs.kinds.likelihood import LanguageModelSettings
from trueneg.specs.resources import gpus
from trueneg.specs.sections import Section
from trueneg.store import records
from trueneg.store.run_files import checksum_of

MODELS = "results/{study}/text/{corpus}/language_models/{model}.json"
LIKELIHOODS = "results/{study}/text/{corpus}/likelihoods/{model}.parquet"


class Corpora:
    """Paths and parameters of the corpora of sentences; most methods take a job's wildcards.

    Attributes:
        studies: the likelihood studies, by name.
        captioned: the names of the studies that use captions as sentences.
        wanted: the names of the studies whose likelihoods are results, or used by another study.
    """

    def __init__(self, configuration: Configuration):
        self.studies = configuration.scored
        self.captioned = {name for name, study in self.studies.items() if study.reports.captions}

        self.wanted = {name for name in self.studies if runs.is_wanted(name, configuration.studies)}

    def of(self, source: str) -> set[str]:
        """Return the names of the studies that use a given source of reports."""
        return {name for name, study in self.studies.items() if study.reports.source == source}

    def each_corpus(self, pattern: str, studies: Iterable[str]) -> list[str]:
        """Fill in the pattern for every corpus of the given likelihood studies."""
        return [
            pattern.format(study=name, corpus=corpus)
            for name in studies
            for corpus in runs.corpora(self.studies[name])
        ]

    def table(self, dataset: Any, name: str) -> str:
        """Return the path of a table of the corpus that provides the texts of an image–text data
        set.
        """
        return f"results/{dataset['text']}/text/{self._corpus(dataset)}/{name}.parquet"

    def embedding_models(self, dataset: Any) -> str:
        """Return the manifest of the models that embed an image–text data set's sentences: those
        whose likelihoods give η.
        """
        return self._models(
            dataset["text"], self._corpus(dataset), self._eta_model(dataset["text"])
        )

    def initial_models(self, wildcards: Any) -> str | list[str]:
        """Return the manifest of the models, from another study, that training starts from; an
        empty list if there are none.
        """
        return _started_from(self.studies[wildcards.study].language_models[wildcards.model])

    def with_files(self, settings: Callable[[Any], Section]) -> Callable[[Any], Section]:
        """Return a function that adds ``files`` to the settings of a job with a language model in a
        local folder: the folder's checksum, by its path.
        """
        return lambda wildcards: {**settings(wildcards), **self._files(wildcards)}

    def _files(self, wildcards: Any) -> dict[str, dict[str, str]]:
        settings = self.studies[wildcards.study].language_models[wildcards.model]
        if settings.model is not None and Path(settings.model).exists():
            return {"files": {settings.model: checksum_of(settings.model)}}
        # Missing files count as unchanged, so that Snakemake removes nothing that needs them.
        manifest = Path(MODELS.format(**wildcards))
        files = records.read_json(manifest).get("files") if manifest.is_file() else None
        return {"files": files} if files else {}

    def scoring_models(self, wildcards: Any) -> str:
        """Return the manifest of the models that score sentences: the study's own, or another
        study's if nothing is trained.
        """
        return self._models(wildcards.study, wildcards.corpus, wildcards.model)

    def training_gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs of a job that trains language models; 0 if the models are used
        as released.
        """
        model = self.studies[wildcards.study].language_models[wildcards.model]
        return gpus(model.device) if model.train else 0

    def scoring(self, wildcards: Any) -> dict[str, Any]:
        """Return the scoring settings of a language model; the job that gathers the shards' scores
        runs on the CPU.
        """
        study = self.studies[wildcards.study]
        settings = study.scoring.model_dump(mode="json")
        if study.scoring.shards > 1 and "shard" not in dict(wildcards):
            settings["device"] = "cpu"
        return {
            **settings,
            "trust_remote_code": study.language_models[wildcards.model].trust_remote_code,
            **self._files(wildcards),
        }

    def scoring_gpus(self, wildcards: Any) -> int:
        """Return the number of GPUs of a job that scores sentences or gathers their scores."""
        return gpus(self.scoring(wildcards)["device"])

    def shards(self, wildcards: Any) -> list[str]:
        """Return the marker files of the shards that a job waits for; an empty list for a job that
        scores one shard, or everything.
        """
        count = self.studies[wildcards.study].scoring.shards
        if count == 1 or "shard" in dict(wildcards):
            return []
        base = LIKELIHOODS.format(**wildcards).removesuffix(".parquet")
        return [f"{base}-{shard}.done" for shard in range(count)]

    def likelihoods(self, wildcards: Any) -> list[str]:
        """Return the paths of every language model's likelihoods, in configuration order."""
        models = self.studies[wildcards.study].language_models
        return [LIKELIHOODS.format(**wildcards, model=model) for model in models]

    def eta_likelihoods(self, wildcards: Any) -> str:
        """Return the path of the likelihoods used to estimate class probabilities."""
        return LIKELIHOODS.format(**wildcards, model=self._eta_model(wildcards.study))

    def folds(self, wildcards: Any) -> int:
        """Return the simpler baselines' fold count: that of the first trained language model, or 2
        if none is trained.
        """
        models = self.studies[wildcards.study].language_models.values()
        return next((model.folds for model in models if model.train), 2)

    def _corpus(self, dataset: Any) -> str:
        return dataset["corpus"] or next(iter(runs.corpora(self.studies[dataset["text"]])))

    def _eta_model(self, study: str) -> str:
        return self.studies[study].eta.language_model or next(
            iter(self.studies[study].language_models)
        )

    def _models(self, study: str, corpus: str, model: str) -> str:
        settings = self.studies[study].language_models[model]
        is_used_unchanged = settings.start is not None and not settings.train
        return (
            _started_from(settings)
            if is_used_unchanged
            else MODELS.format(study=study, corpus=corpus, model=model)
        )


def _started_from(settings: LanguageModelSettings) -> Any:
    """Return the manifest of the models named by ``start``; an empty list (no input files) if there
    are none.
    """
    if settings.start is None:
        return []
    study, corpus, model = settings.start.split("/")
    return MODELS.format(study=study, corpus=corpus, model=model)
