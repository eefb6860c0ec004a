"""How measurements are called and how their values are written, in sentences, tables and figures."""

import math


def written(value: float, metric: str, signed: bool = False) -> str:
    """A value as text without its unit: accuracies times 100, one decimal (two where one would read as zero).

    Args:
        value: in the metric's own unit; NaN becomes a dash.
        metric: tells the scale.
        signed: with a plus sign where positive, for differences.

    Example:
        >>> written(0.9184, "accuracy"), written(-0.0191, "accuracy rare", signed=True)
        ('91.8', '−1.9')
    """
    if math.isnan(value):
        return "–"
    scaled = value * scale(metric)
    decimals = 1 if abs(scaled) >= 0.095 or abs(scaled) < 0.005 else 2
    text = f"{abs(scaled):.{decimals}f}"
    zero = float(text) == 0
    sign = "" if zero else "−" if scaled < 0 else "+" if signed else ""
    return sign + text


def scale(metric: str) -> float:
    """By what a metric's values are multiplied to be shown: accuracies are shown in percent."""
    return 100.0 if metric.startswith("accuracy") else 1.0


def unit(metric: str, difference: bool = False) -> str:
    """The unit in which :func:`written` shows a metric: "%", or "points" for a difference of accuracies."""
    if not metric.startswith("accuracy"):
        return ""
    return "points" if difference else "%"


def group_name(metric: str) -> str:
    """Of which classes an accuracy is.

    Example:
        >>> group_name("accuracy rare"), group_name("accuracy"), group_name("accuracy dog")
        ('rare classes', 'all classes', 'dog')
    """
    name, _, group = metric.partition(" ")
    if name != "accuracy":
        return metric
    return {"": "all classes", "rare": "rare classes", "common": "common classes"}.get(group, group)


def metric_name(metric: str) -> str:
    """What a metric measures: the accuracy on all images, or on those of some classes.

    Example:
        >>> metric_name("accuracy rare"), metric_name("accuracy"), metric_name("accuracy dog")
        ('accuracy on rare classes', 'accuracy', 'accuracy on dog')
    """
    return f"accuracy on {group_name(metric)}" if metric.startswith("accuracy ") else metric


def task_name(task: str) -> str:
    """What an evaluation is called."""
    return "kNN" if task == "knn" else task
