"""The summary of a study: selection, headroom, chance level, published numbers and the answer."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy
import synthetic
import synthetic_pairs
from tests.evaluation.texts.test_text_rows import LABELLED, text_study
from tests.projects import ROOT
from tests.studies import tiny_study

from trueneg.config.reading import load_configuration
from trueneg.config.runs import canonical
from trueneg.errors import UserError
from trueneg.report import registry
from trueneg.report.findings import sentence
from trueneg.report.gathered import Gathered
from trueneg.report.summary import at_edge, summarise_study
from trueneg.stats.crossed import crossed_interval
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import load_rows, to_table

OUTPUTS = {
    "rows": "rows.parquet",
    "curves": "curves.parquet",
    "runs": "runs.json",
    "candidates": "candidates.parquet",
}
OUTPUTS |= {
    "published": "published.parquet",
    "comparison": "comparison.json",
    "study": "study.yaml",
}

PROTOCOL = {
    "file": "protocol.md",
    "checksum": "0",
    "commit": "1",
    "date": "2026-10-01T12:00:00+02:00",
}


def summarised(folder, settings, rows, curves, samples=None):
    """Summarise a study from two blocks of rows, and from values by sample if there are any; return
    the comparison and the published numbers.
    """
    folder.mkdir()
    first = rows["seed"] < rows["seed"].max()
    for name, part in (("first", rows[first]), ("second", rows[~first])):
        part.to_parquet(folder / f"{name}.parquet")
    curves.to_parquet(folder / "block-curves.parquet")
    (folder / "block.json").write_text("[]")
    blocks = [folder / f"{name}.parquet" for name in ("first", "second")]
    inputs = SimpleNamespace(
        rows=blocks, curves=[folder / "block-curves.parquet"], runs=[folder / "block.json"]
    )
    inputs.published, inputs.pilots, inputs.winners = ROOT / "config/published.csv", [], []
    inputs.samples = []
    if samples is not None:
        samples.to_parquet(folder / "samples.parquet")
        inputs.samples = [folder / "samples.parquet"]
    outputs = SimpleNamespace(**{key: folder / name for key, name in OUTPUTS.items()})
    summarise_study("small", settings, inputs, outputs, PROTOCOL)
    assert len(load_rows(outputs.rows)) == len(rows)
    return json.loads(outputs.comparison.read_text()), pd.read_parquet(outputs.published)


def test_the_first_variants_are_compared(tmp_path):
    settings = synthetic_pairs.settings(published=[])
    rows = synthetic_pairs.write(tmp_path / "expected", settings)
    comparison, published = summarised(
        tmp_path / "found",
        settings,
        rows,
        pd.read_parquet(tmp_path / "expected" / "curves.parquet"),
    )
    expected = json.loads((tmp_path / "expected" / "comparison.json").read_text())
    for key in ("primary", "headroom", "seeds"):
        assert comparison[key] == expected[key]
    assert comparison["protocol"] == PROTOCOL | {"beforehand": True}
    for entry, wanted in zip(comparison["selection"], expected["selection"], strict=True):
        assert {key: entry[key] for key in wanted} == wanted
    assert published.empty


def test_a_study_without_sweeps_needs_only_the_test_split(tmp_path):
    settings = synthetic_pairs.settings(published=[])
    settings["objectives"]["DCL"] = {"name": "dcl", "class_probability": 0.1}
    rows = synthetic_pairs.rows(synthetic_pairs.study(**settings))
    curves = synthetic_pairs.curves(synthetic_pairs.study(**settings), epochs=2)
    whole, _ = summarised(tmp_path / "whole", settings, rows, curves)
    test, _ = summarised(tmp_path / "test", settings, rows[rows["split"] == "test"], curves)
    assert test == whole
    assert len(test["selection"]) == len(settings["objectives"])
    assert all(
        entry["candidates"] == 1 and entry["validation mean"] is None for entry in test["selection"]
    )
    swept = synthetic_pairs.settings(published=[])
    rows = synthetic_pairs.rows(synthetic_pairs.study(**swept))
    with pytest.raises(UserError, match="validation"):
        summarised(tmp_path / "swept", swept, rows[rows["split"] == "test"], curves)


def test_recalls_use_the_measured_chance_level_and_answers_label_the_variant_like_tables(tmp_path):
    recall = {
        "task": "retrieval sentence",
        "labels": "truth",
        "metric": "R",
        "direction": "text to image",
        "k": 10,
    }
    primary = synthetic_pairs.settings()["primary"] | recall | {"treatment": "DCL"}
    settings = synthetic_pairs.settings(primary=primary)
    settings["evaluation"] = {"retrieval": {"ks": [1, 5, 10]}}
    rows = synthetic_pairs.rows(synthetic_pairs.study(**settings))
    chance = rows[(rows["metric"] == "R") & (rows["k"] == 10)].assign(metric="chance", value=0.07)
    curves = synthetic_pairs.curves(synthetic_pairs.study(**settings), epochs=2)
    comparison, published = summarised(
        tmp_path / "found", settings, pd.concat([rows, chance]), curves
    )
    assert [entry["chance"] for entry in comparison["headroom"]] == [pytest.approx(0.07)]
    gathered = Gathered(tmp_path / "found")
    label = gathered.names[gathered.dataset, "DCL"]
    assert "η = " in label
    assert label in comparison["primary"]["answer"]
    assert not any("DCL," in text for text in (sentence(gathered), comparison["primary"]["answer"]))
    assert Measurement.of(comparison["primary"]) == Measurement(**recall)
    assert published.empty


@pytest.mark.parametrize(
    ("gains", "lost"),
    [
        ({"CL": [0.03, 0.02, 0.025], "DCL": [0.01, -0.02, 0.0]}, {"DCL"}),
        ({"CL": [-0.03, -0.02, -0.025]}, {"CL", "DCL"}),
    ],
)
def test_the_answer_says_what_is_not_shown_to_beat_the_towers_without_training(
    tmp_path, gains, lost
):
    settings = text_study(LABELLED, seeds=3)
    values = {"untrained": np.array([0.5, 0.52, 0.54])}
    values |= {
        name: values["untrained"] + np.array(gains.get(name, gains["CL"])) for name in ("CL", "DCL")
    }
    rows = synthetic.tidy(Measurement("knn", "accuracy", "seen"), values, dataset="text_table")
    chance = rows.assign(metric="chance", value=0.1)
    study = load_configuration({"mine": settings}, "mine.yaml").studies["mine"].model_dump()
    curves = pd.DataFrame({"objective": ["CL"], "seed": [0], "epoch": [1], "loss": [1.0]})
    comparison, _ = summarised(tmp_path / "found", study, pd.concat([rows, chance]), curves)
    tables = registry.tables_by_name(Gathered(tmp_path / "found").study)
    made = {
        name: tables[name].made(Gathered(tmp_path / "found")) for name in ("differences", "texts")
    }
    assert all(group.lines[0][0] == "untrained" for group in made["texts"].groups)
    outcomes = {contrast: cells[0].text for _, contrast, cells in made["differences"].lines}
    assert made["differences"].columns[0][1] == "outcome"
    assert {*outcomes} == {"DCL − CL", "untrained − CL"}
    assert outcomes["DCL − CL"] == comparison["primary"]["outcome"]
    text = comparison["primary"]["answer"]
    for name in ("CL", "DCL"):
        is_gain = f"{name} gains" in text and "over untrained" in text.split(f"{name} gains")[1]
        assert is_gain == (name not in lost)
    for name in ("CL", "DCL"):  # in points, with its sign in the word or the number
        gain = 100 * np.mean(values[name] - values["untrained"])
        assert any(abs(abs(number) - abs(gain)) < 0.051 for number in synthetic.numbers(text))


def test_the_tables_of_the_primary_measurement_have_the_intervals_over_samples(tmp_path):
    settings = text_study(LABELLED, seeds=6)
    settings["primary"] |= {"over": "runs and samples", "margin": 0.001}
    settings["contrasts"] = [{"treatment": "DCL", "baseline": "untrained"}]
    rng = np.random.default_rng(0)
    means = {"untrained": 0.4, "CL": 0.5, "DCL": 0.53}
    # the same for all seeds: that of the sample outweighs that of the run
    of_sample = {name: rng.random(40) < mean for name, mean in means.items()}
    parts = [
        pd.DataFrame({"objective": name, "seed": seed, "sample": np.arange(40)})
        .assign(cluster=lambda table: table["sample"] // 2)
        .assign(value=of_sample[name] + 0.004 * rng.normal(size=40))
        for name in means
        for seed in range(6)
    ]
    samples = pd.concat(parts).assign(dataset="text_table")
    values = {
        name: of_seeds.groupby("seed")["value"].mean().to_numpy()
        for name, of_seeds in samples.groupby("objective", sort=False)
    }
    rows = synthetic.tidy(Measurement("knn", "accuracy", "seen"), values, dataset="text_table")
    chance = rows.assign(metric="chance", value=0.1)
    study = load_configuration({"mine": settings}, "mine.yaml").studies["mine"].model_dump()
    curves = pd.DataFrame({"objective": ["CL"], "seed": [0], "epoch": [1], "loss": [1.0]})
    comparison, _ = summarised(
        tmp_path / "found", study, pd.concat([rows, chance]), curves, samples
    )
    other = rows.assign(value=rows["value"] + 0.1 * (rows["objective"] == "DCL"))
    refused = pytest.raises(UserError, match=r"first of objective DCL.*--forcerun evaluate samples")
    with refused:  # the rows were measured anew, the samples were not
        summarised(tmp_path / "other", study, pd.concat([other, chance]), curves, samples)
    gathered = Gathered(tmp_path / "found")
    tables = registry.tables_by_name(gathered.study)
    made = tables["differences"].made(gathered)
    shown = {contrast: cells for _, contrast, cells in made.lines}
    assert shown["DCL − CL"][0].text == comparison["primary"]["outcome"]
    assert any("20 independent groups" in note for note in made.notes)
    for contrast, cells in shown.items():
        treatment, _, baseline = contrast.partition(" − ")
        both = samples.pivot(index=["seed", "sample"], columns="objective", values="value")
        gains = (both[treatment] - both[baseline]).unstack("sample").to_numpy()
        found = crossed_interval(list(gains), [np.arange(40) // 2] * 6)
        low, high = 100 * np.array(found.ends())
        assert high - low > 10 * 100 * np.ptp(gains.mean(1))
        stated = synthetic.numbers(cells[1].text.replace("−", "-"))
        assert sorted(stated) == pytest.approx(sorted([100 * gains.mean(), low, high]), abs=0.051)
    texts = tables["texts"].made(gathered)
    shown = [cell.text for group in texts.groups for _, line in group.lines for cell in line]
    assert any(shown_interval in text for text in shown for shown_interval in [cells[1].text[:5]])


def test_the_chance_level_of_earlier_rows_is_one_over_the_number_of_classes_and_says_so(tmp_path):
    settings = tiny_study(
        objectives={name: {"name": "cl"} for name in synthetic.GAINS}
        | {"Oracle": {"name": "oracle"}},
        seeds=4,
    )
    rows = synthetic.rows({"digits": 0.5}, seeds=4)
    chance = rows[(rows["task"] == "knn") & rows["group"].isna()].assign(
        metric="chance", labels=None, value=0.1
    )
    both = to_table(pd.concat([rows, to_table(chance)]))
    comparison, published = summarised(
        tmp_path / "found", settings, both, synthetic.curves(("digits",), seeds=4)
    )
    (labelled,) = comparison["headroom"]
    assert labelled["chance"] == pytest.approx(0.1)
    assert labelled["above chance"]
    assert all(
        part in labelled["sentence"] for part in ("chance is 10.0 %", "1 / classes", "not measured")
    )
    assert comparison["primary"]["runs"].split() == [
        synthetic.run_id("digits", "DCL-true", seed) for seed in range(4)
    ]
    assert published.empty
    primary = settings["primary"] | {"task": "linear probe", "fraction": 0.3}
    with pytest.raises(UserError, match="fraction"):
        summarised(
            tmp_path / "other",
            settings | {"primary": primary},
            both,
            synthetic.curves(("digits",), seeds=4),
        )


@pytest.mark.parametrize(
    ("group", "excess", "label", "chance"),
    [
        (None, [0.002, -0.001, 0.003, -0.001], "not clearly above chance", 0.268),
        (None, [-0.002, 0.001, -0.002, 0.001], "not clearly above chance", 0.268),
        (None, [0.0, 0.0, 0.0, 0.0], "not clearly above chance", 0.268),
        (None, [0.022, 0.018, 0.021, 0.024], None, 0.268),
        ("macro", [0.0, 0.0, 0.0, 0.0], None, 0.1),
    ],
)
def test_accuracy_is_compared_with_the_share_of_the_largest_class(
    tmp_path, group, excess, label, chance
):
    """26.8 % of the images are of one class of ten; stratified splits differ by a fraction of an
    image.
    """
    settings = tiny_study(
        objectives={name: {"name": "cl"} for name in synthetic.GAINS}
        | {"Oracle": {"name": "oracle"}},
        seeds=4,
    )
    settings["primary"]["group"] = group
    of_seed = 0.268 + np.array([1e-5, -1e-5, 2e-5, -2e-5])
    rows = synthetic.rows({"digits": 0.5}, seeds=4)
    rows = rows[(rows["task"] == "knn") & rows["group"].isna()]
    rows = rows.assign(value=of_seed[rows["seed"]] + np.array(excess)[rows["seed"]], group=group)
    largest = rows.assign(
        task="largest class", metric="share", labels=None, group=None, value=of_seed[rows["seed"]]
    )
    guessing = rows.assign(metric="chance", labels=None, group=None, value=0.1)
    both = to_table(pd.concat([rows, largest, guessing]))
    comparison, _ = summarised(
        tmp_path / "found", settings, both, synthetic.curves(("digits",), seeds=4)
    )
    (entry,) = comparison["headroom"]
    assert entry["chance"] == pytest.approx(chance)
    expected = label or "unknown headroom"  # the oracle's differences are equal in all seeds
    assert (entry["label"], entry["above chance"]) == (expected, label is None)
    words = "the share of the largest class" if group is None else "1 / classes"
    assert f"chance is {100 * chance:.1f} % ({words})" in entry["sentence"]
    if label is not None:
        assert entry["sentence"].startswith(f"CL is {label}")
        low = scipy.stats.ttest_1samp(excess, 0, alternative="two-sided").confidence_interval().low
        assert not low > 0


def test_rows_without_the_primary_measurement_ask_for_another_evaluation(tmp_path):
    settings = tiny_study(
        objectives={name: {"name": "cl"} for name in synthetic.GAINS}
        | {"Oracle": {"name": "oracle"}},
        seeds=4,
    )
    settings["primary"]["group"] = "macro"
    with pytest.raises(UserError, match=r"macro.*--forcerun evaluate"):
        summarised(
            tmp_path / "found",
            settings,
            synthetic.rows({"digits": 0.5}, seeds=4),
            synthetic.curves(("digits",), seeds=4),
        )


def test_rows_of_another_version_raise_an_error_with_the_missing_columns(tmp_path):
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"task": ["knn"], "setting": ["labels=all"], "value": [0.5]}).to_parquet(path)
    with pytest.raises(UserError, match="Snakemake") as error:
        load_rows(path)
    assert all(part in str(error.value) for part in (str(path), "fraction", "run"))


@pytest.mark.parametrize(
    ("chosen", "edges"),
    [
        ({"class_probability": 0.05, "beta": 1}, ""),
        ({"class_probability": 0.01, "beta": 1}, "class_probability"),
        ({"class_probability": 0.2, "beta": 2.0}, "beta, class_probability"),
        ({"class_probability": "low", "beta": 0.5}, "beta"),
    ],
)
def test_selected_numbers_at_either_end_of_their_grid_are_listed(chosen, edges):
    grid = [
        canonical({"class_probability": eta, "beta": beta})
        for eta in (0.05, 0.01, 0.2, "low")
        for beta in (0.5, 1, 2.0)
    ]
    assert at_edge(canonical(chosen), grid) == edges
    assert at_edge(canonical(chosen), [canonical(chosen)]) == ""


def test_an_untuned_study_selects_nothing_whichever_variant_is_best(tmp_path):
    settings = synthetic_pairs.settings(published=[])
    rows = synthetic_pairs.write(tmp_path / "expected", settings)
    curves = pd.read_parquet(tmp_path / "expected" / "curves.parquet")
    wanted = (rows["objective"] == "DCL") & (
        rows["variant"] == canonical({"class_probability": 0.05})
    )
    assert wanted.any()
    raised = rows.assign(value=rows["value"] + 0.5 * (wanted & (rows["split"] == "validation")))
    first, _ = summarised(tmp_path / "first", settings, rows, curves)
    found, _ = summarised(tmp_path / "found", settings, raised, curves)
    assert found["selection"] == first["selection"]
    (entry,) = (entry for entry in found["selection"] if entry["objective"] == "DCL")
    assert entry["variant"] == canonical({"class_probability": 0.01})
    gathered = Gathered(tmp_path / "found")
    assert gathered.names[gathered.dataset, "DCL"] == "DCL (η = 0.01)"
    notes = " ".join([*gathered.table_notes, gathered.note_on({gathered.dataset}, {"DCL"})])
    assert "nothing was selected" in notes
    assert "edge" not in notes
    table = registry.tables_by_name(gathered.study)["candidates"].made(gathered)
    (group,) = table.groups
    remarks = {name: cells[-1].text for name, cells in group.lines}
    assert remarks == {"η = 0.01": "compared", "η = 0.05": "", "η = 0.1": "", "η = 0.2": ""}
    best = table.values.set_index("variant")["mean"].idxmax()
    assert best == canonical({"class_probability": 0.05})
    assert "chosen" not in table.values
