"""Tables computed from finished runs and ratings match values computed from the runs directly."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

from tests.evaluation.finished_runs import write_runs
from tests.text.models import saved
from tests.textures import settings_of
from trueneg.data.pairs.pair_source import PairSource, distinct_texts, read_pairs, write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.samples import write_subsets
from trueneg.data.stored_features import StoredFeatures
from trueneg.errors import UserError
from trueneg.evaluation.human_ratings import (
    areas_within_anchors,
    calibration,
    calibration_error,
    false_negatives,
)
from trueneg.evaluation.implied_scores import false_negative_probability
from trueneg.evaluation.pair_features import embed_images, similarities
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.evaluation.rated_pairs import rated_pairs
from trueneg.evaluation.rating_runs import (
    REFERENCE,
    measure_ratings,
    of_references,
    of_run,
)
from trueneg.evaluation.rating_summary import gather_ratings
from trueneg.stats.comparison import paired_differences
from trueneg.training.frozen import Frozen
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")
SEEDS, EACH = (0, 1), 3
THINGS, PLACES = ("a dog", "two dogs", "a boat", "a child"), ("on grass", "by the sea", "in snow")


def photographs(count=60):
    """Return images that show a thing at a place, with captions in different words, and the things
    and places.
    """
    generator = np.random.default_rng(0)
    thing, place = generator.integers(0, 4, count), generator.integers(0, 3, count)
    names = np.array([f"{number:03}.jpg" for number in range(count)])
    images = generator.integers(0, 60, (count, 1, 32, 32), dtype=np.uint8)
    images[np.arange(count), 0, 4 + 6 * thing] += 150
    images[np.arange(count), 0, :, 4 + 8 * place] += 40
    words = ("There is", "One sees", "Here is")
    texts = [
        f"{words[k]} {THINGS[a]} {PLACES[b]}."
        for a, b in zip(thing, place, strict=True)
        for k in range(EACH)
    ]
    table = pd.DataFrame(
        {
            "report": np.repeat(names, EACH),
            "index": np.tile(np.arange(EACH), count),
            "sentence": texts,
        }
    )
    table = table.assign(
        **{"class": -1, "eta": 0.05 + 0.3 * generator.random(len(table)), "eta constant": 0.2}
    )
    nothing = {
        "labels": np.zeros((count, 0), np.float32),
        "label_names": (),
        "shown": np.zeros((count, 0), bool),
    }
    return PairSource("photographs", images, names, names, table, **nothing), thing, place


SOURCE, THING, PLACE = photographs()


def rated(source=SOURCE):
    """Rate every fourth pair by the thing and the place that both show."""
    generator, rows = np.random.default_rng(1), []
    for image, report in np.argwhere(generator.random((60, 60)) < 0.25):
        best = 1 + 2 * (THING[image] == THING[report]) + (PLACE[image] == PLACE[report])
        three = np.clip(best + generator.integers(-1, 1, 3), 1, 4)
        rows.append((source.reports[image], source.reports[report], 2, *sorted(three.tolist())))
    return pd.DataFrame(
        rows, columns=["image", "report", "index", "rating 1", "rating 2", "rating 3"]
    )


OBJECTIVES = {
    "CL": {"name": "cl", "directions": "text"},
    "BCL": {
        "name": "bcl",
        "directions": "both",
        "class_probability": "language model",
        "alpha": 0.8,
        "beta": 1.0,
    }
    | {"form": "consistent"},
}
# The same split for every seed, like an official one.
SUBSETS = {seed: dataclasses.replace(split_pairs(SOURCE, 0, test=0.5), seed=seed) for seed in SEEDS}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder, the networks and the tables of two objectives with two seeds each."""
    folder, networks = tmp_path_factory.mktemp("world"), {}
    write_pairs(
        dataclasses.replace(SOURCE, language_model=saved(folder / "model")), folder / "source.npz"
    )
    rated().to_parquet(folder / "ratings.parquet")
    write_subsets(list(SUBSETS.values()), folder / "subsets.parquet")
    shared = {
        "source": folder / "source.npz",
        "ratings": folder / "ratings.parquet",
        "subsets": folder / "subsets.parquet",
    }
    shared |= {"settings": {"threads": 1}}
    for objective, settings in OBJECTIVES.items():
        runs = {}
        for seed in SEEDS:
            training = ImageText(settings_of(settings), seed, SOURCE, SUBSETS[seed], CPU)
            training.train_epoch()
            training.network.eval()
            networks[objective, seed], runs[f"{objective}{seed}"] = training.networks, training
        written = write_runs(folder, settings_of(settings), runs, dataset="d", objective=objective)
        outputs = {
            "areas": folder / f"{objective}.parquet",
            "bins": folder / f"{objective}-bins.parquet",
        }
        names = {
            "study": "s",
            "dataset": "d",
            "condition": "{}",
            "objective": objective,
            "variant": "{}",
        }
        measure_ratings(of_run, outputs, **shared, **written, names=names)
    outputs = {name: folder / f"{name}-block.parquet" for name in ("areas", "eta", "correlations")}
    measure_ratings(of_references, outputs, **shared, **written, names=REFERENCE)
    gathered = {
        name: folder / f"{name}.parquet"
        for name in ("summary", "rows", "calibration", "eta", "correlations")
    }
    gather_ratings(
        areas=[folder / f"{name}.parquet" for name in OBJECTIVES],
        bins=[folder / f"{name}-bins.parquet" for name in OBJECTIVES],
        references=[outputs["areas"]],
        captions=[outputs["eta"]],
        correlated=[outputs["correlations"]],
        **gathered,
    )
    return folder, networks, {name: pd.read_parquet(path) for name, path in gathered.items()}


def text_of(report, index):
    table = SOURCE.sentences
    return table.loc[(table["report"] == report) & (table["index"] == index), "sentence"].item()


def all_scores(networks, test):
    """Return the similarities of all texts with all images of the split, by name."""
    texts = sorted(SOURCE.sentences["sentence"].unique())
    images = embed_images(networks, SOURCE, test, CPU, regions=False)
    return pd.DataFrame(
        similarities(networks, texts, images, CPU), index=texts, columns=SOURCE.reports[test]
    )


def own_scores(networks, seed):
    """Return similarity, relevance and names of every rated pair in the test split, read from the
    source's own tables.
    """
    test = SUBSETS[seed].test
    reports = SOURCE.reports[test]
    scores, rows = all_scores(networks, test), []
    for row in rated().to_dict("records"):
        if row["image"] == row["report"] or not {row["image"], row["report"]} <= set(reports):
            continue
        score = scores.loc[text_of(row["report"], row["index"]), row["image"]]
        false = (row["rating 1"] + row["rating 2"] + row["rating 3"]) / 3 > 2.5
        rows.append((score, false, f"{row['report']}#{row['index']}", row["image"]))
    return pd.DataFrame(rows, columns=["score", "false", "text", "image"])


@pytest.mark.parametrize("kind", ["text", "image"])
def test_areas_match_the_similarities_of_the_run(world, kind):
    folder, networks, _ = world
    table = pd.read_parquet(folder / "CL.parquet")
    for seed in SEEDS:
        own = own_scores(networks["CL", seed], seed)
        expected = areas_within_anchors(own["score"], own["false"], own[kind])
        found = table[
            (table["seed"] == seed) & (table["anchors"] == kind) & (table["threshold"] == 2.5)
        ].sort_values("anchor")
        assert found["anchor"].tolist() == expected["anchor"].tolist()
        # Batches of other sizes may round ties apart.
        np.testing.assert_allclose(found["area"], expected["area"], atol=0.02)
        assert found["comparisons"].tolist() == expected["comparisons"].tolist()


def test_the_summary_is_the_mean_over_seeds_and_anchors(world):
    folder, _, tables = world
    table = pd.read_parquet(folder / "BCL.parquet")
    own = table[(table["anchors"] == "text") & (table["threshold"] == 2.5)]
    summary = tables["summary"].set_index(["objective", "score", "anchors", "threshold"])
    row = summary.loc[("BCL", "similarity", "text", 2.5)]
    assert row["AUC"] == pytest.approx(own.groupby("anchor")["area"].mean().mean())
    assert row["low"] < row["AUC"] < row["high"]
    assert row["seeds"] == 2
    pooled = own.groupby("anchor")[["area", "comparisons"]].mean()
    assert row["weighted AUC"] == pytest.approx(
        np.average(pooled["area"], weights=pooled["comparisons"])
    )
    rows = tables["rows"]
    assert set(rows["run"]) == {"CL0", "CL1", "BCL0", "BCL1"}
    of_seed = rows[
        (rows["objective"] == "BCL")
        & (rows["direction"] == "text to image")
        & (rows["labels"] == "rated above 2.5")
    ]
    np.testing.assert_allclose(of_seed["value"], own.groupby("seed")["area"].mean())
    assert set(paired_differences(rows, "CL")["objective"]) == {"BCL"}


def test_bcl_probabilities_are_computed_among_all_images_of_the_split(world):
    folder, networks, tables = world
    test = SUBSETS[0].test
    pairs = rated_pairs(SOURCE, rated(), test)
    scores = all_scores(networks["BCL", 0], test)
    sentences = SOURCE.sentences.set_index(["report", "index"])
    stated, false = [], []
    for image, caption, three in zip(pairs.image, pairs.caption, pairs.ratings, strict=True):
        report, index = pairs.captions.loc[caption, ["report", "index"]]
        own = sentences.loc[(report, index)]
        mine = (scores.columns == report)[None]
        found = false_negative_probability(
            scores.loc[[own["sentence"]]].to_numpy(),
            mine,
            alpha=0.8,
            eta=own["eta"],
            form="consistent",
        )
        stated.append(found[0, image])
        false.append(three.mean() > 2.5)
    expected = calibration(stated, false)
    bins = pd.read_parquet(folder / "BCL-bins.parquet")
    found = bins[(bins["seed"] == 0) & (bins["anchors"] == "text")]
    assert found["pairs"].sum() == len(false)
    assert calibration_error(found) == pytest.approx(calibration_error(expected), abs=0.02)
    assert np.average(found["implied"], weights=found["pairs"]) == pytest.approx(
        np.mean(stated), abs=0.01
    )
    assert set(bins["anchors"]) == {"text", "image"}  # its directions
    assert pd.read_parquet(folder / "CL-bins.parquet").empty
    shown = tables["calibration"]
    assert set(shown["objective"]) == {"BCL"}
    errors = [
        calibration_error(bins[(bins["seed"] == seed) & (bins["anchors"] == "text")])
        for seed in SEEDS
    ]
    assert shown.loc[shown["anchors"] == "text", "error"].iloc[0] == pytest.approx(np.mean(errors))


def test_reference_rankings_separate_false_negatives(world):
    summary = world[2]["summary"].set_index(["score", "anchors", "threshold"])
    assert set(summary.loc[summary["objective"] == "", "seeds"]) == {2}
    for name in ("one expert", "TF-IDF, mean", "TF-IDF, nearest"):
        assert summary.loc[(name, "text", 2.5), "low"] > 0.6, name
    drawn, nearest = (
        summary.loc[(f"TF-IDF, {how}", "image", 2.5), "AUC"] for how in ("drawn", "nearest")
    )
    assert drawn <= nearest + 0.02
    assert {"language model, drawn", "language model, mean"} <= set(
        summary.index.get_level_values(0)
    )


def test_a_frozen_text_tower_is_a_reference(world):
    folder, networks, _ = world
    texts = distinct_texts(SOURCE)
    vectors = np.random.default_rng(3).standard_normal((len(texts), 1, 5, 1)).astype(np.float32)
    frozen = Frozen(
        {"text_encoder": StoredFeatures(vectors, None, "", "")},
        rows={text: row for row, text in enumerate(texts)},
    )
    run = EmbeddedPairs(
        "r",
        networks["CL", 0]._replace(frozen=frozen),
        read_pairs(folder / "source.npz"),
        SUBSETS[0],
        CPU,
    )
    pairs = rated_pairs(run.source, rated(), run.subset.test)
    areas = of_references(run, pairs, {})["areas"].set_index(["score", "anchors", "threshold"])
    units = vectors[:, 0, :, 0] / np.linalg.norm(vectors[:, 0, :, 0], axis=1, keepdims=True)
    cosines = units @ units.T
    places = {text: row for row, text in enumerate(texts)}
    scores = []
    for text, image in zip(pairs.text, pairs.image, strict=True):
        own = [places[pairs.texts[number]] for number in pairs.own_texts[image]]
        scores.append(max(cosines[places[pairs.texts[text]], other] for other in own))
    expected = areas_within_anchors(
        np.float32(scores), false_negatives(pairs.ratings), pairs.anchor_names("image")[pairs.image]
    )
    found = areas.loc[("text tower, nearest", "image", 2.5)].set_index("anchor")["area"]
    np.testing.assert_allclose(found[expected["anchor"]], expected["area"], atol=0.01)


def test_eta_is_reported_with_the_rate_of_each_caption(world):
    tables = world[2]
    eta = tables["eta"]
    assert set(eta["seed"]) == {0}
    row = eta.iloc[3]
    report, index = row["anchor"].split("#")
    known = SOURCE.sentences.set_index(["report", "index"]).loc[(report, int(index))]
    assert row["language model"] == known["eta"]
    own = rated()
    own = own[
        (own["report"] == report)
        & (own["image"] != report)
        & own["image"].isin(SOURCE.reports[SUBSETS[0].test])
    ]
    means = own[["rating 1", "rating 2", "rating 3"]].mean(axis=1)
    assert (row["pairs"], row["rate"]) == (len(own), pytest.approx((means > 2.5).mean()))
    rho = tables["correlations"].set_index(["eta", "with"])
    assert rho.loc[("language model", "rate"), "low"] < rho.loc[("language model", "rate"), "high"]
    assert rho.loc[("constant mean", "rate")][["rho", "low", "high"]].isna().all()


def test_pairs_of_an_image_and_its_own_caption_are_excluded():
    pairs = rated_pairs(SOURCE, rated(), np.arange(60))
    everything = rated()
    assert len(pairs.image) == (everything["image"] != everything["report"]).sum() < len(everything)
    assert (pairs.captions["image"].to_numpy()[pairs.caption] != pairs.image).all()
    assert pairs.own_texts.shape == (60, EACH)
    texts = np.array(pairs.texts)
    for image in (0, 17):
        own = SOURCE.sentences[SOURCE.sentences["report"] == SOURCE.reports[image]].sort_values(
            "index"
        )["sentence"]
        assert texts[pairs.own_texts[image]].tolist() == own.tolist()


def test_too_few_rated_pairs_in_the_test_split_raise_an_error():
    with pytest.raises(
        UserError,
        match=r"photographs: only \d text anchors .* at least 2; \d+ of [\d,]+ rated pairs",
    ):
        rated_pairs(SOURCE, rated(), np.arange(3))
