"""Zero-shot classification: a class's negative and positive prompt are compared by their scores with an image."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.pairs import EmbeddedRun, Measured, each_split, measurable, of_classes
from trueneg.evaluation.retrieval import as_array
from trueneg.evaluation.roc import areas_by_class, known_labels
from trueneg.stats.measurement import Measurement


class PromptPair(NamedTuple):
    """The two sentences that stand for a class.

    Attributes:
        negative: tells that the finding is absent.
        positive: tells that it is present.
    """

    negative: str
    positive: str


# Sample-Specific Debiasing (2023), Table 2. The paper's main text writes them with full stops, the table without.
PROMPTS: Mapping[str, PromptPair] = MappingProxyType(
    {
        "pneumonia": PromptPair("No signs of pneumonia", "Findings suggesting pneumonia"),
        "cardiomegaly": PromptPair("Heart size normal", "Cardiomegaly"),
        "edema": PromptPair("No pulmonary edema", "Pulmonary edema"),
        "effusion": PromptPair("No pleural effusions", "Pleural effusions"),
        "pneumothorax": PromptPair("No pneumothorax", "Pneumothorax"),
    }
)


def measure(runs: Sequence[EmbeddedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Areas under the ROC curve and accuracies, of the labels that have prompts."""
    for run, split in each_split(runs):
        prompts, labels = prompts_of(run.source, settings), run.labels(split)
        names = [name for name in measurable(labels, run.source.label_names) if name in prompts]
        if names:
            scores = run.similarities([text for name in names for text in prompts[name]], split)
            found = zero_shot_metrics(scores[::2].T, scores[1::2].T, labels[:, run.columns(names)], names)
            for metric, by_class in found.items():
                yield from of_classes(run, split, Measurement("zero-shot", metric), by_class)


def prompts_of(source: PairSource, settings: Mapping[str, Any]) -> Mapping[str, PromptPair]:
    """The prompts of ``evaluation.zero_shot``, by label; those of the paper if none are given."""
    given = settings["zero_shot"]["prompts"]
    if given is None:
        return PROMPTS
    unknown = sorted(set(given) - set(source.label_names))
    if unknown:
        raise UserError(
            f"evaluation.zero_shot.prompts names {', '.join(unknown)}, expected labels of {source.name}: "
            f"{', '.join(source.label_names)}."
        )
    return {name: PromptPair(**pair) for name, pair in given.items()}


def zero_shot_metrics(negative_scores, positive_scores, labels, class_names: Sequence[str]) -> dict[str, dict[str, float]]:
    r"""AUC and accuracy of every class, from the scores of an image with the class's two prompts.

    ``"AUC"`` ranks images by :math:`s_+ - s_-`; the softmax over the two prompts orders them alike, whatever the
    logit scale. ``"AUC positive prompt"`` ranks by :math:`s_+` alone, which is another number: Sample-Specific
    Debiasing (2023) does not say which it reports. ``"ACC"`` is the share of images whose higher score is that of
    the right prompt (section 3.2); of equal scores the negative prompt wins.

    Args:
        negative_scores: (n, K) image-sentence scores with each class's negative prompt.
        positive_scores: (n, K) with its positive prompt.
        labels: (n, K) of 1, 0, −1 (uncertain) and NaN (missing); the last two are left out, class by class.
        class_names: K distinct names.

    Returns:
        Metric → class → value; the class ``"mean"`` is the mean over classes.

    Example:
        >>> negative, positive = np.array([[0.2], [0.3], [0.1]]), np.array([[0.1], [0.4], [0.9]])
        >>> metrics = zero_shot_metrics(negative, positive, np.array([[0], [0], [1]]), ["edema"])
        >>> metrics["AUC"]["edema"], round(metrics["ACC"]["edema"], 3)
        (1.0, 0.667)
    """
    negative_scores, positive_scores, labels = as_array(negative_scores), as_array(positive_scores), known_labels(labels)
    metrics = {
        "AUC": areas_by_class(positive_scores - negative_scores, labels, class_names),
        "AUC positive prompt": areas_by_class(positive_scores, labels, class_names),
    }
    right = np.where(np.isnan(labels), np.nan, (positive_scores > negative_scores) == labels)
    metrics["ACC"] = dict(zip(class_names, np.nanmean(right, axis=0).tolist(), strict=True))
    return {metric: {**values, "mean": float(np.mean(list(values.values())))} for metric, values in metrics.items()}
