"""What contradicts itself in an image–text study."""

from collections.abc import Iterator, Mapping
from typing import Any

from trueneg.config.checks import trained
from trueneg.config.checks.names import unknown, unknown_dataset
from trueneg.config.checks.needs import needs
from trueneg.config.runs import corpora, of_seed, pilot_seeds
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.specs.settings import values_of


def contradictions(study: ImageTextStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report what contradicts itself in an image–text study."""
    yield from trained.contradictions(study, texts)
    yield from needs(study)
    for name, objective in study.objectives.items():
        if getattr(objective, "hard_negatives", None) is not None:
            yield (
                f"objectives.{name}.hard_negatives is set, but hard negatives are mined in text"
                " studies only; remove it"
            )
    data: Any = study.dataset
    prompts = study.evaluation.zero_shot.prompts or {}
    labels = data.label_names if data.labelled else prompts
    yield from unknown("evaluation.zero_shot.prompts", prompts, labels, "labels")
    yield from unknown("dataset.text", [data.text], texts, "likelihood studies in the given files")
    if data.text in texts:
        yield from _reports(study, texts[data.text])


def _reports(study: ImageTextStudy, scored: LikelihoodStudy) -> Iterator[str]:
    """Report a likelihood study that does not fit."""
    data: Any = study.dataset
    reports: Any = scored.reports
    if reports.source != data.source:
        yield (
            f"dataset.source is {data.source!r}, but the reports of {data.text} come from"
            f" {reports.source!r}"
        )
    seeds = (*pilot_seeds(study), *study.seed_list)
    named = (of_seed({"corpus": data.corpus}, seed)["corpus"] for seed in seeds)
    for corpus in dict.fromkeys(named):
        yield from unknown_dataset("dataset.corpus", corpus, corpora(scored))
    by_text = [
        name
        for name, objective in study.objectives.items()
        if "text" in values_of(getattr(objective, "by", None))
    ]
    if trained.given_negatives(study) and getattr(reports, "split_sentences", False):
        yield (
            f"dataset.negative_image_columns is set, but {data.text}.reports.split_sentences is"
            " true, and the hard negatives of a text are not those of each of its sentences; set it"
            " to false, or remove the columns"
        )
    if by_text and scored.scoring.variant == "causal":
        yield (
            f"objectives.{by_text[0]}.by is text, but {data.text}.scoring.variant is causal;"
            " embeddings need a masked model"
        )
    custom = [name for name, each in scored.language_models.items() if each.trust_remote_code]
    embedding = scored.eta.language_model or next(iter(scored.language_models))
    if by_text and embedding in custom:
        yield (
            f"objectives.{by_text[0]}.by is text, but"
            f" {data.text}.language_models.{embedding}.trust_remote_code is true, and sentences are"
            " embedded without a model's own code; choose another model for"
            f" {data.text}.eta.language_model"
        )
