"""The typed model of a likelihood study: from reports to sentences, their likelihoods, and class probabilities."""

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
    """A masked language model: trained or fine-tuned on reports other than those it scores, or used as released."""

    model: PathText | None = Field(None, description="hub name or folder to take or begin with; none: a small BERT from scratch")
    revision: str | None = Field(None, description="of a hub model: a commit, so that it cannot change")
    trust_remote_code: Boolean = Field(False, description="run code shipped with the hub model, which some models require")
    start: str | None = Field(
        None, description="STUDY/CORPUS/NAME: start from another study's language models instead of `model`"
    )
    train: Boolean = Field(True, description="false: score with the model as it is")
    folds: AtLeastTwo = Field(2, description="each report is scored by a model that was trained on other folds")
    validation: OpenFraction = Field(0.1, description="share of a model's reports held out to tell when to stop")
    validation_sentences: Count = Field(300, description="held-out sentences that the pseudo-perplexity is measured on")
    epochs: Count = Field(6, description="at most")
    patience: Count = Field(2, description="epochs without a lower held-out pseudo-perplexity before it stops")
    batch_size: Count = Field(64, description="sentences per update")
    learning_rate: Positive = Field(2e-3, description="of AdamW; lower it where a trained model is the beginning")
    weight_decay: NonNegative = Field(0.01, description="of AdamW")
    warmup: Share = Field(0.1, description="share of the updates in which the learning rate rises")
    mask_share: OpenFraction = Field(0.2, description="share of a sentence's tokens that are masked, at least one")
    vocabulary: Count = Field(2048, description="tokens of a tokenizer trained here, at most")
    hidden: Count = Field(128, description="width, from scratch")
    layers: Count = Field(2, description="from scratch")
    heads: Count = Field(2, description="of attention, from scratch")
    longest: Count = Field(128, description="tokens of a sentence, from scratch; longer ones are scored by windows")
    threads: Count = technical(1, "intra-op threads")

    @model_validator(mode="after")
    def _one_initialisation(self):
        if self.model is not None and self.start is not None:
            raise ValueError(" sets both model and start; expected only one")
        if not self.train and self.model is None and self.start is None:
            raise ValueError(".train is false, but neither model nor start says what to score with")
        if self.hidden % self.heads:
            raise ValueError(f".heads is {self.heads}, which does not divide hidden, {self.hidden}")
        return self


class ScoringSettings(JobResources):
    """Pseudo-log-likelihood (Salazar et al., 2020)."""

    variant: Literal["original", "within_word_l2r", "causal"] = Field(
        "original",
        description="original; within_word_l2r: later pieces of a word are masked too; causal: a causal model's chain rule",
    )
    tokens_per_batch: Count | None = technical(None, "tokens of a batch of masked copies; none: what suits the device")
    device: Device = technical("auto", "as for a language model")
    shards: Count = technical(1, "jobs that share the work, one per GPU")
    runtime: Count = technical(240, "minutes that a job, which trains or scores, may take on a cluster")


class EtaSettings(Settings):
    """η = a·p^k, as in the first paper."""

    language_model: str | None = Field(None, description="whose likelihoods; none: the first one's")
    a: Positive = Field(0.2, description="η of a sentence with likelihood 1")
    k: NonNegative = Field(0.35, description="exponent")
    maximum: OpenFraction = Field(0.9, description="largest η")
    per_token: Boolean = Field(False, description="use the mean log-likelihood of a token (not the paper's)")


class LikelihoodStudy(Study):
    """A text study: sentence likelihoods, class probabilities derived from them, and how well the two agree."""

    kind: Literal["likelihood"] = Field(description="likelihood: sentences, their likelihoods, and class probabilities")
    reports: AnyText
    language_models: dict[Name, LanguageModelSettings] = Field(min_length=1, description="whose likelihoods are compared")
    scoring: ScoringSettings = Field(default_factory=ScoringSettings)
    eta: EtaSettings = Field(default_factory=EtaSettings)
    seed: Seed = Field(0, description="of folds, weights and draws")
    processes: Count = technical(2, "that split sentences at the same time")
