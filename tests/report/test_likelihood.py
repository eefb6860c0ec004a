"""The figure and the table of the log-linear assumption show the numbers of its summary."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import synthetic

from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.figures.assumption import class_probability_by_likelihood
from trueneg.report.formats import to_latex
from trueneg.report.tables.assumption import assumption_table

POINTS, SUMMARY, CALIBRATION = synthetic.likelihoods()


def figure_of(sentences, note=""):
    tables = {"points": POINTS, "summary": SUMMARY, "calibration": CALIBRATION}
    return class_probability_by_likelihood(
        SimpleNamespace(read=tables.get, study_note=note), list(tables), sentences
    )


def test_the_figure_shows_points_quantiles_and_the_fit():
    figure = figure_of("all sentences", note="A note.")
    shown = [axes for axes in figure.axes if axes.collections]
    assert len(shown) == 2
    plot = shown[0]
    assert plot.get_yscale() == "log"
    points = POINTS[POINTS["scorer"] == "masked LM"]
    drawn = np.sort(plot.collections[0].get_offsets().data, axis=0)
    np.testing.assert_allclose(drawn[:, 0], np.sort(points["log_likelihood"]))
    np.testing.assert_allclose(drawn[:, 1], np.sort(np.exp(points["log_class_probability"])))
    quantiles, fit = plot.lines
    expected = CALIBRATION.query(
        "scorer == 'masked LM' and sentences == 'all sentences'"
    ).sort_values("log_likelihood")
    np.testing.assert_allclose(quantiles.get_ydata(), expected["actual"])
    np.testing.assert_allclose(fit.get_ydata(), 0.2 * np.exp(0.35 * fit.get_xdata()))
    assert "1.00 [1.00, 1.00]" in plot.get_title()
    assert "300 of them unique, 12 classes" in footnote(figure)
    assert "A note." in footnote(figure)
    assert "masked LM ρ 1.00" in alternative_text(figure)


def test_long_footnotes_stay_inside_the_figure():
    synthetic.assert_footnote_inside(figure_of("all sentences", note=synthetic.LONG_NOTE))


def test_the_selection_of_findings_is_drawn():
    plot = figure_of("findings only").axes[1]
    chosen = POINTS[(POINTS["scorer"] == "length") & POINTS["finding"]]
    assert len(plot.collections[0].get_offsets()) == len(chosen)
    assert plot.get_xlabel() == "− number of words"


def test_the_table_shows_the_summary():
    table = assumption_table(SUMMARY)
    assert [len(group.lines) for group in table.groups] == [2, 2]
    name, cells = table.groups[0].lines[0]
    assert name == "masked LM"
    assert [cell.text for cell in cells] == ["1.00 [1.00, 1.00]", "1.00", "0.2", "0.350", "0.000"]
    assert (
        table.groups[1]
        .lines[1][1][0]
        .text.startswith(f"{SUMMARY.iloc[3]['spearman']:.2f}".replace("-", "−"))
    )
    assert all(part in to_latex(table) for part in ("phantom, findings only", "\\toprule"))
    pd.testing.assert_frame_equal(table.values, SUMMARY)
