"""The gain by the error of η: points, intervals and slopes equal those that numpy and scipy compute
from the rows.
"""

import numpy as np
import pandas as pd
import pytest
import synthetic_pairs
from scipy import stats

from trueneg.report import registry
from trueneg.report.drawing import footnote
from trueneg.report.gathered import Gathered

ALIKE = ("DCL-true", "DCL-50", "DCL-0")  # they differ only in the share; HCL-50 does not
PARTLY = {
    "DCL-50": {"name": "dcl", "class_probability": {"true_share": 0.5}},
    "DCL-0": {"name": "dcl", "class_probability": {"true_share": 0.0}},
    "HCL-50": {"name": "hcl", "class_probability": {"true_share": 0.5}},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quality") / "artefacts"
    first = {"HCL-50": PARTLY["HCL-50"]}  # alone of its kind, so it has no trend
    synthetic_pairs.write(
        folder,
        synthetic_pairs.settings(
            objectives=first | synthetic_pairs.settings()["objectives"] | PARTLY
        ),
    )
    return folder


def by_seed(folder, objective, column="value"):
    """Return a column of the chosen variant's rows of the primary measurement, or of its errors, by
    seed.
    """
    rows = Gathered(folder).rows.merge(pd.read_parquet(folder / "eta_errors.parquet"), on="run")
    rows = synthetic_pairs.MEASURED.rows_of(
        rows[(rows["split"] == "test") & (rows["objective"] == objective)]
    )
    return rows.sort_values("seed")[column].to_numpy()


def slopes(folder):
    """The least-squares slope of the measurement on the error in each seed."""
    errors, values = (
        [by_seed(folder, name, column) for name in ALIKE] for column in ("error of η", "value")
    )
    return [
        stats.linregress(*of_seed).slope
        for of_seed in zip(np.transpose(errors), np.transpose(values), strict=True)
    ]


def test_each_class_probability_is_a_point_with_a_paired_interval(folder):
    of = Gathered(folder)
    figure = registry.figures_by_name(of.study)["eta_quality"].made(of)
    for plot, column in zip(figure.axes, ("error of η", "mean η"), strict=True):
        points = {container.lines[0].get_label(): container for container in plot.containers}
        assert set(points) == {"CL", "DCL", "DCL-LM", *ALIKE, "HCL-50"}
        for name, container in points.items():
            line, _, (bars,) = container.lines
            assert line.get_xdata() == pytest.approx([by_seed(folder, name, column).mean()])
            if name == "CL":
                assert line.get_ydata() == [0]
                continue
            differences = by_seed(folder, name) - by_seed(folder, "CL")
            interval = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
            (segment,) = bars.get_segments()
            np.testing.assert_allclose(
                [*line.get_ydata(), *segment[:, 1]], [differences.mean(), *interval], rtol=1e-6
            )
    assert "Exploratory" in footnote(figure)


def test_the_slope_is_fitted_in_each_seed_over_objectives_that_differ_only_in_the_share(folder):
    fitted = slopes(folder)
    low, high = stats.ttest_1samp(fitted, 0).confidence_interval(0.95)
    of = Gathered(folder)
    table = registry.tables_by_name(of.study)["eta_quality"].made(of)
    assert table.values["error of η"].iloc[:-1].is_monotonic_increasing
    last = table.values.iloc[-1]
    assert last["objective"] == "slope on the error: DCL-true, DCL-50, DCL-0"
    np.testing.assert_allclose(
        [last["gain"], last["low"], last["high"], last["seeds"]], [np.mean(fitted), low, high, 6]
    )
    figure = registry.figures_by_name(of.study)["eta_quality"].made(of)
    numbers = f"{np.mean(fitted):+.2g} [{low:+.2g}, {high:+.2g}]".replace("-", "−")
    assert f"over DCL-true, DCL-50, DCL-0: {numbers}" in footnote(figure)


def test_two_shares_show_no_trend(tmp_path):
    synthetic_pairs.write(tmp_path / "artefacts", synthetic_pairs.settings())
    of = Gathered(tmp_path / "artefacts")
    table = registry.tables_by_name(of.study)["eta_quality"].made(of)
    assert sorted(table.values["objective"]) == ["CL", "DCL", "DCL-LM", "DCL-true"]
    assert "Slope" not in footnote(registry.figures_by_name(of.study)["eta_quality"].made(of))


def test_a_trend_over_one_seed_has_no_interval(tmp_path):
    objectives = synthetic_pairs.settings()["objectives"] | PARTLY
    synthetic_pairs.write(
        tmp_path / "artefacts", synthetic_pairs.settings(objectives=objectives, seeds=1)
    )
    of = Gathered(tmp_path / "artefacts")
    note = footnote(registry.figures_by_name(of.study)["eta_quality"].made(of))
    assert "Slope on the error over DCL-true, DCL-50, DCL-0: " in note
    assert "[no interval]" in note
    assert "nan" not in note


@pytest.mark.parametrize("objectives", [{}, {"DCL-LM": {"name": "dcl", "class_probability": 0.1}}])
def test_studies_without_several_named_class_probabilities_have_no_figure(objectives):
    few = {
        name: each
        for name, each in synthetic_pairs.settings()["objectives"].items()
        if name not in ("DCL-true", *objectives)
    }
    names = registry.figures_by_name(synthetic_pairs.study(objectives=few | objectives))
    assert "eta_quality" not in names
