"""Paths and parameters that the rules need from the likelihood studies, by a job's wildcards."""

from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.specs.resources import gpus

MODELS = "results/{study}/text/{corpus}/language_models/{model}.json"
LIKELIHOODS = "results/{study}/text/{corpus}/likelihoods/{model}.parquet"


class Corpora:
    """Paths and parameters of the corpora of sentences; most methods take a job's wildcards.

    Attributes:
        studies: the likelihood studies, by name.
        captioned: the names of the studies that use captions as sentences.
    """

    def __init__(self, configuration: Configuration):
        self.studies = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
        self.captioned = {name for name, study in self.studies.items() if study.reports.captions}

    def of(self, source: str) -> set[str]:
        """Return the names of the studies that use a given source of reports."""
        return {name for name, study in self.studies.items() if study.reports.source == source}

    def each_corpus(self, pattern: str) -> list[str]:
        """Fill in the pattern for every corpus of every likelihood study."""
        return [
            pattern.format(study=name, corpus=corpus) for name, study in self.studies.items() for corpus in runs.corpora(study)
        ]

    def table(self, dataset: Any, name: str) -> str:
        """Return the path of a table of the corpus that provides the texts of an image–text data set."""
        corpus = dataset["corpus"] or next(iter(runs.corpora(self.studies[dataset["text"]])))
        return f"results/{dataset['text']}/text/{corpus}/{name}.parquet"

    def initial_models(self, wildcards: Any) -> str | list[str]:
        """Return the models of another study from which training starts; an empty list if there are none."""
        start = self.studies[wildcards.study].language_models[wildcards.model].start
        return [] if start is None else MODELS.format(**dict(zip(("study", "corpus", "model"), start.split("/"), strict=True)))

    def scoring_models(self, wildcards: Any) -> str | list[str]:
        """Return the models used for scoring: the study's own, or those of another study if they are not trained further."""
        own = MODELS.format(**wildcards)
        is_trained = self.studies[wildcards.study].language_models[wildcards.model].train
        return own if is_trained else self.initial_models(wildcards) or own

    def training_gpus(self, wildcards: Any) -> int:
        """Return the GPUs of a job that trains language models; none if the models are used as released."""
        model = self.studies[wildcards.study].language_models[wildcards.model]
        return gpus(model.device) if model.train else 0

    def scoring(self, wildcards: Any) -> dict[str, Any]:
        """Return the scoring settings of a language model; the job that gathers the scores of shards runs on the CPU."""
        study = self.studies[wildcards.study]
        trusted = study.language_models[wildcards.model].trust_remote_code
        gathers = study.scoring.shards > 1 and "shard" not in dict(wildcards)
        device = {"device": "cpu"} if gathers else {}
        return {**study.scoring.model_dump(mode="json"), **device, "trust_remote_code": trusted}

    def scoring_gpus(self, wildcards: Any) -> int:
        """Return the GPUs of a job that scores sentences or gathers their scores."""
        return gpus(self.scoring(wildcards)["device"])

    def shards(self, wildcards: Any) -> list[str]:
        """Return the marker files of finished shards; an empty list if one job scores everything."""
        count = self.studies[wildcards.study].scoring.shards
        base = LIKELIHOODS.format(**wildcards).removesuffix(".parquet")
        return [f"{base}-{shard}.done" for shard in range(count)] if count > 1 else []

    def likelihoods(self, wildcards: Any) -> list[str]:
        """Return the likelihoods of every language model in configuration order."""
        models = self.studies[wildcards.study].language_models
        return [LIKELIHOODS.format(**wildcards, model=model) for model in models]

    def eta_likelihoods(self, wildcards: Any) -> str:
        """Return the likelihoods used to estimate class probabilities."""
        study = self.studies[wildcards.study]
        return LIKELIHOODS.format(**wildcards, model=study.eta.language_model or next(iter(study.language_models)))

    def folds(self, wildcards: Any) -> int:
        """Return the number of folds for the simple scorers: that of the first trained language model, or 2."""
        models = self.studies[wildcards.study].language_models.values()
        return next((model.folds for model in models if model.train), 2)
