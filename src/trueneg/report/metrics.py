"""Display names of measurements and formatting of their values in sentences, tables and figures."""

import math
import re

from trueneg.specs.tasks import METRICS
from trueneg.specs.tasks.base import DisplayedMetric
from trueneg.stats.measurement import Measurement

# rank correlation is not a task metric
DISPLAYED = METRICS | {"ρ": DisplayedMetric("rank correlation", decimals=2)}


def format_metric(value: float, metric: str, signed: bool = False) -> str:
    """Format a value without its unit.

    Fractions are multiplied by 100 and have one decimal; AUC, CNR and IoU have three. Values close
    to zero get one more.

    Args:
        value: value in the metric's own unit; NaN becomes a dash.
        metric: name of the metric, which determines scale and decimals.
        signed: whether positive values get a plus sign, as differences do.

    Example:
        >>> format_metric(0.9184, "accuracy"), format_metric(-0.0191, "accuracy", signed=True)
        ('91.8', '−1.9')
        >>> format_metric(0.8617, "AUC"), format_metric(0.104, "R"), format_metric(115, "MedR")
        ('0.862', '10.4', '115.0')
    """
    if math.isnan(value):
        return "–"
    scaled = value * scale(metric)
    decimals = _measure(metric).decimals
    smallest = 10.0**-decimals
    if 0.05 * smallest <= abs(scaled) < 0.95 * smallest:
        decimals += 1
    sign = "+" if signed and float(f"{scaled:.{decimals}f}") else ""
    return minus(f"{scaled:{sign}z.{decimals}f}")


def is_tiny(value: float, metric: str) -> bool:
    """Return whether a difference is below the last decimal that values are shown with.

    Example:
        >>> is_tiny(0.0009, "accuracy"), is_tiny(-0.0011, "accuracy"), is_tiny(0.0009, "AUC")
        (True, False, True)
    """
    return abs(value) * scale(metric) < 10.0 ** -_measure(metric).decimals


def in_unit(value: float, metric: str, shown: str, decimals: int) -> str:
    """Format a value in a paper's unit, with at least the usual number of decimals.

    Args:
        value: value in the metric's own unit; NaN becomes a dash.
        metric: name of the metric.
        shown: ``%``, or empty for the metric's own unit.
        decimals: minimum number of decimals.

    Example:
        >>> (
        ...     in_unit(0.80214, "accuracy", "%", 2),
        ...     in_unit(0.8617, "AUC", "%", 1),
        ...     in_unit(0.1043, "R", "", 2),
        ... )
        ('80.21', '86.2', '0.104')
    """
    factor = 100.0 if shown == "%" else 1.0
    measure = _measure(metric)
    usual = measure.decimals + round(math.log10(measure.scale / factor))
    return "–" if math.isnan(value) else minus(f"{value * factor:z.{max(usual, decimals)}f}")


def with_interval(value: float, low: float, high: float, metric: str, signed: bool = False) -> str:
    """Format a value with its unit and interval.

    Example:
        >>> (
        ...     with_interval(0.012, -0.001, 0.025, "accuracy", signed=True),
        ...     with_interval(float("nan"), 0.0, 0.0, "AUC"),
        ... )
        ('+1.2 points [−0.1, +2.5]', '–')
        >>> with_interval(0.5, float("nan"), float("nan"), "AUC")
        '0.500'
    """
    text = amount(value, metric, signed, difference=signed)
    return (
        text
        if math.isnan(value) or math.isnan(low)
        else f"{text} {interval(low, high, metric, signed)}"
    )


def amount(value: float, metric: str, signed: bool = False, difference: bool = False) -> str:
    """Format a value with its unit."""
    return f"{format_metric(value, metric, signed)} {unit(metric, difference)}".rstrip()


def margin_text(value: float, metric: str) -> str:
    """Format an equivalence margin with its unit and, because it was set and not measured, with all
    its digits.

    Example:
        >>> margin_text(0.0025, "accuracy"), margin_text(0.01, "accuracy"), margin_text(0.02, "AUC")
        ('0.25 points', '1.0 points', '0.020')
    """
    scaled = value * scale(metric)
    usual = format_metric(value, metric)
    text = usual if math.isclose(float(usual), scaled) else f"{scaled:g}"
    return f"{text} {unit(metric, difference=True)}".rstrip()


def interval(low: float, high: float, metric: str, signed: bool = True) -> str:
    """Format an interval in brackets, without its unit."""
    return f"[{', '.join(_ends(low, high, metric, signed))}]"


def ends(low: float, high: float, metric: str, signed: bool = True) -> str:
    """Format the ends of an interval for a sentence, without their unit.

    Example:
        >>> ends(-0.001, 0.025, "accuracy"), ends(0.003, 0.015, "accuracy", signed=False)
        ('−0.1 to +2.5', '0.3 to 1.5')
        >>> ends(0.00004, 0.001, "accuracy")
        '+0.004 to +0.1'
    """
    return " to ".join(_ends(low, high, metric, signed))


def _ends(low: float, high: float, metric: str, signed: bool) -> list[str]:
    """Format the ends of an interval; one that excludes zero must not seem to end there."""
    texts = [format_metric(value, metric, signed) for value in (low, high)]
    if not low * high > 0:
        return texts
    sign = "+" if signed else ""
    return [
        text if re.search("[1-9]", text) else minus(f"{value * scale(metric):{sign}.1g}")
        for text, value in zip(texts, (low, high), strict=True)
    ]


def minus(text: str) -> str:
    """Replace hyphens with minus signs."""
    return text.replace("-", "−")


def scale(metric: str) -> float:
    """Return the display factor of a metric's values; accuracies and recalls are shown in
    percent.
    """
    return _measure(metric).scale


def unit(metric: str, difference: bool = False) -> str:
    """Return the unit of displayed values, such as "%", or of their differences, such as "points";
    may be empty.
    """
    measure = _measure(metric)
    return measure.unit_of_differences if difference else measure.unit


def higher_is_better(metric: str) -> bool:
    """Return whether higher values are better, as for all metrics except ranks.

    Example:
        >>> higher_is_better("AUC"), higher_is_better("MedR")
        (True, False)
    """
    return _measure(metric).higher_is_better is not False


def group_name(of: Measurement) -> str:
    """Return the display name of a measurement's classes, or its metric if it has no group and is
    not an accuracy.

    Example:
        >>> rare = Measurement("knn", "accuracy", group="rare")
        >>> (
        ...     group_name(rare),
        ...     group_name(rare._replace(group=None)),
        ...     group_name(Measurement("zero-shot", "AUC", group="edema")),
        ... )
        ('rare classes', 'all classes', 'edema')
    """
    of_accuracy = {
        None: "all classes",
        "macro": "balanced",
        "rare": "rare classes",
        "common": "common classes",
    }
    named = (
        of_accuracy
        if of.metric == "accuracy"
        else {None: of.metric, "macro": "the mean of findings"}
    )
    return named.get(of.group) or str(of.group)


def metric_name(of: Measurement) -> str:
    """Return the display name of a metric, with its classes and direction.

    Example:
        >>> (
        ...     metric_name(Measurement("knn", "accuracy", group="rare")),
        ...     metric_name(Measurement("zero-shot", "AUC", group="edema")),
        ... )
        ('accuracy on rare classes', 'AUC on edema')
        >>> metric_name(Measurement("knn", "accuracy", group="macro"))
        'balanced accuracy'
        >>> metric_name(
        ...     Measurement("retrieval sentence", "R", "report", direction="text to image", k=10)
        ... )
        'R@10 from text to image'
    """
    if (of.metric, of.group) == ("accuracy", "macro"):
        return "balanced accuracy"
    name = _measure(of.metric).name if of.k is None else f"{of.metric}@{of.k}"
    way = f" from {of.direction}" if of.direction and of.metric != "Prec" else ""
    return name + (f" on {group_name(of)}" if of.group else "") + way


def measured_name(of: Measurement) -> str:
    """Return the display name of a metric, after the evaluation if its name does not tell which.

    Example:
        >>> (
        ...     measured_name(Measurement("knn", "accuracy")),
        ...     measured_name(Measurement("linear probe", "accuracy", group="rare")),
        ... )
        ('kNN accuracy', 'linear probe accuracy on rare classes')
        >>> measured_name(Measurement("retrieval", "R", "seen", k=1))
        'R@1'
    """
    task = (
        f"{evaluation_name(Measurement(of.task, of.metric))} "
        if of.metric in ("accuracy", "AUC")
        else ""
    )
    return task + metric_name(of)


def name_beside(of: Measurement, other: Measurement) -> str:
    """Return the display name of a metric (:func:`measured_name`), with its evaluation if another
    measurement in the same place has the same name.

    Example:
        >>> name_beside(
        ...     Measurement("region retrieval", "R", k=1), Measurement("retrieval", "R", k=1)
        ... )
        'region retrieval, R@1'
    """
    name = measured_name(of)
    return full_name(of) if name == measured_name(other) else name


def evaluation_name(of: Measurement) -> str:
    """Return the name of the evaluation with its settings.

    Example:
        >>> (
        ...     evaluation_name(Measurement("knn", "accuracy", "all")),
        ...     evaluation_name(Measurement("zero-shot", "AUC")),
        ... )
        ('kNN, labels=all', 'zero-shot')
        >>> evaluation_name(Measurement("linear probe", "accuracy", "all", 0.1, group="rare"))
        'linear probe, labels=all, fraction=0.1'
        >>> [
        ...     evaluation_name(Measurement("retrieval", "R", labels))
        ...     for labels in ("report", "seen")
        ... ]
        ['retrieval, relevant=report', 'retrieval, labels=seen']
    """
    parts = ["kNN" if of.task == "knn" else of.task]
    if of.labels:
        is_relevance = of.metric in ("R", "MedR") and of.labels not in ("seen", "unseen")
        parts.append(f"{'relevant' if is_relevance else 'labels'}={of.labels}")
    if of.fraction:
        parts.append(f"fraction={of.fraction:g}")
    if of.direction and of.metric == "Prec":
        parts.append(of.direction)
    return ", ".join(parts)


def full_name(of: Measurement, separator: str = ", ") -> str:
    """Return the names of the evaluation and of the metric."""
    return evaluation_name(of) + separator + metric_name(of)


def _measure(metric: str) -> DisplayedMetric:
    """Return the display settings of a metric; unregistered metrics are shown as plain numbers."""
    return DISPLAYED.get(metric, DisplayedMetric(metric))
