"""What the rules ask of the likelihood studies: paths and parameters by a job's wildcards."""

from typing import Any

from trueneg.config import runs
from trueneg.config.configuration import Configuration
from trueneg.config.likelihood_study import LikelihoodStudy

MODELS = "results/{study}/text/{corpus}/language_models/{model}.json"
LIKELIHOODS = "results/{study}/text/{corpus}/likelihoods/{model}.parquet"


class Corpora:
    """The corpora of sentences; most methods take a job's wildcards.

    Attributes:
        studies: the likelihood studies, by name.
        captioned: the names of those whose sentences are captions.
    """

    def __init__(self, configuration: Configuration):
        self.studies = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
        self.captioned = {name for name, study in self.studies.items() if study.reports.captions}

    def of(self, source: str) -> set[str]:
        """The names of the studies whose reports are of a source."""
        return {name for name, study in self.studies.items() if study.reports.source == source}

    def each_corpus(self, pattern: str) -> list[str]:
        """The pattern for every corpus of every likelihood study."""
        return [
            pattern.format(study=name, corpus=corpus) for name, study in self.studies.items() for corpus in runs.corpora(study)
        ]

    def table(self, dataset: Any, name: str) -> str:
        """A table of the corpus that a data set of images with sentences takes its texts from."""
        corpus = dataset["corpus"] or next(iter(runs.corpora(self.studies[dataset["text"]])))
        return f"results/{dataset['text']}/text/{corpus}/{name}.parquet"

    def initial_models(self, wildcards: Any) -> str | list[str]:
        """The models of another study that a training starts from, if there are any."""
        start = self.studies[wildcards.study].language_models[wildcards.model].start
        return [] if start is None else MODELS.format(**dict(zip(("study", "corpus", "model"), start.split("/"), strict=True)))

    def scoring_models(self, wildcards: Any) -> str | list[str]:
        """The models that score: a study's own, or another's that it does not train further."""
        own = MODELS.format(**wildcards)
        is_trained = self.studies[wildcards.study].language_models[wildcards.model].train
        return own if is_trained else self.initial_models(wildcards) or own

    def scoring(self, wildcards: Any) -> dict[str, Any]:
        """How a language model scores."""
        study = self.studies[wildcards.study]
        trusted = study.language_models[wildcards.model].trust_remote_code
        return {**study.scoring.model_dump(mode="json"), "trust_remote_code": trusted}

    def shards(self, wildcards: Any) -> list[str]:
        """The marks of finished shards; none where one job scores everything."""
        count = self.studies[wildcards.study].scoring.shards
        base = LIKELIHOODS.format(**wildcards).removesuffix(".parquet")
        return [f"{base}-{shard}.done" for shard in range(count)] if count > 1 else []

    def likelihoods(self, wildcards: Any) -> list[str]:
        """Those of every language model, in the order of the configuration."""
        models = self.studies[wildcards.study].language_models
        return [LIKELIHOODS.format(**wildcards, model=model) for model in models]

    def eta_likelihoods(self, wildcards: Any) -> str:
        """Those that class probabilities are estimated from."""
        study = self.studies[wildcards.study]
        return LIKELIHOODS.format(**wildcards, model=study.eta.language_model or next(iter(study.language_models)))

    def folds(self, wildcards: Any) -> int:
        """The folds of the simple scorers: as many as the first language model that is trained has."""
        models = self.studies[wildcards.study].language_models.values()
        return next((model.folds for model in models if model.train), 2)
