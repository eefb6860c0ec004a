"""Figures and table of the human ratings show their means, intervals and paired differences."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import synthetic
import synthetic_pairs
from scipy import stats

from trueneg.evaluation.human_ratings import mean_area, rank_correlation
from trueneg.evaluation.rating_summary import calibrated, seed_rows, summarised
from trueneg.report import registry
from trueneg.report.drawing import alternative_text, footnote
from trueneg.report.figures import human_ratings as ratings
from trueneg.report.gathered import Gathered

SETTINGS = synthetic_pairs.settings(
    dataset={"source": "flickr8k", "text": "captions"},
    objectives=synthetic_pairs.settings()["objectives"]
    | {"BCL": {"name": "bcl", "class_probability": "language model"}},
)
LEVELS = {
    "CL": 0.62,
    "DCL": 0.63,
    "DCL-LM": 0.7,
    "DCL-true": 0.66,
    "ReCo": 0.6,
    "same": 0.64,
    "Oracle": 0.75,
    "BCL": 0.68,
}
SCORES = {name: 0.7 + 0.02 * place for place, name in enumerate(ratings.REFERENCES)} | {
    "one expert": 0.9
}


def ranked(of):
    """One row per anchor and seed, for objectives and references with known AUC."""
    generator, parts = np.random.default_rng(0), []
    variants = synthetic_pairs.variants(of)
    for label in (*variants, *SCORES):
        objective, variant = variants.get(label, ("", ""))
        level = SCORES.get(label) or LEVELS[objective]
        for seed in of.seed_list:
            for anchors, count in (("text", 40), ("image", 50)):
                for threshold in (2.5, 2.0, 3.0):
                    area = np.clip(
                        level + 0.02 * (threshold - 2.5) + generator.normal(0, 0.1, count), 0, 1
                    )
                    table = {
                        "condition": "{}",
                        "objective": objective,
                        "variant": variant,
                        "run": f"{label}-{seed}",
                    }
                    table |= {"seed": seed, "anchors": anchors}
                    table |= {
                        "score": label if label in SCORES else "similarity",
                        "threshold": threshold,
                    }
                    table |= {
                        "anchor": [f"{anchors}{n:02}" for n in range(count)],
                        "area": area,
                        "comparisons": 1 + seed % 2,
                    }
                    parts.append(pd.DataFrame({"study": "small", "dataset": "flickr8k", **table}))
    return pd.concat(parts, ignore_index=True)


def bins(of):
    parts = []
    for objective, variant in synthetic_pairs.variants(of).values():
        if objective in ("BCL", "DCL-LM"):
            for seed in of.seed_list:
                implied = np.linspace(0.02, 0.2, 10)
                table = {
                    "dataset": "flickr8k",
                    "objective": objective,
                    "variant": variant,
                    "seed": seed,
                }
                table |= {"anchors": "text", "bin": range(10)}
                table |= {
                    "pairs": 100,
                    "implied": implied,
                    "rated": 0.5 * implied + 0.05 + 0.001 * seed,
                }
                parts.append(pd.DataFrame({"study": "small", **table}))
    return pd.concat(parts, ignore_index=True)


def captions():
    generator = np.random.default_rng(1)
    eta = np.exp(generator.normal(-4, 1, 150))
    rate = (np.argsort(np.argsort(eta)) / 150 + generator.random(150) > 1.2).astype(float)
    table = {
        "study": "small",
        "dataset": "flickr8k",
        "objective": "",
        "seed": 0,
        "pairs": generator.integers(1, 12, 150),
    }
    return pd.DataFrame(
        table
        | {
            "anchor": [f"{n}.jpg#2" for n in range(150)],
            "rate": rate,
            "mean rating": 1 + rate,
            "language model": eta,
        }
        | {"permuted": generator.permutation(eta), "constant mean": eta.mean()}
    )


def correlations(table):
    table_rows = []
    for name in ("language model", "permuted", "constant mean"):
        for outcome in ("rate", "mean rating"):
            rho, low, high = rank_correlation(table[name], table[outcome], seed=0)
            table_rows.append(
                {
                    "dataset": "flickr8k",
                    "eta": name,
                    "with": outcome,
                    "rho": rho,
                    "low": low,
                    "high": high,
                }
            )
    return pd.DataFrame(table_rows)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project") / "results" / "small" / "artefacts"
    synthetic_pairs.write(
        folder, SETTINGS, ("flickr8k",), gains=synthetic_pairs.GAINS | {"BCL": 0.01}
    )
    (folder / "human_ratings").mkdir()
    of, eta = Gathered(folder).study, captions()
    everything = ranked(of)
    tables = {
        "summary": summarised(everything),
        "rows": seed_rows(everything[everything["objective"] != ""]),
    }
    tables |= {"calibration": calibrated(bins(of)), "eta": eta, "correlations": correlations(eta)}
    for name, table in tables.items():
        table.to_parquet(folder / "human_ratings" / f"{name}.parquet")
    return folder, everything


def drawn(folder, name):
    gathered = Gathered(folder)
    return registry.figures_by_name(gathered.study)[name].made(gathered)


@pytest.mark.parametrize("name", ["human_ratings", "eta_by_anchor"])
def test_long_footnotes_stay_inside_the_figure(study, name):
    gathered = Gathered(study[0])
    gathered.study = gathered.study.model_copy(update={"note": synthetic.LONG_NOTE})
    synthetic.assert_footnote_inside(registry.figures_by_name(gathered.study)[name].made(gathered))


def areas_of(everything, key, anchors="text", threshold=2.5):
    """The AUCs of a variant or a reference, with one row per anchor and one column per seed."""
    if key in SCORES:
        everything = everything[everything["score"] == key]
    else:
        everything = everything[
            (everything["objective"] == key[0]) & (everything["variant"] == key[1])
        ]
    chosen = everything[(everything["anchors"] == anchors) & (everything["threshold"] == threshold)]
    return chosen.pivot(index="anchor", columns="seed", values="area")


def variant(folder, objective):
    """An objective and its selected variant."""
    return objective, Gathered(folder).chosen(objective)


@pytest.mark.parametrize(("panel", "anchors"), [(0, "text"), (1, "image")])
def test_dots_show_means_over_seeds_and_anchors_with_intervals(study, panel, anchors):
    folder, everything = study
    plot = drawn(folder, "human_ratings").axes[panel]
    bars = {container.get_label(): container for container in plot.containers}
    assert [container.get_label() for container in plot.containers] == [
        *ratings.REFERENCES.values(),
        *LEVELS,
    ]
    for name in ("TF-IDF, mean", "CL", "DCL", "BCL"):
        label = name if name in SCORES else variant(folder, name)
        table = areas_of(everything, label, anchors)
        expected = mean_area(pd.DataFrame({"area": table.mean(axis=1)}), seed=0)
        shown = ratings.REFERENCES.get(name, name)
        segments = bars[shown].lines[2]
        line = next(line for line in plot.lines if line.get_label() == shown)
        np.testing.assert_allclose(line.get_xdata(orig=False), [expected.estimate])
        np.testing.assert_allclose(
            segments[0].get_segments()[0][:, 0], [expected.low, expected.high]
        )
    across = [line.get_xdata()[0] for line in plot.lines if len(line.get_xdata()) == 2]
    assert 0.5 in across
    assert any(
        value == pytest.approx(areas_of(everything, "one expert", anchors).to_numpy().mean())
        for value in across
    )


def test_calibration_plots_stated_against_rated_probabilities(study):
    folder, _ = study
    figure = drawn(folder, "human_ratings")
    plot = figure.axes[2]
    lines = {line.get_label(): line for line in plot.lines if not line.get_label().startswith("_")}
    assert lines.keys() == {"DCL-LM", "BCL"}
    np.testing.assert_allclose(lines["BCL"].get_xdata(), np.linspace(0.02, 0.2, 10))
    np.testing.assert_allclose(lines["BCL"].get_ydata(), 0.5 * np.linspace(0.02, 0.2, 10) + 0.0525)
    assert "not drawn at random" in footnote(figure)
    assert "Stated probability, caption as anchor." in alternative_text(figure)


def test_eta_is_plotted_by_caption_and_a_constant_eta_is_mentioned(study):
    folder, _ = study
    figure, table = drawn(folder, "eta_by_anchor"), captions()
    assert [plot.get_title().split("\n")[0] for plot in figure.axes] == [
        "language model",
        "permuted",
    ]
    points = figure.axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(points, table[["language model", "rate"]])
    groups = next(line for line in figure.axes[0].lines if line.get_label() == "groups")
    ordered = table.sort_values("language model")["rate"].to_numpy().reshape(10, 15)
    np.testing.assert_allclose(groups.get_ydata(), ordered.mean(axis=1))
    rho = stats.spearmanr(table["language model"], table["rate"]).statistic
    assert f"ρ +{rho:.2f}" in figure.axes[0].get_title()
    assert "η constant mean" in footnote(figure)


def test_the_figure_states_that_no_eta_varies():
    table = (
        captions()
        .drop(columns=["language model", "permuted", "constant mean"])
        .assign(dataset="flickr8k")
    )
    tables = dict(zip(ratings.ETA, (table, correlations(captions()).iloc[:0]), strict=True))
    figure = ratings.eta_by_anchor(
        SimpleNamespace(read=tables.get, dataset="flickr8k", study_note="")
    )
    assert "No η varies" in figure.axes[0].texts[0].get_text()


def test_the_table_contains_intervals_over_anchors_and_paired_differences(study):
    folder, everything = study
    table = registry.tables_by_name(Gathered(folder).study)["human_ratings"].made(Gathered(folder))
    people, networks = table.groups
    assert [name for name, _ in people.lines] == [
        "one expert against the other two",
        *ratings.REFERENCES.values(),
    ]
    assert [name for name, _ in networks.lines] == list(LEVELS)
    cells = {
        name: [cell.text for cell in line] for group in table.groups for name, line in group.lines
    }
    assert all(len(line) == len(table.columns) for line in cells.values())
    bcl, cl = (areas_of(everything, variant(folder, name)).mean() for name in ("BCL", "CL"))
    test = stats.ttest_rel(bcl, cl)
    low, high = test.confidence_interval()
    assert cells["BCL"][0] == "40"
    assert cells["BCL"][1].startswith(f"{bcl.mean():.3f} [")
    assert (
        cells["BCL"][2].replace("*", "").replace("−", "-")
        == f"{(bcl - cl).mean():+.3f} [{low:+.3f}, {high:+.3f}]"
    )
    assert cells["CL"][2] == ""
    assert (
        cells["BCL"][4]
        == f"{areas_of(everything, variant(folder, 'BCL'), threshold=2.0).to_numpy().mean():.3f}"
    )
    assert cells["BCL"][6] == "50"
    implied = np.linspace(0.02, 0.2, 10)
    expected = np.mean([np.abs(0.5 * implied - 0.05 - 0.001 * seed).mean() for seed in range(6)])
    assert cells["BCL"][-1] == f"{expected:.3f}"
    assert cells["CL"][-1] == cells["TF-IDF, mean of five"][-1] == "–"
    assert any("½ by construction" in note for note in table.notes)
    assert {"weighted AUC", "difference", "low"} <= set(table.values)


def test_missing_headroom_is_labelled_and_changes_no_stars(study, tmp_path):
    folder = shutil.copytree(study[0], tmp_path / "artefacts")
    path, tables = folder / "comparison.json", []
    comparison = json.loads(path.read_text())
    for label in ("clear headroom", "no clear headroom"):
        labels = [entry | {"label": label} for entry in comparison["headroom"]]
        path.write_text(json.dumps(comparison | {"headroom": labels}))
        tables.append(
            registry.tables_by_name(Gathered(folder).study)["human_ratings"].made(Gathered(folder))
        )
    starred = [
        sum("*" in cell.text for group in table.groups for _, line in group.lines for cell in line)
        for table in tables
    ]
    assert starred[0] == starred[1] > 0
    assert all(group.title.endswith("(no clear headroom)") for group in tables[1].groups)


def test_only_studies_with_ratings_have_their_figures_and_table(study):
    of = Gathered(study[0]).study
    assert {"human_ratings", "eta_by_anchor"} <= set(registry.figures_by_name(of))
    assert "human_ratings" in registry.tables_by_name(of)
    others = synthetic_pairs.study()
    assert not {"human_ratings", "eta_by_anchor"} & {
        *registry.figures_by_name(others),
        *registry.tables_by_name(others),
    }
