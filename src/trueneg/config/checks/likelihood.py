"""What contradicts itself in a likelihood study."""

from collections.abc import Iterator, Mapping

from trueneg.config.checks.names import unknown
from trueneg.config.runs import corpora
from trueneg.specs.kinds.likelihood import LikelihoodStudy


def contradictions(study: LikelihoodStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report unknown names of the language models that provide class probabilities or initial
    weights, and masked models that are to score as causal ones.
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
        if study.scoring.variant == "causal" and model.train:
            yield (
                f"language_models.{label}.train is true, but scoring.variant is causal, and only"
                " masked models are trained; set train to false and `model` to a causal model, or"
                " choose another variant"
            )
        yield from unknown(
            f"language_models.{label}.start",
            [model.start],
            starts,
            "language models in the given files",
        )
