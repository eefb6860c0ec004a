"""What contradicts itself in a likelihood study."""

from collections.abc import Iterator, Mapping

from trueneg.config.checks.names import unknown
from trueneg.config.runs import corpora
from trueneg.specs.kinds.likelihood import LikelihoodStudy


def contradictions(study: LikelihoodStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report unknown names of the language models that provide class probabilities or initial
    weights.
    """
    yield from unknown(
        "eta.language_model", [study.eta.language_model], study.language_models, "language models"
    )
    starts = [
        f"{name}/{corpus}/{model}"
        for name, text in texts.items()
        for corpus in corpora(text)
        for model in text.language_models
    ]
    for label, model in study.language_models.items():
        yield from unknown(
            f"language_models.{label}.start",
            [model.start],
            starts,
            "language models in the given files",
        )
