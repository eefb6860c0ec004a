"""Figures of image–text studies show the numbers of the comparison, as read from their artists."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import synthetic
import synthetic_pairs
from matplotlib.patches import Rectangle
from PIL import Image
from scipy import stats

from trueneg.config import runs
from trueneg.errors import UserError
from trueneg.io.seals import seal
from trueneg.report import build, registry
from trueneg.report.declared import published_name
from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.figures import monitors
from trueneg.report.figures.grounding_overlays import grounding_overlays
from trueneg.report.figures.similarity_histograms import similarity_histograms
from trueneg.report.figures.sweeps import places_of
from trueneg.report.gathered import PHANTOM, Gathered
from trueneg.report.labels import variant_name
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import load_rows

AUC = Measurement("zero-shot", "AUC")
SWEPT = {
    "conditions": ["batch_size"],
    "training": {"epochs": 2, "batch_size": [32, 64, 96]},
    "projection": {"dimensions": [64, 256]},
    "objectives": synthetic_pairs.settings()["objectives"]
    | {"ReCo": {"name": "reco", "negative_weight": [0.1, 0.3, 0.6]}},
    "primary": synthetic_pairs.settings()["primary"] | {"dataset": "batch_size=64"},
    "figures": {
        "similarities": {"objectives": ["CL,dimensions=64"]},
        "overlays": {"objectives": ["CL,dimensions=64"]},
    },
    "seeds": 3,
}
CONDITIONS = ("batch_size=32", "batch_size=64", "batch_size=96")
ONE_AT_A_TIME = {
    "sweeps": "one at a time",
    "training": {"epochs": 2, "batch_size": [64, 32, 96]},
    "projection": {"dimensions": [512, 256]},
    "objectives": {
        "CL": {"name": "cl"},
        "DCL-LM": {"name": "dcl", "class_probability": "language model"},
        "ReCo": {"name": "reco", "negative_weight": [0.6, 0.1, 0.3]},
        "Oracle": {"name": "oracle"},
    },
    "figures": {
        "similarities": {"objectives": ["CL,dimensions=512,batch_size=64"]},
        "overlays": {"objectives": ["CL,dimensions=512,batch_size=64"]},
    },
    "seeds": 3,
}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return written(tmp_path_factory, ("phantom",))


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    return written(tmp_path_factory, CONDITIONS, **SWEPT)


@pytest.fixture(scope="module")
def one_at_a_time(tmp_path_factory):
    return written(tmp_path_factory, ("phantom",), **ONE_AT_A_TIME)


def written(tmp_path_factory, datasets, **changes):
    folder = tmp_path_factory.mktemp("project") / "results" / "small" / "artefacts"
    synthetic_pairs.write(folder, synthetic_pairs.settings(**changes), datasets)
    return folder


def drawn(folder, name):
    of = Gathered(folder)
    return registry.figures_by_name(of.study)[name].made(of)


def gathered(table, **figures):
    """A gathered study with one table; `figures` are its settings for figures."""
    return SimpleNamespace(
        read=lambda *files: table,
        study_note="",
        note_on=lambda *drawn: "",
        curves=table,
        study=SimpleNamespace(figures=SimpleNamespace(**figures)),
    )


def histograms(table, **changes):
    """The figure of similarities of a study with the objectives in the table."""
    names = {"InfoNCE": "cl", "CL": "cl", "ReCo": "reco", "DCL": "dcl"}
    objectives = {name: {"name": names[name]} for name in table["objective"].unique()} | {
        "Oracle": {"name": "oracle"}
    }
    primary = {
        "task": "zero-shot",
        "metric": "AUC",
        "treatment": "Oracle",
        "baseline": next(iter(objectives)),
        "oracle": "Oracle",
    }
    of = synthetic_pairs.study(
        **{"objectives": objectives, "primary": primary, "figures": {}} | changes
    )
    return similarity_histograms(
        SimpleNamespace(read=lambda *files: table, study_note="", study=of), []
    )


def overlays_of(table, phrases):
    wanted = SimpleNamespace(objectives=list(table["objective"].unique()), phrases=phrases)
    return grounding_overlays(gathered(table, overlays=wanted), [])


def values_of(folder, label, measured=AUC, dataset="phantom"):
    return synthetic_pairs.values_of(load_rows(folder / "rows.parquet"), label, measured, dataset)


def lines_of(plot):
    """Labelled lines by their label."""
    return {line.get_label(): line for line in plot.lines if not line.get_label().startswith("_")}


def curve(plot):
    """The x, y, low and high values of the only line with error bars."""
    (container,) = plot.containers
    ends = np.array(container.lines[2][0].get_segments()).reshape(-1, 2, 2)[:, :, 1]
    return (
        *lines_of(plot)[container.get_label()].get_data(orig=False),
        ends.min(axis=1),
        ends.max(axis=1),
    )


def densities_of(plot):
    """The outlines of the histograms in a panel by label: density and edges of the bins."""
    densities = {}
    for outline in plot.collections:
        vertices = outline.get_paths()[0].vertices
        # at each edge, the height of the bin that begins there
        heights = dict(vertices[len(vertices) // 2 :][::-1].tolist())
        densities[outline.get_label()] = (
            np.array(list(heights.values()))[:-1],
            np.array(list(heights)),
        )
    return densities


def test_the_tradeoff_draws_every_constant_as_a_curve_and_other_objectives_as_lines_with_bands(
    small,
):
    figure = drawn(small, "tradeoff")
    assert [plot.get_ylabel() for plot in figure.axes] == ["AUC", "CNR", "R@10 (%)"]
    assert {plot.get_xlabel() for plot in figure.axes} == {"Constant η"}

    def interval_of(name):
        values = values_of(small, name)
        return values.mean(), *stats.t.interval(0.95, 5, values.mean(), stats.sem(values))

    x, y, low, high = curve(figure.axes[0])
    np.testing.assert_allclose(x, [0, *synthetic_pairs.CONSTANTS])
    names = ["CL", *(f"DCL,class_probability={value:g}" for value in synthetic_pairs.CONSTANTS)]
    np.testing.assert_allclose(
        list(zip(y, low, high, strict=True)), [interval_of(name) for name in names]
    )
    bands = [band.get_paths()[0].get_extents() for band in figure.axes[0].collections[:4]]
    expected = [interval_of(name)[1:] for name in ("CL", "DCL-LM", "DCL-true", "Oracle")]
    np.testing.assert_allclose([[band.y0, band.y1] for band in bands], expected)
    lines = lines_of(figure.axes[1])
    assert lines.keys() == {"DCL", "CL", "DCL-LM", "DCL-true", "Oracle"}
    np.testing.assert_allclose(
        lines["Oracle"].get_ydata(),
        values_of(small, "Oracle", Measurement("grounding", "CNR")).mean(),
    )
    figure.draw_without_rendering()
    for plot in figure.axes:  # points and markers lie inside the axes
        left, right = plot.get_xlim()
        assert all(
            left < np.min(line.get_xdata()) <= np.max(line.get_xdata()) < right
            for line in plot.lines
        )


def test_the_tradeoff_of_paired_differences_has_the_baseline_at_zero(small):
    figure = drawn(small, "tradeoff_differences")
    recalls = [
        Measurement("retrieval sentence", "R", "truth", direction=way, k=10)
        for way in ("text to image", "image to text")
    ]

    def differences_of(eta):
        names = (f"DCL,class_probability={eta:g}", "CL")
        dcl, cl = (
            np.mean([values_of(small, name, recall) for recall in recalls], axis=0)
            for name in names
        )
        return 100 * (dcl - cl)

    x, y, low, high = curve(figure.axes[2])
    np.testing.assert_allclose(x, synthetic_pairs.CONSTANTS)
    for place, eta in enumerate(synthetic_pairs.CONSTANTS):
        interval = stats.ttest_1samp(differences_of(eta), 0).confidence_interval()
        np.testing.assert_allclose(
            [y[place], low[place], high[place]], [differences_of(eta).mean(), *interval]
        )
    assert list(lines_of(figure.axes[1])) == ["DCL-LM", "DCL-true", "Oracle", "DCL"]
    assert any(np.all(np.asarray(line.get_ydata()) == 0) for line in figure.axes[1].lines)
    assert "paired" in footnote(figure)
    assert "CL (zero line)" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_every_figure_notes_that_the_data_are_synthetic(small):
    for name in registry.figures_by_name(Gathered(small).study):
        figure = drawn(small, name)
        assert PHANTOM in footnote(figure)
        assert alternative_text(figure)


@pytest.mark.parametrize("study", ["small", pytest.param("swept", marks=pytest.mark.long)])
def test_long_footnotes_stay_inside_every_figure(study, request):
    gathered = Gathered(request.getfixturevalue(study))
    gathered.study = gathered.study.model_copy(update={"note": synthetic.LONG_NOTE})
    for drawing in registry.figures_by_name(gathered.study).values():
        synthetic.assert_footnote_inside(drawing.made(gathered))


@pytest.mark.parametrize("name", ["primary_by_negatives", "primary_by_negatives_differences"])
def test_the_figure_by_negatives_draws_one_point_per_condition(swept, name):
    figure = drawn(swept, name)
    x, y = lines_of(figure.axes[0])["Oracle"].get_data(orig=False)
    np.testing.assert_allclose(x, [31, 63, 95])
    selection = Gathered(swept).selection.set_index(["dataset", "objective"])["variant"]
    expected = []
    for dataset in CONDITIONS:
        oracle, baseline = (
            values_of(
                swept, variant_name(objective, selection[dataset, objective]), dataset=dataset
            ).mean()
            for objective in ("Oracle", "CL")
        )
        expected.append(oracle - baseline if name.endswith("differences") else oracle)
    np.testing.assert_allclose(y, expected)
    assert "negatives" in figure.axes[0].get_xlabel()


@pytest.mark.parametrize("name", ["ablation_dimensions", "ablation_dimensions_differences"])
def test_ablation_by_embedding_size_compares_objectives_at_the_same_size(swept, name):
    lines = lines_of(drawn(swept, name).axes[0])
    x, y = lines["same"].get_data(orig=False)
    np.testing.assert_allclose(x, [64, 256])
    same, cl = (
        [
            values_of(swept, f"{objective},dimensions={size}", dataset="batch_size=64").mean()
            for size in (64, 256)
        ]
        for objective in ("same", "CL")
    )
    np.testing.assert_allclose(y, np.subtract(same, cl) if name.endswith("differences") else same)
    assert ("CL" in lines) is not name.endswith("differences")


@pytest.mark.parametrize(
    ("figure", "objective", "field", "values", "others"),
    [
        (
            "ablation_batch_size",
            "CL",
            "batch_size",
            [32, 64, 96],
            "dimensions=512, negative_weight=0.6",
        ),
        (
            "ablation_dimensions",
            "ReCo",
            "dimensions",
            [256, 512],
            "batch_size=64, negative_weight=0.6",
        ),
        (
            "ablation_strength",
            "ReCo",
            "negative_weight",
            [0.1, 0.3, 0.6],
            "batch_size=64, dimensions=512",
        ),
    ],
)
def test_sweeps_of_one_setting_at_a_time_hold_the_others_at_their_base(
    one_at_a_time, figure, objective, field, values, others
):
    base = {"batch_size": 64, "dimensions": 512} | (
        {"negative_weight": 0.6} if objective == "ReCo" else {}
    )
    drawn_figure = drawn(one_at_a_time, figure)
    x, y = lines_of(drawn_figure.axes[0])[objective].get_data(orig=False)
    np.testing.assert_allclose(x, values)
    names = [
        variant_name(objective, json.dumps(base | {field: value}, sort_keys=True))
        for value in values
    ]
    np.testing.assert_allclose(y, [values_of(one_at_a_time, name).mean() for name in names])
    assert f"At {others}." in footnote(drawn_figure)
    assert "validation" not in footnote(drawn_figure)


def test_footnotes_name_the_first_settings_of_drawn_objectives_only(swept):
    # Only DCL and its variants have anchors at the bound.
    loss, bound = (
        footnote(drawn(swept, name)).partition("Phantom:")[0]
        for name in ("training_loss", "share_at_bound")
    )
    assert re.search(r"\bReCo\b", loss)
    assert "First of the listed values: DCL" in bound
    assert re.findall(r"\b(?:CL|ReCo|Oracle)\b", bound) == []


def test_other_settings_of_a_sweep_are_the_first_listed(swept):
    figure = drawn(swept, "ablation_strength")
    x, y, *_ = curve(figure.axes[0])
    size = f"dimensions={json.loads(Gathered(swept).chosen('ReCo'))['dimensions']}"
    expected = [
        values_of(swept, f"ReCo,{size},negative_weight={weight}", dataset="batch_size=64").mean()
        for weight in x
    ]
    np.testing.assert_allclose(y, expected)
    # DCL, which sweeps η, is not drawn
    assert "At dimensions=64." in footnote(figure)
    assert (
        {"CL", "ReCo"}
        <= set(lines_of(figure.axes[0]))
        <= {"CL", "ReCo", "DCL-LM", "DCL-true", "Oracle"}
    )


def test_a_variant_with_a_partly_true_class_probability_has_the_name_of_its_runs():
    swept = {"name": "dcl", "class_probability": ["true", {"true_share": 0.5}]}
    of = synthetic_pairs.study(objectives=synthetic_pairs.settings()["objectives"] | {"DCL": swept})
    (_, (label, variant)) = runs.variants(of)["DCL"].items()
    assert label == variant_name("DCL", variant) == "DCL,class_probability=true_share=0.5"


def test_variants_of_a_sweep_differ_only_in_the_swept_number():
    variants = [
        '{"a":1,"eta":0.2}',
        '{"a":1,"eta":0.1}',
        '{"a":2,"eta":0.1}',
        '{"a":1,"eta":"language model"}',
    ]
    expected = {variants[1]: 0.1, variants[0]: 0.2}
    assert list(places_of(variants, variants[3], "eta").items()) == list(expected.items())


def assert_densities(plot, table, column):
    """Each outline of a panel is the density, on the drawn range, of the rows whose value in the
    column is its label.
    """
    assert set(densities_of(plot)) == set(table[column])
    for name, (density, edges) in densities_of(plot).items():
        values = table[table[column] == name]["similarity"]
        # the ends may be values, and are drawn with rounding errors
        edges[[0, -1]] += [-1e-12, 1e-12]
        np.testing.assert_allclose(density, np.histogram(values, edges, density=True)[0], rtol=1e-6)
        assert ((values >= edges[0]) & (values <= edges[-1])).mean() > 0.99
        assert plot.get_ylim()[1] > density.max()


def test_histograms_overlay_the_objectives_and_separate_each_by_relation():
    table = synthetic_pairs.similarities(["ReCo", "CL"])
    figure = histograms(table)
    overlay, *parts = figure.axes
    assert [plot.get_title().split("\n")[0] for plot in figure.axes] == ["all pairs", "ReCo", "CL"]
    assert len({plot.get_xlim() for plot in figure.axes}) == 1
    is_all = table["relation"] == "all pairs"
    assert_densities(overlay, table[is_all], "objective")
    for plot, name in zip(parts, ["ReCo", "CL"], strict=True):
        assert_densities(plot, table[~is_all & (table["objective"] == name)], "relation")
        (color,) = {tuple(outline.get_edgecolor()[0]) for outline in plot.collections}
        assert color == tuple(
            next(part for part in overlay.collections if part.get_label() == name).get_edgecolor()[
                0
            ]
        )


def test_histograms_of_8x200_share_an_axis_by_kind_of_pair():
    table = synthetic_pairs.similarities(["InfoNCE", "ReCo"])
    table = table[table["relation"] != "own pair"]
    names = {"true of the image": "same class", "not true of the image": "another class"}
    table["relation"] = table["relation"].replace(names)
    narrow = 0.9 + table["similarity"] * np.where(table["objective"] == "ReCo", 0.02, 0.1)
    both = pd.concat(
        [table.assign(pairs="text–image"), table.assign(pairs="image–image", similarity=narrow)]
    )
    figure = histograms(both)
    panels = [
        f"{panel}, {pairs}"
        for panel in ("all pairs", "InfoNCE", "ReCo")
        for pairs in ("text–image", "image–image")
    ]
    assert [plot.get_title().split("\n")[0] for plot in figure.axes] == panels
    is_all = both["relation"] == "all pairs"
    for plot, panel in zip(figure.axes, panels, strict=True):
        name, pairs = panel.split(", ")
        chosen = is_all if name == "all pairs" else ~is_all & (both["objective"] == name)
        assert_densities(
            plot,
            both[chosen & (both["pairs"] == pairs)],
            "objective" if name == "all pairs" else "relation",
        )
    assert (
        figure.axes[0].get_xlim()
        == figure.axes[2].get_xlim()
        == figure.axes[4].get_xlim()
        != figure.axes[1].get_xlim()
    )
    assert "CheXpert 8×200" in footnote(figure)


def test_titles_of_histograms_state_the_numbers_of_all_pairs():
    table = synthetic_pairs.similarities(["CL", "ReCo"])
    table["similarity"] = table["similarity"] ** 3
    title = histograms(table).axes[2].get_title()
    of_objective = table[table["objective"] == "ReCo"]
    values = of_objective[of_objective["relation"] == "all pairs"]["similarity"].to_numpy()
    skewness = ((values - values.mean()) ** 3).mean() / values.std() ** 3
    _, tail, _ = title.split("\n")
    expected = [skewness, 100 * (values <= 0).mean(), 0]
    assert synthetic.numbers(tail) == pytest.approx(expected, abs=0.6, rel=0)
    assert synthetic.numbers(tail)[0] == pytest.approx(skewness, abs=0.006)


def test_two_variants_of_an_objective_are_drawn_in_different_colours():
    labels = ["DCL,class_probability=0.1", "DCL,class_probability=0.2"]
    table = synthetic_pairs.similarities(labels)
    of = synthetic_pairs.study()
    figure = similarity_histograms(
        SimpleNamespace(read=lambda *files: table, study_note="", study=of), []
    )
    assert len({tuple(outline.get_edgecolor()[0]) for outline in figure.axes[0].collections}) == 2


def test_titles_of_histograms_state_the_separation_of_true_texts():
    table = synthetic_pairs.similarities(["CL"], pairs=300)
    true, false = (
        table[table["relation"] == name]["similarity"].to_numpy()
        for name in ("true of the image", "not true of the image")
    )
    expected = (true[:, None] > false).mean()
    assert histograms(table).axes[1].get_title().endswith(f"P(true > not true) {expected:.2f}")


def test_similarities_of_earlier_versions_are_drawn_without_all_pairs():
    table = synthetic_pairs.similarities(["CL"])
    figure = histograms(table[table["relation"] == "own pair"])
    assert [plot.get_title() for plot in figure.axes if plot.axison] == ["CL"]
    assert "lignment" not in footnote(figure)


def test_overlays_show_radiograph_heatmap_boxes_and_contrast():
    table = synthetic_pairs.overlays(["CL", "Oracle"], phrases=3)
    figure = overlays_of(table, phrases=2)
    axes = np.array(figure.axes).reshape(2, 3)
    assert [text.get_text() for text in axes[0, 2].texts] == ["1.25", "Oracle"]
    row = table[(table["objective"] == "Oracle") & (table["report"] == 1)].iloc[0]
    for plot in axes[1]:
        boxes = {patch.get_bbox().bounds for patch in plot.patches if isinstance(patch, Rectangle)}
        assert boxes == {(row["x0"][0], row["y0"][0], 16.0, 12.0)}
    radiograph, heat = (image.get_array() for image in axes[1, 2].images)
    np.testing.assert_array_equal(
        radiograph, np.frombuffer(row["pixels"], np.uint8).reshape(64, 64)
    )
    heatmap = np.frombuffer(row["heatmap"], np.float32).reshape(64, 64)
    opacity = heat[..., 3]
    assert np.unravel_index(opacity.argmax(), opacity.shape) == np.unravel_index(
        heatmap.argmax(), heatmap.shape
    )
    assert opacity.min() == 0
    assert len(axes[1, 0].images) == 1
    assert "“The heart is moderately enlarged.”" in axes[1, 0].texts[0].get_text()


def test_the_similarity_of_pairs_is_drawn_by_epoch():
    of = synthetic_pairs.study(seeds=3)
    curves = synthetic_pairs.curves(of, epochs=6)
    curves = curves[curves["objective"] != "DCL"]
    (drawing,) = [
        drawing for drawing in monitors.drawings(of) if drawing.name == "positive_similarity"
    ]
    lines = lines_of(drawing.made(gathered(curves)).axes[0])
    assert list(lines) == [name for name in of.objectives if name != "DCL"]
    expected = curves[curves["objective"] == "same"].groupby("epoch")["similarity of pairs"].mean()
    np.testing.assert_allclose(lines["same"].get_ydata(), expected)
    empty = drawing.made(gathered(curves.drop(columns="similarity of pairs")))
    assert "No objective" in empty.axes[0].texts[0].get_text()


def test_the_registry_lists_the_figures_and_tables_that_a_study_sweeps_or_requests():
    always = [
        "training_loss",
        "share_at_bound",
        "positive_similarity",
        "same_class_ratio",
        "true_negative_mean",
    ]
    tradeoff = ["tradeoff_differences", "tradeoff"]
    names = ("primary_by_negatives", "ablation_dimensions", "ablation_strength")
    ablations = [name + end for name in names for end in ("", "_differences")]
    requested = ["similarity_histograms", "grounding_overlays", "eta_quality"]
    plain = synthetic_pairs.study()
    assert list(registry.figures_by_name(plain)) == ["gains", *tradeoff, *requested, *always]
    assert set(registry.figures_by_name(synthetic_pairs.study(**SWEPT))) >= {
        *tradeoff,
        "similarity_histograms",
        *ablations,
    }
    one_constant = {
        "DCL": {
            "name": "dcl",
            "class_probability": [0.1, {"true_share": 0.5}, {"true_share": 0.2}, "language model"],
        }
    }
    least = synthetic_pairs.study(
        objectives=synthetic_pairs.settings()["objectives"] | one_constant, figures={}
    )
    assert list(registry.figures_by_name(least)) == ["gains", "eta_quality", *always]
    tables = {
        "tasks",
        "zero_shot",
        "grounding",
        "retrieval",
        "linear_evaluation",
        "methods",
        "differences",
        "candidates",
        "eta_quality",
    }
    assert set(registry.tables_by_name(plain)) == tables
    papers = {
        "sample-specific-debiasing": [f"Table {n}" for n in (1, 3, 4, 5)],
        "relaxing-contrastiveness": ["Table 1", "Table 2", "Table 3", "Section 4.2", "Section 4.4"],
    }
    named = {
        "published": [{"paper": name, "tables": list(tables)} for name, tables in papers.items()],
        "contrasts": [{"treatment": "DCL-LM", "baseline": "DCL"}],
    }
    everything = registry.tables_by_name(
        synthetic_pairs.study(evaluation={"precision": {}}, **named)
    )
    printed = {published_name(paper, place) for paper, places in papers.items() for place in places}
    assert set(everything) == {*tables, *printed, "precision"}


def test_a_figure_reads_only_the_files_that_it_needs():
    drawings = registry.figures_by_name(synthetic_pairs.study())
    asked = drawings["similarity_histograms"].files
    assert asked[2] == "similarities/phantom/DCL,class_probability=0.1.parquet"
    assert len(asked) == 1 + 4
    assert drawings["grounding_overlays"].files[1] == "overlays/phantom/CL.parquet"
    assert drawings["tradeoff"].files == ("study.yaml", "comparison.json", "rows.parquet")


@pytest.mark.long  # draws forty files
@pytest.mark.parametrize("name", ["small", "swept"])
def test_figures_tables_and_page_are_written(name, request, tmp_path):
    folder = request.getfixturevalue(name)
    build.draw_study(folder.parent)
    study = Gathered(folder).study
    for figure in registry.figures_by_name(study):
        place = folder.parent / "figures" / figure
        with Image.open(place.with_suffix(".png")) as image:
            assert image.size[0] > 900
            assert image.info["Description"]
        assert "Phantom:" in place.with_suffix(".txt").read_text()
    for table in registry.tables_by_name(study):
        assert "Phantom:" in (folder.parent / "tables" / f"{table}.tex").read_text()
    results = folder.parents[1]
    build.write_page(results / "index.html", [folder / "study.yaml"])
    page = (results / "index.html").read_text()
    assert "A small phantom" in page
    assert "How does each objective do in every task?" in page
    assert "Not on this page" not in page


def test_an_unreadable_study_is_listed_on_the_page_unless_it_is_required(tmp_path):
    old = tmp_path / "<old>" / "artefacts" / "study.yaml"
    old.parent.mkdir(parents=True)
    old.write_text("title: Of an earlier version\n")
    build.write_page(tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text()
    assert "Not on this page" in page
    assert "&lt;old&gt;" in page
    assert "<old>" not in page
    with pytest.raises(UserError, match=r"<old>.*study\.yaml"):
        build.write_page(tmp_path / "index.html", [old])


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"another figure?")])
def test_a_study_with_a_damaged_or_missing_picture_is_listed_on_the_page(damage, small, tmp_path):
    folder = tmp_path / "small"
    shutil.copytree(small, folder / "artefacts")
    picture = folder / "figures" / "tradeoff.png"
    picture.parent.mkdir()
    picture.write_bytes(b"another picture")
    seal(tmp_path, [picture])
    damage(picture)
    build.write_page(tmp_path / "index.html")
    page = (tmp_path / "index.html").read_text()
    assert "Not on this page" in page
    assert "tradeoff.png" in page
