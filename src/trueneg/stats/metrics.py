"""How measurements are called and how their values are written, in sentences, tables and figures."""

import math
import re
from typing import NamedTuple


class _Measure(NamedTuple):
    """How one kind of metric is shown."""

    name: str
    scale: float = 1.0
    unit: str = ""
    unit_of_differences: str = ""
    decimals: int = 1
    higher_is_better: bool = True


def _percent(name: str) -> _Measure:
    return _Measure(name, 100.0, "%", "points")


# By the beginning of the metric's name; what follows it is a class. The longer of two beginnings stands first.
_MEASURES = {
    "accuracy": _percent("accuracy"),
    "ACC": _percent("accuracy"),
    "AUC positive prompt": _Measure("AUC of the positive prompt alone", decimals=3),
    "AUC": _Measure("AUC", decimals=3),
    "CNR signed": _Measure("CNR with its sign", decimals=3),
    "CNR": _Measure("CNR", decimals=3),
    "mIoU": _Measure("mean IoU", decimals=3),
    "Recall": _percent("mean recall"),
    "Prec": _percent("mean precision"),
    "MedR": _Measure("median rank", unit_of_differences="ranks", higher_is_better=False),
}
_AT_K = re.compile(r"((?:R|Prec)@\d+)(?: (.+))?")
_DIRECTIONS = ("text to image", "image to text")


def written(value: float, metric: str, signed: bool = False) -> str:
    """A value as text without its unit: shares times 100, with one decimal (two where one would read as zero); AUC, CNR and IoU
    with three.

    Args:
        value: in the metric's own unit; NaN becomes a dash.
        metric: tells the scale.
        signed: with a plus sign where positive, for differences.

    Example:
        >>> written(0.9184, "accuracy"), written(-0.0191, "accuracy rare", signed=True)
        ('91.8', '−1.9')
        >>> written(0.8617, "AUC edema"), written(0.104, "text to image R@10"), written(115, "MedR")
        ('0.862', '10.4', '115.0')
    """
    if math.isnan(value):
        return "–"
    scaled, decimals = value * scale(metric), _measure(metric).decimals
    smallest = 10.0**-decimals
    if 0.05 * smallest <= abs(scaled) < 0.95 * smallest:
        decimals += 1
    text = f"{abs(scaled):.{decimals}f}"
    zero = float(text) == 0
    sign = "" if zero else "−" if scaled < 0 else "+" if signed else ""
    return sign + text


def scale(metric: str) -> float:
    """By what a metric's values are multiplied to be shown: accuracies and recalls are shown in percent."""
    return _measure(metric).scale


def unit(metric: str, difference: bool = False) -> str:
    """The unit in which :func:`written` shows a metric, such as "%", or "points" for a difference of accuracies; may be empty."""
    measure = _measure(metric)
    return measure.unit_of_differences if difference else measure.unit


def higher_is_better(metric: str) -> bool:
    """Whether a larger value is the better one: so it is, but for ranks.

    Example:
        >>> higher_is_better("AUC"), higher_is_better("text to image MedR")
        (True, False)
    """
    return _measure(metric).higher_is_better


def group_name(metric: str) -> str:
    """Of which classes a metric is; the metric itself where it is no accuracy and names no class.

    Example:
        >>> group_name("accuracy rare"), group_name("accuracy"), group_name("accuracy dog"), group_name("AUC edema")
        ('rare classes', 'all classes', 'dog', 'edema')
    """
    measured, group = _parted(metric)
    if measured != "accuracy":
        return {"": metric, "macro": "the mean of findings"}.get(group, group)
    return {"": "all classes", "rare": "rare classes", "common": "common classes"}.get(group, group)


def metric_name(metric: str) -> str:
    """What a metric measures, and on which classes.

    Example:
        >>> metric_name("accuracy rare"), metric_name("accuracy"), metric_name("AUC edema")
        ('accuracy on rare classes', 'accuracy', 'AUC on edema')
        >>> metric_name("text to image R@10"), metric_name("image to text MedR"), metric_name("mIoU")
        ('R@10 from text to image', 'median rank from image to text', 'mean IoU')
    """
    direction, rest = _directed(metric)
    group = _parted(rest)[1]
    return _measure(rest).name + (f" on {group_name(rest)}" if group else "") + (f" from {direction}" if direction else "")


def task_name(task: str) -> str:
    """What an evaluation is called."""
    return "kNN" if task == "knn" else task


def _measure(metric: str) -> _Measure:
    """How a metric is shown; one that nobody knows as a plain number."""
    name = _parted(_directed(metric)[1])[0]
    return _percent(name) if _AT_K.fullmatch(name) else _MEASURES.get(name, _Measure(metric))


def _parted(metric: str) -> tuple[str, str]:
    """What is measured, and on which class or classes (may be empty)."""
    at_k = _AT_K.fullmatch(metric)
    if at_k is not None:
        return at_k[1], at_k[2] or ""
    for name in _MEASURES:
        if metric == name or metric.startswith(f"{name} "):
            return name, metric[len(name) + 1 :]
    return metric, ""


def _directed(metric: str) -> tuple[str, str]:
    """The direction of a retrieval (may be empty), and what is measured."""
    direction = next((name for name in _DIRECTIONS if metric.startswith(f"{name} ")), "")
    return direction, metric.removeprefix(direction).lstrip()
