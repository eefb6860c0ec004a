"""Zero-shot classification: compare an image's scores for the negative and the positive prompt of a
class.
"""

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy import ndarray

from trueneg.errors import UserError
from trueneg.evaluation.pairs import EmbeddedPairs, Measured, measurable, of_classes
from trueneg.evaluation.roc import areas_by_class
from trueneg.specs.sections import Section
from trueneg.specs.tasks.base import SPLITS
from trueneg.stats.measurement import Measurement

log = logging.getLogger(__name__)

# Sample-Specific Debiasing (2023), Table 2. The prompts have full stops in the paper's main text
# but not in the table.
PROMPTS: Mapping[str, Mapping[str, str]] = {
    "pneumonia": {"negative": "No signs of pneumonia", "positive": "Findings suggesting pneumonia"},
    "cardiomegaly": {"negative": "Heart size normal", "positive": "Cardiomegaly"},
    "edema": {"negative": "No pulmonary edema", "positive": "Pulmonary edema"},
    "effusion": {"negative": "No pleural effusions", "positive": "Pleural effusions"},
    "pneumothorax": {"negative": "No pneumothorax", "positive": "Pneumothorax"},
}


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield areas under the ROC curve and accuracies for labels with prompts."""
    for run, split in itertools.product(runs, SPLITS):
        prompts = prompts_of(run, settings)
        names = [
            name
            for name in measurable(run.labels(split), run.source.label_names)
            if name in prompts
        ]
        if names:
            texts = [prompts[name][sign] for name in names for sign in ("negative", "positive")]
            counts = (~np.isnan(run.labels(split, names))).sum(0).tolist()
            log.info(
                f"zero-shot, {split}: images with a known label:"
                f" {dict(zip(names, counts, strict=True))}",
            )
            scores = run.similarities(texts, split)
            metrics = zero_shot_metrics(
                scores[::2].T, scores[1::2].T, run.labels(split, names), names
            )
            for metric, by_class in metrics.items():
                yield from of_classes(run, split, Measurement("zero-shot", metric), by_class)


def prompts_of(run: EmbeddedPairs, settings: Section) -> Mapping[str, Mapping[str, str]]:
    """Return the prompts of ``evaluation.zero_shot`` by label, or :data:`PROMPTS`; none if nothing
    can embed them.
    """
    source = run.source
    prompts = settings["zero_shot"]["prompts"]
    if "path" in run.networks.settings["text_encoder"]:
        log.warning(
            "text_encoder is a file of vectors, so prompts cannot be embedded and nothing is"
            " measured with them"
        )
        return {}
    if prompts is None:
        return PROMPTS
    unknown = sorted(set(prompts) - set(source.label_names))
    if unknown:
        raise UserError(
            f"evaluation.zero_shot.prompts contains unknown labels: {', '.join(unknown)}; expected"
            f" labels of {source.name}: {', '.join(source.label_names)}."
        )
    return prompts


def zero_shot_metrics(
    negative, positive, labels: ndarray, class_names: Sequence[str]
) -> dict[str, dict[str, float]]:
    r"""Compute AUC and accuracy of every class from the scores of images for the class's two
    prompts.

    ``"AUC"`` ranks images by :math:`s_+ - s_-`; the softmax over the two prompts gives the same
    order for any logit scale. ``"AUC positive prompt"`` ranks by :math:`s_+` alone and generally
    differs; Sample-Specific Debiasing (2023) does not say which one it reports. ``"ACC"`` is the
    share of images for which the correct prompt has the higher score (section 3.2); the negative
    prompt wins ties.

    Args:
        negative: (n, K) scores of images for each class's negative prompt.
        positive: (n, K) scores of images for each class's positive prompt.
        labels: (n, K) with values 1, 0 or NaN (unknown); unknown labels are ignored, class by
            class.
        class_names: K distinct names.

    Returns:
        Metric → class → value; the class ``"mean"`` is the mean over classes.

    Example:
        >>> negative, positive = np.array([[0.2], [0.3], [0.1]]), np.array([[0.1], [0.4], [0.9]])
        >>> metrics = zero_shot_metrics(negative, positive, np.array([[0], [0], [1]]), ["edema"])
        >>> metrics["AUC"]["edema"], round(metrics["ACC"]["edema"], 3)
        (1.0, 0.667)
    """
    right = np.where(np.isnan(labels), np.nan, (positive > negative) == labels)
    shares = dict(zip(class_names, np.nanmean(right, axis=0).tolist(), strict=True))
    return {
        "AUC": areas_by_class(positive - negative, labels, class_names),
        "AUC positive prompt": areas_by_class(positive, labels, class_names),
        "ACC": shares | {"mean": float(np.mean(list(shares.values())))},
    }
