"""Figures of image studies show the numbers of the comparison, as read from their artists."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import synthetic
from PIL import Image
from scipy import stats
from tests.studies import tiny_study

from trueneg.config.reading import load_configuration
from trueneg.report import plots
from trueneg.report.drawing import (
    add_legend,
    alternative_text,
    finish,
    footnote,
    line_styles,
    panels,
    save,
)
from trueneg.report.figures import embedding, monitors
from trueneg.report.figures.by_condition import by_label_fraction, draw_by_place
from trueneg.report.registry import figures_by_name
from trueneg.specs.kinds.images import ImageStudy
from trueneg.stats.comparison import means, paired_differences
from trueneg.stats.measurement import Measurement

PROBE = Measurement("linear probe", "accuracy", "all", 1.0)
KNN = Measurement("knn", "accuracy", "all")
ROWS = synthetic.rows(seeds=5)
CURVES = synthetic.curves(seeds=3, epochs=12)
FOREST = pd.DataFrame(
    {
        "kind": "a",
        "name": ["second", "first"],
        "shown": [-0.25, 1],
        "low": [np.nan, 0],
        "high": [np.nan, 2],
    }
)


def line_of(plot, label):
    """The line with a label."""
    return next(line for line in plot.lines if line.get_label() == label)


def drawn(figure):
    """{objective: (x, y, low, high)} as drawn with error bars."""
    shown = {}
    for container in figure.axes[0].containers:
        line, bars = line_of(figure.axes[0], container.get_label()), container.lines[2]
        ends = np.array(bars[0].get_segments()).reshape(-1, 2, 2)[:, :, 1]
        shown[container.get_label()] = (
            *line.get_data(orig=False),
            ends.min(axis=1),
            ends.max(axis=1),
        )
    return shown


def curves_of(curves, name, **gathered):
    """A figure of training curves."""
    drawings = {
        drawing.name: drawing
        for drawing in monitors.drawings(ImageStudy.model_validate(tiny_study()))
    }
    return drawings[name].made(
        SimpleNamespace(curves=curves, note_on=lambda *drawn: "", **gathered)
    )


def by_labels(baseline, measured=PROBE):
    """The figure of accuracy by label fraction on one data set."""
    return by_label_fraction(
        SimpleNamespace(rows=ROWS, note_on=lambda *drawn: ""), baseline, "fraction=0.5", measured
    )


def embedding_of(points):
    return embedding.embedding(
        SimpleNamespace(read=lambda *files: points, study_note=""), ["points.parquet"]
    )


def of(table, **wanted):
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


@pytest.mark.parametrize("baseline", [None, "CL"])
@pytest.mark.parametrize("axis", ["condition", "label fraction"])
def test_accuracy_is_drawn_as_means_or_paired_differences_with_intervals(axis, baseline):
    test = of(ROWS, split="test")
    if axis == "condition":
        measured = PROBE._replace(group="rare")
        chosen, figure = (
            measured.rows_of(test),
            draw_by_place(ROWS, synthetic.FRACTIONS, [measured], baseline),
        )
    else:
        chosen, figure = of(test, dataset="fraction=0.5", task="linear probe"), by_labels(baseline)
        chosen = chosen[chosen["group"].isna()]
    table, column = (
        (paired_differences(chosen, baseline), "difference")
        if baseline
        else (means(chosen), "mean")
    )
    shown = drawn(figure)
    assert set(shown) == set(synthetic.GAINS) - {baseline}
    for objective, (x, *values) in shown.items():
        expected = of(table, objective=objective)
        np.testing.assert_allclose(
            x,
            expected["dataset"].map(synthetic.FRACTIONS)
            if axis == "condition"
            else expected["fraction"],
        )
        np.testing.assert_allclose(values, 100 * expected[[column, "low", "high"]].T)


def test_points_and_intervals_lie_inside_the_axes():
    for figure in (draw_by_place(ROWS, synthetic.FRACTIONS, [PROBE]), by_labels("CL")):
        figure.draw_without_rendering()
        plot = figure.axes[0]
        for x, _, low, high in drawn(figure).values():
            assert plot.get_xlim()[0] < x.min() <= x.max() < plot.get_xlim()[1]
            assert plot.get_ylim()[0] < low.min() <= high.max() < plot.get_ylim()[1]


def test_one_seed_draws_points_without_bars():
    shown = drawn(draw_by_place(of(ROWS, seed=0), synthetic.FRACTIONS, [PROBE]))
    assert np.isfinite(shown["CL"][1]).all()
    assert not np.isfinite(shown["CL"][2]).any()


def test_long_footnotes_stay_inside_the_figure():
    gathered = SimpleNamespace(
        read=lambda *files: synthetic.coordinates(), study_note=synthetic.LONG_NOTE
    )
    for figure in (
        draw_by_place(ROWS, synthetic.FRACTIONS, [PROBE], notes=[synthetic.LONG_NOTE]),
        embedding.embedding(gathered, []),
    ):
        synthetic.assert_footnote_inside(figure)


def test_footnotes_state_seeds_interval_and_note():
    note = "From the small default."
    text = footnote(draw_by_place(ROWS, synthetic.FRACTIONS, [PROBE], "CL", notes=[note]))
    assert "95 % paired t intervals over seeds (5 seeds)" in text
    assert text.endswith(note)
    assert "(3 seeds)" in footnote(curves_of(CURVES, "training_loss"))
    fewer = ROWS.drop(index=of(ROWS, objective="CL", seed=0).index)
    assert "(4 to 5 seeds)" in footnote(draw_by_place(fewer, synthetic.FRACTIONS, [PROBE]))


def test_the_alternative_text_contains_the_values():
    rows = of(ROWS, dataset="fraction=0.5")
    figure = draw_by_place(rows, {"fraction=0.5": 0.5}, [PROBE])
    expected = of(means(PROBE.rows_of(of(rows, split="test"))), objective="Oracle")["mean"].iloc[0]
    assert f"Oracle: {100 * expected:.4g} [" in alternative_text(figure)
    forest = panels()[0]
    plots.forest(
        forest.axes[0], FOREST, line_styles(["a"]), "kind", ["first", "second"], row="name"
    )
    assert "a: 1 [0, 2] at first, -0.25 at second." in alternative_text(finish(forest))


def test_objectives_differ_without_colour_and_keep_their_colour_in_every_figure():
    styles = line_styles([f"objective {number}" for number in range(8)]).values()
    assert len({style.marker for style in styles}) == 8
    means, differences = (
        {
            line.get_label(): line.get_color()
            for line in figure.axes[0].lines
            if not line.get_label().startswith("_")
        }
        for figure in (
            draw_by_place(ROWS, synthetic.FRACTIONS, [PROBE], baseline) for baseline in (None, "CL")
        )
    )
    assert differences.items() <= means.items()


def test_embedding_draws_rare_classes_red_and_common_ones_blue():
    points = synthetic.coordinates(objectives=["DCL-true", "CL"])
    figure = embedding_of(points)
    assert [plot.get_title() for plot in figure.axes] == ["DCL-true", "CL"]
    for plot, objective in zip(figure.axes, ["DCL-true", "CL"], strict=True):
        expected = points[points["objective"] == objective]
        (drawn,) = plot.collections
        np.testing.assert_allclose(drawn.get_offsets(), expected[["x", "y"]])
        red, _, blue, _ = np.transpose(drawn.get_facecolor())
        np.testing.assert_array_equal(red > blue, expected["rare"])
        looks = {
            label: {tuple(color) for color in drawn.get_facecolor()[expected["label"] == label]}
            for label in range(10)
        }
        assert all(len(colors) == 1 for colors in looks.values())
        assert len(set.union(*looks.values())) == 10
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == [*"01234", *(f"{label} (rare)" for label in range(5, 10))]
    points["label"] = points["label"].map(dict(enumerate(synthetic.CLASSES)))
    assert "truck (rare)" in [
        text.get_text() for text in embedding_of(points).legends[0].get_texts()
    ]


def test_silhouettes_are_means_over_rare_and_all_images_with_intervals():
    points = synthetic.coordinates(objectives=["DCL-true", "CL"])
    points["silhouette"] = (
        np.random.default_rng(0).normal(0.4 - 0.9 * points["rare"], 0.3).clip(-1, 1)
    )
    figure = embedding_of(points)
    for plot, objective in zip(figure.axes, ["DCL-true", "CL"], strict=True):
        values = of(points, objective=objective)["silhouette"]
        for line, chosen in zip(
            plot.get_xlabel().split("\n"), (values[points["rare"]], values), strict=True
        ):
            mean, low, high = synthetic.numbers(line)
            assert mean == pytest.approx(chosen.mean(), abs=0.006)
            half = stats.t.ppf(0.975, len(chosen) - 1) * stats.sem(chosen)
            assert (low, high) == pytest.approx(
                (chosen.mean() - half, chosen.mean() + half), abs=0.012
            )
        assert plot.get_xlabel().replace("\n", " ") in alternative_text(figure)
    assert "bootstrap" in footnote(figure)


@pytest.mark.filterwarnings("error")
def test_equal_features_are_named_below_their_panel():
    points = synthetic.coordinates(objectives=["DCL-true", "CL"]).assign(silhouette=0.5)
    points.loc[points["objective"] == "CL", ["x", "y"]] = 0.0
    figure = embedding_of(points)
    labels = {plot.get_title(): plot.get_xlabel() for plot in figure.axes}
    assert ["equal" in label for label in labels.values()] == [False, True]
    assert "silhouette" not in figure.axes[1].get_xlabel()


def test_a_figure_states_no_undefined_silhouettes():
    figure = embedding_of(synthetic.coordinates().assign(silhouette=np.nan))
    assert {plot.get_xlabel() for plot in figure.axes} == {""}
    assert "Silhouette" not in footnote(figure)
    assert "bootstrap" not in footnote(figure)


def test_training_curves_draw_means_and_bands_over_seeds():
    plot = curves_of(CURVES, "training_loss").axes[0]
    of_dataset = of(CURVES, dataset="fraction=0.1")
    for line in plot.lines:
        expected = of(of_dataset, objective=line.get_label()).groupby("epoch")["loss"].mean()
        np.testing.assert_allclose(line.get_xdata(), expected.index)
        np.testing.assert_allclose(line.get_ydata(), expected)
    assert len(plot.lines) == len(plot.collections) == len(synthetic.GAINS)


@pytest.mark.parametrize(("factor", "scale"), [(1, "linear"), (1e9, "log")])
def test_lines_that_one_linear_axis_cannot_show_have_a_logarithmic_one(factor, scale):
    curves = CURVES.copy()
    curves.loc[curves["objective"] == "CL", "loss"] *= factor
    plot = curves_of(curves, "training_loss").axes[0]
    assert plot.get_yscale() == scale
    assert plot.get_ylim()[0] > (0 if scale == "log" else -np.inf)


def test_a_study_without_rare_classes_or_bounds_has_no_figure_of_them():
    study = tiny_study(
        dataset=tiny_study()["dataset"] | {"rare_classes": [], "fraction": 1.0},
        objectives={
            "CL": {"name": "cl"},
            "Hardness": {"name": "hcl", "class_probability": 0},
            "Oracle": {"name": "oracle"},
        },
        primary=tiny_study()["primary"] | {"treatment": "Hardness", "group": None},
    )
    without = load_configuration({"tiny": study}, "tiny.yaml").studies["tiny"]
    assert "share_at_bound" not in figures_by_name(without)
    assert figures_by_name(without)["true_negative_mean"].options["groups"] == ("common",)
    study["objectives"]["Hardness"]["class_probability"] = 0.1
    corrected = load_configuration({"tiny": study}, "tiny.yaml").studies["tiny"]
    assert figures_by_name(corrected)["share_at_bound"].options["groups"] == ("common",)


def test_only_objectives_with_a_bound_have_a_share_at_the_bound():
    figure = curves_of(CURVES, "share_at_bound")
    for plot in figure.axes:
        assert [line.get_label() for line in plot.lines] == ["DCL-low", "DCL-high", "DCL-true"]
    line = figure.axes[0].lines[2]
    of_line = of(CURVES, dataset="fraction=0.1", objective="DCL-true")
    np.testing.assert_allclose(
        line.get_ydata(), 100 * of_line.groupby("epoch")["share at bound common"].mean()
    )


def test_the_true_mean_is_drawn_beside_the_estimate():
    figure = curves_of(CURVES, "true_negative_mean", dataset="fraction=0.1")
    plot = figure.axes[2]
    of_plot = of(CURVES, dataset="fraction=0.1", objective="DCL-true").groupby("epoch")
    assert plot.get_title() == "DCL-true\ncommon classes"
    for line, column in zip(plot.lines, ("estimated mean common", "true mean common"), strict=True):
        np.testing.assert_allclose(line.get_ydata(), of_plot[column].mean())


def test_without_groups_the_true_mean_is_drawn_for_every_data_set():
    curves = CURVES.rename(columns=lambda name: name.removesuffix(" common"))
    gathered = SimpleNamespace(curves=curves, note_on=lambda *drawn: "")
    figure = monitors.true_negative_mean(gathered, groups=("",), families=["DCL-true"])
    plots = {plot.get_title(): plot for plot in figure.axes}
    datasets = curves["dataset"].unique()
    assert len(plots) == len(datasets) > 1
    for dataset in datasets:
        of_plot = of(curves, dataset=dataset, objective="DCL-true").groupby("epoch")
        lines = plots[f"DCL-true\n{dataset}"].lines
        for line, column in zip(lines, ("estimated mean", "true mean"), strict=True):
            np.testing.assert_allclose(line.get_ydata(), of_plot[column].mean())


def test_the_same_class_ratio_has_a_line_at_one():
    plot = curves_of(CURVES, "same_class_ratio").axes[0]
    assert any(np.all(np.asarray(line.get_ydata()) == 1.0) for line in plot.lines)


@pytest.mark.parametrize("without", ["absent", "missing values"])
def test_figures_without_values_are_drawn_with_a_message(without, tmp_path):
    columns = [name for name in CURVES if name.startswith(("share at", "estimated"))]
    curves = (
        CURVES.drop(columns=columns)
        if without == "absent"
        else CURVES.assign(**dict.fromkeys(columns, np.nan))
    )
    for number, figure in enumerate(
        (
            curves_of(curves, "share_at_bound"),
            curves_of(curves, "true_negative_mean", dataset="fraction=0.1"),
        )
    ):
        assert all(path.is_file() for path in save(figure, tmp_path / f"{number}.png", "empty"))
        assert "No objective" in figure.axes[0].texts[0].get_text().replace("\n", " ")


def test_an_unmeasured_quantity_raises_an_error_that_lists_the_measured_ones():
    with pytest.raises(
        ValueError, match=r"nothing to draw for kNN, labels=none.*; found .*labels=all"
    ):
        draw_by_place(ROWS, synthetic.FRACTIONS, [KNN._replace(labels="none")])


def test_saving_the_same_figure_twice_gives_the_same_bytes(tmp_path):
    files = []
    for folder in ("first", "second"):
        figure = draw_by_place(ROWS, synthetic.FRACTIONS, [PROBE])
        files.append(save(figure, tmp_path / folder / "figure", "Accuracy, η = 0.1"))
    assert [path.suffix for path in files[0]] == [".png", ".pdf", ".svg"]
    for first, second in zip(*files, strict=True):
        assert first.read_bytes() == second.read_bytes()
    with Image.open(files[0][0]) as image:
        assert image.info["Title"] == "Accuracy, η = 0.1"
        assert image.info["Description"] == alternative_text(figure)
        assert image.info["dpi"] == pytest.approx((200, 200), abs=0.1)


@pytest.mark.parametrize("count", range(2, 15))
def test_a_legend_with_any_number_of_names_fits_in_the_figure(count):
    figure, _ = panels()
    add_legend(figure, line_styles([f"DCL-variant-{number}" for number in range(count)]))
    figure.canvas.draw()
    assert figure.legends[0].get_window_extent().x1 <= figure.bbox.x1
