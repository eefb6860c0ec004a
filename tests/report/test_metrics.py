"""Formatting of values, units and names of metrics."""

import pytest

from trueneg.report.metrics import (
    format_metric,
    group_name,
    higher_is_better,
    metric_name,
    scale,
    unit,
)
from trueneg.stats.measurement import Measurement


@pytest.mark.parametrize(
    ("value", "metric", "signed", "text"),
    [
        (0.5, "accuracy", False, "50.0"),
        (-0.0004, "accuracy", True, "−0.04"),
        (-0.00001, "accuracy", True, "0.0"),
        (148, "median rank", False, "148.0"),
        (0.8617, "AUC", False, "0.862"),
        (-0.0004, "AUC", True, "−0.0004"),
        (0.00002, "mIoU", True, "0.000"),
        (1.4859, "CNR signed", False, "1.486"),
        (0.104, "R", False, "10.4"),
        (-0.0191, "Prec", True, "−1.9"),
        (0.293, "R", False, "29.3"),
        (-7.25, "MedR", True, "−7.2"),
        (float("nan"), "accuracy", True, "–"),
    ],
)
def test_values_are_formatted_by_metric(value, metric, signed, text):
    assert format_metric(value, metric, signed) == text


def test_differences_of_percentages_are_in_points():
    assert [unit("accuracy"), unit("accuracy", difference=True), unit("median rank")] == [
        "%",
        "points",
        "",
    ]


@pytest.mark.parametrize(
    ("metric", "of", "shown", "factor", "units", "higher"),
    [
        ("ACC", {"group": "edema"}, "accuracy on edema", 100, ("%", "points"), True),
        ("AUC positive prompt", {}, "AUC of the positive prompt alone", 1, ("", ""), True),
        (
            "AUC positive prompt",
            {"group": "edema"},
            "AUC of the positive prompt alone on edema",
            1,
            ("", ""),
            True,
        ),
        ("accuracy", {"group": "macro"}, "balanced accuracy", 100, ("%", "points"), True),
        (
            "CNR signed",
            {"group": "macro"},
            "CNR with its sign on the mean of findings",
            1,
            ("", ""),
            True,
        ),
        ("R", {"k": 5}, "R@5", 100, ("%", "points"), True),
        (
            "Prec",
            {"k": 10, "group": "rib fracture"},
            "Prec@10 on rib fracture",
            100,
            ("%", "points"),
            True,
        ),
        (
            "R",
            {"direction": "text to image"},
            "mean recall from text to image",
            100,
            ("%", "points"),
            True,
        ),
        (
            "MedR",
            {"direction": "image to text"},
            "median rank from image to text",
            1,
            ("", "ranks"),
            False,
        ),
        ("MedR", {}, "median rank", 1, ("", "ranks"), False),
        ("phrases", {}, "phrases", 1, ("", ""), True),
    ],
)
def test_metrics_have_display_names_scales_and_units(metric, of, shown, factor, units, higher):
    assert metric_name(Measurement("task", metric, **of)) == shown
    assert scale(metric) == factor
    assert (unit(metric), unit(metric, difference=True)) == units
    assert higher_is_better(metric) is higher


def test_groups_of_classes_have_display_names():
    of = [("AUC", "edema"), ("AUC", None), ("CNR", "macro")]
    names = [group_name(Measurement("task", metric, group=group)) for metric, group in of]
    assert names == ["edema", "AUC", "the mean of findings"]
