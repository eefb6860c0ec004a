"""How values are written."""

import pytest

from trueneg.study.metrics import unit, written


@pytest.mark.parametrize(
    ("value", "metric", "signed", "text"),
    [
        (0.5, "accuracy rare", False, "50.0"),
        (-0.0004, "accuracy", True, "−0.04"),
        (-0.00001, "accuracy", True, "0.0"),
        (148, "median rank", False, "148.0"),
        (float("nan"), "accuracy", True, "–"),
    ],
)
def test_written_values(value, metric, signed, text):
    assert written(value, metric, signed) == text


def test_units():
    assert [unit("accuracy dog"), unit("accuracy", difference=True), unit("median rank")] == ["%", "points", ""]
