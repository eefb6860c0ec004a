"""The forest plot of named contrasts and the plot of gain by mask quality show paired
differences.
"""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import synthetic_pairs
from scipy import stats

from trueneg.report import registry
from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.figures.dose_response import dose_response
from trueneg.report.gathered import Gathered
from trueneg.report.methods import gains

MARGIN = 0.03
CONTRASTS = [
    {"treatment": "DCL-LM", "baseline": "DCL-true", "family": "controls"},
    {
        "treatment": "Oracle",
        "baseline": "CL",
        "family": None,
        "minus": {"treatment": "same", "baseline": "ReCo"},
    },
]
MASKS = {"same": (0.5, 0.25), "Oracle": (1.0, 1.0)}


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    """A study that names contrasts and has an oracle with errors, called `same`, and curves with
    the quality of masks.
    """
    folder = tmp_path_factory.mktemp("results") / "small" / "artefacts"
    settings = synthetic_pairs.settings(contrasts=CONTRASTS, published=[])
    settings["primary"] |= {"margin": MARGIN}
    settings["objectives"]["same"] = {"name": "oracle", "precision": 0.5, "recall": 0.25}
    synthetic_pairs.write(folder, settings)
    curves = pd.read_parquet(folder / "curves.parquet")
    last = curves["epoch"] == curves["epoch"].max()
    for place, monitor in enumerate(("mask precision", "mask recall")):
        at_end = (
            curves["objective"]
            .map({name: values[place] for name, values in MASKS.items()})
            .astype(float)
        )
        curves[monitor] = at_end.where(last, 0.0).where(at_end.notna())  # the last epoch counts
    curves.to_parquet(folder / "curves.parquet")
    return Gathered(folder)


def of_seeds(gathered, objective):
    rows = pd.read_parquet(gathered.folder / "rows.parquet")
    chosen = pd.DataFrame(
        json.loads((gathered.folder / "comparison.json").read_text())["selection"]
    )[["objective", "variant"]]
    rows = rows[(rows["split"] == "test") & (rows["objective"] == objective)].merge(chosen)
    rows = rows[(rows["task"] == "zero-shot") & (rows["metric"] == "AUC") & rows["group"].isna()]
    return rows.sort_values("seed")["value"].to_numpy()


def interval_of(differences):
    low, high = stats.ttest_1samp(differences, 0).confidence_interval()
    return [low, differences.mean(), high]


def drawn(gathered, name):
    return registry.figures_by_name(gathered.study)[name].made(gathered)


def test_the_forest_plot_shows_the_named_contrasts_and_the_margin(gathered):
    figure = drawn(gathered, "contrasts")
    plot = figure.axes[0]
    cl, treatment, true, oracle, same, reco = (
        of_seeds(gathered, name) for name in ("CL", "DCL-LM", "DCL-true", "Oracle", "same", "ReCo")
    )
    expected = {
        "DCL-LM − CL": treatment - cl,
        "DCL-LM − DCL-true": treatment - true,
        "(Oracle − CL) − (same − ReCo)": (oracle - cl) - (same - reco),
    }
    assert [label.get_text() for label in plot.get_yticklabels()] == list(expected)
    shown = {}
    for container in plot.containers:
        line, _, (bars,) = container.lines
        for x, y, segment in zip(*line.get_data(), bars.get_segments(), strict=True):
            shown[int(y)] = [segment[0, 0], x, segment[1, 0]]
    for place, differences in enumerate(expected.values()):
        np.testing.assert_allclose(shown[place], interval_of(differences), rtol=1e-6)
    (band,) = plot.patches
    np.testing.assert_allclose(
        band.get_path().get_extents(band.get_patch_transform()).intervalx, [-MARGIN, MARGIN]
    )
    assert "interval only" in alternative_text(figure)


def test_gains_are_plotted_against_precision_and_recall_at_the_last_epoch(gathered):
    figure = drawn(gathered, "dose_response")
    for place, plot in enumerate(figure.axes):
        assert len(plot.containers) == len(MASKS)
        for container in plot.containers:
            line, _, (bars,) = container.lines
            name = line.get_label()
            (segment,) = bars.get_segments()
            expected = interval_of(of_seeds(gathered, name) - of_seeds(gathered, "CL"))
            np.testing.assert_allclose(
                [segment[0, 1], *line.get_ydata(), segment[1, 1]], expected, rtol=1e-6
            )
            np.testing.assert_allclose(line.get_xdata(), MASKS[name][place])


@pytest.mark.parametrize(
    ("name", "is_drawn"), [("contrasts", False), ("dose_response", False), ("training_loss", True)]
)
def test_footnotes_state_the_selected_value_of_dcl_only_where_it_is_drawn(gathered, name, is_drawn):
    assert ("DCL,class_probability=" in footnote(drawn(gathered, name))) == is_drawn


@pytest.mark.parametrize(
    ("follow", "shown"), [({"same": "Oracle"}, {"Oracle", "same"}), ({}, {"Oracle"})]
)
def test_tuned_studies_draw_only_oracles_with_the_same_settings(
    gathered, monkeypatch, follow, shown
):
    tuned = gathered.study.model_copy(update={"tuning": SimpleNamespace(follow=follow)})
    monkeypatch.setattr(gathered, "study", tuned)
    monkeypatch.setattr(Gathered, "note_on", lambda *drawn: "")  # it describes the tuning
    plot = dose_response(gathered).axes[0]
    lines = [container.lines[0] for container in plot.containers]
    assert {line.get_label() for line in lines} == shown
    assert len({line.get_marker() for line in lines}) == len(shown)


def test_the_headline_figure_shows_each_gain_with_its_interval_the_largest_first(tmp_path):
    synthetic_pairs.write(tmp_path / "artefacts", synthetic_pairs.settings(published=[]))
    plain = Gathered(tmp_path / "artefacts")
    figure = drawn(plain, "gains")
    plot = figure.axes[0]
    labels = [label.get_text().split(": ") for label in plot.get_yticklabels()]
    assert labels == [[name, gains(plain)[name]["outcome"]] for name, _ in labels]
    names = [name for name, _ in labels]
    shown = {}
    for container in plot.containers:
        line, _, (bars,) = container.lines
        for x, y, segment in zip(*line.get_data(), bars.get_segments(), strict=True):
            shown[names[int(y)]] = [segment[0, 0], x, segment[1, 0]]
    assert {"DCL-LM", "Oracle", "ReCo"} <= shown.keys()
    assert "CL" not in shown
    means = [shown[name][1] for name in names]
    assert means == sorted(means, reverse=True)
    for name, interval in shown.items():
        expected = interval_of(of_seeds(plain, name) - of_seeds(plain, "CL"))
        np.testing.assert_allclose(interval, expected, rtol=1e-6)
    assert "in question: " in alternative_text(figure)
    assert "contrasts" not in registry.figures_by_name(plain.study)
