"""Figures and tables of theory studies show the numbers of the experiments, as read from their
artists.
"""

from pathlib import Path

import numpy as np
import pytest
import synthetic
import yaml
from tests.theory.sweeps import SWEEPS

from trueneg.report import registry
from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.figures.estimator_errors import STYLES
from trueneg.report.formats import to_latex
from trueneg.report.gathered import Gathered
from trueneg.specs.experiments import DRAWN, ESTIMATORS, EXPERIMENTS, TRUE
from trueneg.specs.experiments import SWEEPS as SWEEPS_OF_ERRORS
from trueneg.specs.kinds.theory import TheoryStudy
from trueneg.theory.experiments import run

SMALL = {"anchors": 40} | SWEEPS
SETTINGS = {
    **{key: {"repetitions": 2} for key in SWEEPS_OF_ERRORS},
    **{key: {"repetitions": 2} for key in ("errors_by_assumed_alpha", "approximation_errors")},
    **{
        key: {"density_draws": 500}
        for key in ("class_conditional_densities", "observation_densities")
    },
}


STUDY = {"kind": "theory", "title": "Tiny theory", "note": "From the small default."}
FIGURES = registry.figures_by_name(TheoryStudy.model_validate(STUDY))
TABLES = registry.tables_by_name(TheoryStudy.model_validate(STUDY))


def experiment_of(name):
    """The experiment that a figure or table shows."""
    return Path((FIGURES | TABLES)[name].files[1]).stem


def test_every_experiment_has_a_figure_or_table():
    assert {experiment_of(name) for name in FIGURES | TABLES} == set(EXPERIMENTS)


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """A gathered study with small experiments."""
    folder = tmp_path_factory.mktemp("tiny") / "artefacts"
    (folder / "simulation").mkdir(parents=True)
    (folder / "study.yaml").write_text(yaml.safe_dump(STUDY))
    for name in {experiment_of(name) for name in FIGURES | TABLES}:
        run(name, SMALL, **SETTINGS.get(name, {})).to_parquet(
            folder / "simulation" / f"{name}.parquet"
        )
    return Gathered(folder)


def drawn(frames, name):
    return FIGURES[name].made(frames)


def lines_of(plot):
    """{colour and marker: (x, y)} of each line."""
    return {
        (line.get_color(), line.get_marker()): line.get_data(orig=False)
        for line in plot.get_lines()
    }


@pytest.mark.parametrize("name", FIGURES)
def test_figures_have_axis_labels_footnotes_and_alternative_texts(frames, name):
    figure = drawn(frames, name)
    assert len(alternative_text(figure)) > 40
    assert footnote(figure).endswith("From the small default.")
    assert len(footnote(figure)) > len("From the small default.")
    shown = [plot for plot in figure.axes if plot.axison]
    for plot in shown:
        grid = plot.get_subplotspec()
        assert plot.get_xlabel() or not grid.is_last_row()
        low, high = plot.get_xlim()
        assert low < high
        # whose ticks are names
        assert plot.get_ylabel() or not grid.is_first_col() or name == "generalisation_terms"


@pytest.mark.parametrize("name", FIGURES)
def test_long_footnotes_stay_inside_the_figure(frames, name, monkeypatch):
    monkeypatch.setattr(
        frames, "study", frames.study.model_copy(update={"note": synthetic.LONG_NOTE})
    )
    synthetic.assert_footnote_inside(drawn(frames, name))


SWEPT = [
    "mean_squared_errors",
    "mean_squared_errors_in_simulation_code",
    "estimated_means",
    "estimated_means_in_simulation_code",
    "errors_by_positives",
    "errors_by_assumed_alpha",
]


@pytest.mark.parametrize("name", SWEPT)
def test_sweeps_draw_the_values_and_their_intervals(frames, name):
    frame, figure = frames.experiment(experiment_of(name)), drawn(frames, name)
    quantity = "mean" if name.startswith("estimated_means") else "mean squared error"
    frame = frame[
        (frame["quantity"] == quantity)
        & frame["reference"].isin([DRAWN] if quantity != "mean" else [""])
    ]
    parameters = (
        ["slide", "alpha"] if quantity == "mean" else list(dict.fromkeys(frame["parameter"]))
    )
    for plot, parameter in zip(figure.axes, parameters, strict=False):
        lines, bands = lines_of(plot), plot.collections
        estimators = [*ESTIMATORS, TRUE] if quantity == "mean" else ESTIMATORS
        assert len(bands) == len(STYLES)
        for estimator in estimators:
            expected = frame[
                (frame["parameter"] == parameter) & (frame["estimator"] == estimator)
            ].sort_values("at")
            style = STYLES[estimator]
            x, y = lines[style.color, style.marker]
            np.testing.assert_allclose(x, expected["at"])
            np.testing.assert_allclose(y, expected["value"])
            reach = 1.96 * expected["spread" if parameter == "anchors" else "standard error"]
            ends = bands[list(STYLES).index(estimator)].get_paths()[0].vertices[:, 1]
            assert ends.min() == pytest.approx((expected["value"] - reach).min())
            assert ends.max() == pytest.approx((expected["value"] + reach).max())


def test_the_limit_of_the_bias_has_one_line_per_estimator(frames):
    plot = drawn(frames, "bias_by_negatives").axes[0]
    limits = (
        frames.experiment("errors_by_negatives").query("at == inf").set_index("estimator")["value"]
    )
    shown = {
        line.get_color(): line.get_ydata()[0]
        for line in plot.get_lines()
        if len(set(line.get_ydata())) == 1
    }
    for estimator in ESTIMATORS:
        assert shown[STYLES[estimator].color] == limits[estimator]


def test_the_true_alpha_is_marked(frames):
    plot = drawn(frames, "errors_by_assumed_alpha").axes[0]
    assert [
        line.get_xdata()[0] for line in plot.get_lines() if len(set(line.get_xdata())) == 1
    ] == [0.9]


def test_densities_show_closed_form_and_samples(frames):
    frame = frames.experiment("class_conditional_densities")
    figure = drawn(frames, "class_conditional_densities")
    assert [plot.get_title() for plot in figure.axes] == [
        f"α = {alpha:g}" for alpha in (0.5, 0.7, 0.9, 1.0)
    ]
    one = frame[(frame["alpha"] == 0.9) & (frame["population"] == "true negatives")]
    curve = figure.axes[2].get_lines()[0].get_ydata()
    np.testing.assert_allclose(curve, one.loc[one["source"] == "closed form", "density"])
    bars = figure.axes[2].containers[0].lines[2][0].get_segments()
    sampled = one[one["source"] == "drawn"]
    np.testing.assert_allclose(
        [bar[1, 1] - bar[0, 1] for bar in bars], 3.92 * sampled["standard error"], atol=1e-12
    )


def test_bounds_are_drawn_above_the_errors(frames):
    frame = frames.experiment("approximation_errors")
    plot = drawn(frames, "approximation_errors").axes[0]
    assert plot.get_title() == "t = 1, M = 1"
    part = frame[
        (frame["temperature"] == 1) & (frame["positives"] == 1) & (frame["objective"] == "CL")
    ]
    measured, bound = plot.get_lines()[0], plot.get_lines()[frame["objective"].nunique()]
    np.testing.assert_allclose(
        measured.get_ydata(), part.loc[part["quantity"] == "|L − L̄|", "value"]
    )
    np.testing.assert_allclose(
        bound.get_ydata(), part.loc[part["quantity"] == "Proposition 1", "value"]
    )


def test_the_table_of_an_experiment_is_formatted(frames):
    assert to_latex(TABLES["normalisation"].made(frames)).count("\n") > 5
