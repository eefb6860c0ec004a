"""The typed model of a likelihood study: reports, sentences, their likelihoods and class
probabilities.
"""

from typing import Literal

from pydantic import Field, model_validator

from trueneg.specs.pairs import AnyText
from trueneg.specs.resources import Device, JobResources, ResumableResources
from trueneg.specs.settings import (
    AtLeastTwo,
    Boolean,
    Count,
    Name,
    NonNegative,
    OpenFraction,
    PathText,
    Positive,
    Seed,
    Settings,
    Share,
    Study,
    technical,
)


class LanguageModelSettings(ResumableResources):
    """A masked language model: trained or fine-tuned on reports that it does not score, or used as
    released.
    """

    model: PathText | None = Field(
        None, description="hub name or folder of an initial model; none: a small BERT from scratch"
    )
    revision: str | None = Field(None, description="commit of a hub model, which pins its version")
    trust_remote_code: Boolean = Field(
        False, description="run code from the hub, which some models require"
    )
    start: str | None = Field(
        None, description="STUDY/CORPUS/NAME: initial models from another study, instead of `model`"
    )
    train: Boolean = Field(
        True, description="false: score with the initial model, without training"
    )
    folds: AtLeastTwo = Field(
        2, description="each report is scored by a model trained on the other folds"
    )
    validation: OpenFraction = Field(
        0.1, description="fraction of a model's reports held out for early stopping"
    )
    validation_sentences: Count = Field(
        300, description="held-out sentences used to measure the pseudo-perplexity"
    )
    epochs: Count = Field(6, description="maximum number of epochs")
    patience: Count = Field(
        2, description="epochs without a lower held-out pseudo-perplexity before training stops"
    )
    batch_size: Count = Field(64, description="sentences per update")
    learning_rate: Positive = Field(
        2e-3, description="learning rate of AdamW; use a lower one for fine-tuning"
    )
    weight_decay: NonNegative = Field(0.01, description="weight decay of AdamW")
    warmup: Share = Field(
        0.1, description="fraction of the updates over which the learning rate increases"
    )
    mask_share: OpenFraction = Field(
        0.2, description="fraction of a sentence's tokens to mask, at least one token"
    )
    vocabulary: Count = Field(2048, description="maximum vocabulary size of a new tokenizer")
    hidden: Count = Field(128, description="width of a new model")
    layers: Count = Field(2, description="layers of a new model")
    heads: Count = Field(2, description="attention heads of a new model")
    longest: Count = Field(
        128,
        description=(
            "maximum input of a new model, in tokens; longer sentences are scored in windows"
        ),
    )
    threads: Count = technical(1, "intra-op threads per process")

    @model_validator(mode="after")
    def _one_initialisation(self):
        if self.model is not None and self.start is not None:
            raise ValueError(" sets both model and start; expected only one of them")
        if not self.train and self.model is None and self.start is None:
            raise ValueError(".train is false, but neither model nor start is set; set one of them")
        if self.hidden % self.heads:
            raise ValueError(f".heads is {self.heads}; expected a divisor of hidden, {self.hidden}")
        return self


class ScoringSettings(JobResources):
    """Pseudo-log-likelihood (Salazar et al., 2020)."""

    variant: Literal["original", "within_word_l2r", "causal"] = Field(
        "original",
        description=(
            "within_word_l2r: later pieces of a word are masked too; causal: chain rule with a"
            " causal model"
        ),
    )
    tokens_per_batch: Count | None = technical(
        None, "tokens per batch of masked copies; none: chosen for the device"
    )
    device: Device = technical(
        "auto", "device for scoring; same values as `device` of a language model"
    )
    shards: Count = technical(1, "number of jobs to split the scoring into, one per GPU")
    runtime: Count = technical(
        240, "time limit of a training or scoring job on a cluster, in minutes"
    )


class EtaSettings(Settings):
    """η = a·p^k for a sentence with likelihood p, as in Sample-Specific Debiasing."""

    language_model: str | None = Field(
        None, description="language model that provides the likelihoods; none: the first one"
    )
    a: Positive = Field(0.2, description="η of a sentence with likelihood 1")
    k: NonNegative = Field(0.35, description="exponent")
    maximum: OpenFraction = Field(0.9, description="maximum of η")
    per_token: Boolean = Field(
        False, description="use the mean log-likelihood per token (unlike the paper)"
    )


class LikelihoodStudy(Study):
    """A likelihood study: sentence likelihoods, class probabilities derived from them, and their
    agreement with known classes.
    """

    CHECKED_BY = "trueneg.config.checks.likelihood:contradictions"
    DESCRIBED_BY = "trueneg.cli.check:describe_likelihood"
    FOUND_BY = "trueneg.report.findings:of_likelihoods"
    is_scored = True

    kind: Literal["likelihood"] = Field(
        description="likelihood: compute likelihoods and class probabilities of sentences"
    )
    reports: AnyText
    language_models: dict[Name, LanguageModelSettings] = Field(
        min_length=1, description="language models to compare"
    )
    scoring: ScoringSettings = Field(default_factory=ScoringSettings)
    eta: EtaSettings = Field(default_factory=EtaSettings)
    seed: Seed = Field(0, description="seed of folds, weights and random draws")
    processes: Count = technical(2, "number of processes that split reports into sentences")
