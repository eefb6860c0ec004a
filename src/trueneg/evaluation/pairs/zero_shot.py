"""Zero-shot classification: a class's negative and positive prompt are compared by their scores with an image."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from trueneg.data.pairs.pair_source import PairSource
from trueneg.errors import UserError
from trueneg.evaluation.pairs import EmbeddedRun, Measured, each_split, measurable, of_classes
from trueneg.evaluation.retrieval import as_array
from trueneg.evaluation.roc import areas_by_class
from trueneg.stats.measurement import Measurement

# Sample-Specific Debiasing (2023), Table 2. The paper's main text writes them with full stops, the table without.
PROMPTS: Mapping[str, Mapping[str, str]] = {
    "pneumonia": {"negative": "No signs of pneumonia", "positive": "Findings suggesting pneumonia"},
    "cardiomegaly": {"negative": "Heart size normal", "positive": "Cardiomegaly"},
    "edema": {"negative": "No pulmonary edema", "positive": "Pulmonary edema"},
    "effusion": {"negative": "No pleural effusions", "positive": "Pleural effusions"},
    "pneumothorax": {"negative": "No pneumothorax", "positive": "Pneumothorax"},
}


def measure(runs: Sequence[EmbeddedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Areas under the ROC curve and accuracies, of the labels that have prompts."""
    for run, split in each_split(runs):
        prompts = prompts_of(run.source, settings)
        names = [name for name in measurable(run.labels(split), run.source.label_names) if name in prompts]
        if names:
            texts = [prompts[name][sign] for name in names for sign in ("negative", "positive")]
            scores = run.similarities(texts, split)
            found = zero_shot_metrics(scores[::2].T, scores[1::2].T, run.labels(split, names), names)
            for metric, by_class in found.items():
                yield from of_classes(run, split, Measurement("zero-shot", metric), by_class)


def prompts_of(source: PairSource, settings: Mapping[str, Any]) -> Mapping[str, Mapping[str, str]]:
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
    return given


def zero_shot_metrics(
    negative_scores, positive_scores, labels: np.ndarray, class_names: Sequence[str]
) -> dict[str, dict[str, float]]:
    r"""AUC and accuracy of every class, from the scores of an image with the class's two prompts.

    ``"AUC"`` ranks images by :math:`s_+ - s_-`; the softmax over the two prompts orders them alike, whatever the
    logit scale. ``"AUC positive prompt"`` ranks by :math:`s_+` alone, which is another number: Sample-Specific
    Debiasing (2023) does not say which it reports. ``"ACC"`` is the share of images whose higher score is that of
    the right prompt (section 3.2); of equal scores the negative prompt wins.

    Args:
        negative_scores: (n, K) image-sentence scores with each class's negative prompt.
        positive_scores: (n, K) with its positive prompt.
        labels: (n, K) of 1, 0 and NaN (unknown), which are left out, class by class.
        class_names: K distinct names.

    Returns:
        Metric → class → value; the class ``"mean"`` is the mean over classes.

    Example:
        >>> negative, positive = np.array([[0.2], [0.3], [0.1]]), np.array([[0.1], [0.4], [0.9]])
        >>> metrics = zero_shot_metrics(negative, positive, np.array([[0], [0], [1]]), ["edema"])
        >>> metrics["AUC"]["edema"], round(metrics["ACC"]["edema"], 3)
        (1.0, 0.667)
    """
    negative_scores, positive_scores = as_array(negative_scores), as_array(positive_scores)
    right = np.where(np.isnan(labels), np.nan, (positive_scores > negative_scores) == labels)
    shares = dict(zip(class_names, np.nanmean(right, axis=0).tolist(), strict=True))
    return {
        "AUC": areas_by_class(positive_scores - negative_scores, labels, class_names),
        "AUC positive prompt": areas_by_class(positive_scores, labels, class_names),
        "ACC": shares | {"mean": float(np.mean(list(shares.values())))},
    }
