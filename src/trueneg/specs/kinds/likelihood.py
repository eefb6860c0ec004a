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
    Technical,
)


class LanguageModelSettings(ResumableResources):
    """A masked language model: trained or fine-tuned on reports that it does not score, or used as
    released.
    """

    model: PathText | None = None
    """hub name or folder of an initial model; none: a small BERT from scratch"""
    revision: str | None = None
    """commit of a hub model, which pins its version"""
    trust_remote_code: Boolean = False
    """run code from the hub, which some models require"""
    start: str | None = None
    """STUDY/CORPUS/NAME: initial models from another study, instead of `model`"""
    train: Boolean = True
    """false: score with the initial model, without training"""
    folds: AtLeastTwo = 2
    """each report is scored by a model trained on the other folds"""
    validation: OpenFraction = 0.1
    """fraction of a model's reports held out for early stopping"""
    validation_sentences: Count = 300
    """held-out sentences used to measure the pseudo-perplexity"""
    epochs: Count = 6
    """maximum number of epochs"""
    patience: Count = 2
    """epochs without a lower held-out pseudo-perplexity before training stops"""
    batch_size: Count = 64
    """sentences per update"""
    learning_rate: Positive = 2e-3
    """learning rate of AdamW; use a lower one for fine-tuning"""
    weight_decay: NonNegative = 0.01
    """weight decay of AdamW"""
    warmup: Share = 0.1
    """fraction of the updates over which the learning rate increases"""
    mask_share: OpenFraction = 0.2
    """fraction of a sentence's tokens to mask, at least one token"""
    vocabulary: Count = 2048
    """maximum vocabulary size of a new tokenizer"""
    hidden: Count = 128
    """width of a new model"""
    layers: Count = 2
    """layers of a new model"""
    heads: Count = 2
    """attention heads of a new model"""
    longest: Count = 128
    """maximum input of a new model, in tokens; longer sentences are scored in windows"""
    threads: Technical[Count] = 1
    """intra-op threads per process"""

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

    variant: Literal["original", "within_word_l2r", "causal"] = "original"
    """within_word_l2r: later pieces of a word are masked too; causal: chain rule with a causal
    model
    """
    tokens_per_batch: Technical[Count | None] = None
    """tokens per batch of masked copies; none: chosen for the device"""
    device: Technical[Device] = "auto"
    """device for scoring; same values as `device` of a language model"""
    shards: Technical[Count] = 1
    """number of jobs to split the scoring into, one per GPU"""
    runtime: Technical[Count] = 240
    """time limit of a training or scoring job on a cluster, in minutes"""


class EtaSettings(Settings):
    """η = a·p^k for a sentence with likelihood p, as in Sample-Specific Debiasing."""

    language_model: str | None = None
    """language model that provides the likelihoods; none: the first one"""
    a: Positive = 0.2
    """η of a sentence with likelihood 1"""
    k: NonNegative = 0.35
    """exponent"""
    maximum: OpenFraction = 0.9
    """maximum of η"""
    per_token: Boolean = False
    """use the mean log-likelihood per token (unlike the paper)"""


class LikelihoodStudy(Study):
    """A likelihood study: sentence likelihoods, class probabilities derived from them, and their
    agreement with known classes.
    """

    CHECKED_BY = "trueneg.config.checks.likelihood:contradictions"
    DESCRIBED_BY = "trueneg.cli.check:describe_likelihood"
    FOUND_BY = "trueneg.report.findings:of_likelihoods"
    is_scored = True

    kind: Literal["likelihood"]
    """likelihood: compute likelihoods and class probabilities of sentences"""
    reports: AnyText
    language_models: dict[Name, LanguageModelSettings] = Field(min_length=1)
    """language models to compare"""
    scoring: ScoringSettings = Field(default_factory=ScoringSettings)
    eta: EtaSettings = Field(default_factory=EtaSettings)
    seed: Seed = 0
    """seed of folds, weights and random draws"""
    processes: Technical[Count] = 2
    """number of processes that split reports into sentences"""
