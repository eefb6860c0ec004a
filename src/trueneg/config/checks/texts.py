"""What contradicts itself in a text study."""

from collections.abc import Iterator, Mapping
from typing import Any

from trueneg.config.checks import trained
from trueneg.config.checks.names import unknown, unknown_dataset
from trueneg.config.checks.needs import needs
from trueneg.config.runs import corpora
from trueneg.specs.encoders import FROZEN
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.texts import TextStudy
from trueneg.specs.settings import values_of


def contradictions(study: TextStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report what contradicts itself in a text study."""
    yield from trained.contradictions(study, texts)
    yield from needs(study)
    data: Any = study.dataset
    for name, objective in study.objectives.items():
        yield from _objective(name, objective)
        if getattr(objective, "hard_negatives", None) is not None:
            yield from _mining(name, study, objective)
    if data.text is not None:
        places = "likelihood studies in the given files"
        yield from unknown("dataset.text", [data.text], texts, places)
    if data.text in texts:
        yield from _scored_texts(data, texts[data.text])


def _objective(name: str, objective: Any) -> Iterator[str]:
    """Report settings for images."""
    if "left out" in values_of(getattr(objective, "own_report", None)):
        yield (
            f"objectives.{name}.own_report is left out, but texts have no reports; remove it,"
            " or set same_text"
        )
    if getattr(getattr(objective, "guide", None), "encoder", None) is not None:
        yield f"objectives.{name}.guide.encoder is a tower of images; set text_encoder instead"


def _mining(name: str, study: TextStudy, objective: Any) -> Iterator[str]:
    """Report hard negatives that cannot be mined."""
    key = f"objectives.{name}.hard_negatives"
    if trained.given_negatives(study):
        yield f"{key} is set, as is dataset.negative_columns; remove one of them"
    if not objective.hard_negatives.in_batch and "both" in values_of(
        getattr(objective, "directions", "both")
    ):
        yield (
            f"{key}.in_batch is false, but directions is both, and anchors of the other direction"
            " have negatives in the batch only; set text"
        )
    positives = values_of(study.dataset.positives)
    if "given" in positives and len(positives) > 1:
        yield (
            f"{key} is set, and dataset.positives is {', '.join(positives)}, but hard negatives are"
            " mined among the given positives; set one value"
        )
    own = study.text_encoder.train == FROZEN and study.positive_encoder is None
    if objective.hard_negatives.text_encoder is None and not own:
        yield (
            f"{key}.text_encoder is missing; expected the frozen tower that mines, because the"
            " study's own is trained, or positives have another"
        )


def _scored_texts(data: Any, study: LikelihoodStudy) -> Iterator[str]:
    """Report a likelihood study of other texts."""
    reports: Any = study.reports
    yield from unknown_dataset("dataset.corpus", data.corpus, corpora(study))
    for key in type(reports).model_fields if reports.source == data.source else ("source",):
        stated = getattr(data, key, None)
        scored = getattr(reports, key)
        if key == "labels":  # only the sets matter, and not what a run draws
            stated, scored = (
                sets and sets.model_dump(exclude={"per_run", "fraction", "texts", "imbalance"})
                for sets in (stated, scored)
            )
        if stated != scored:
            yield (
                f"dataset.{key} is {stated!r}, but {data.text}.reports.{key} is {scored!r};"
                " expected the same"
            )
