"""Epochs of pairs, class probabilities, and the checksum of what a run is trained on."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from tests.textures import settings_of
from tests.training.image_text.batches import (
    CPU,
    OBJECTIVES,
)
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.data.run_inputs import data_checksum
from trueneg.training.masked_words import masked_positions


def test_the_data_checksum_of_an_objective_with_its_own_a_and_k_covers_the_likelihoods(source):
    settings = settings_of(
        {"name": "dcl", "directions": "text", "class_probability": "permuted", "a": 0.4, "k": 0.1}
    )
    original = data_checksum(source, settings)
    for column, is_used in (
        ("log_likelihood permuted", True),
        ("tokens", True),
        ("eta permuted", False),
    ):
        table = source.sentences.assign(**{column: source.sentences[column] / 2})
        changed = data_checksum(dataclasses.replace(source, sentences=table), settings)
        assert (changed != original) == is_used


def test_sentences_without_their_true_class_probability_exchange_it(source, subset):
    data = PairData(source, subset, CPU)
    by_text = source.sentences.set_index(["report", "index"])["eta true"]
    true = np.array(
        [
            by_text[row["report"], row["index"]]
            for _, row in source.sentences.iloc[data._sentence_rows].iterrows()
        ],
        np.float32,
    )
    np.testing.assert_array_equal(data.class_probability("true"), true)
    kept = {}
    for share in (0.0, 0.25, 0.5, 0.75, 0.999):
        eta = data.class_probability({"true_share": share}).numpy()
        np.testing.assert_array_equal(np.sort(eta), np.sort(true))
        np.testing.assert_array_equal(
            eta, PairData(source, subset, CPU).class_probability({"true_share": share})
        )
        kept[share] = (eta == true).mean()
    # a sentence may get the value of its own class
    by_chance = sum((true == value).mean() ** 2 for value in np.unique(true))
    for share, found in kept.items():
        assert found == pytest.approx(share + (1 - share) * by_chance, abs=3 / len(true) ** 0.5)
    other = dataclasses.replace(subset, seed=1)
    assert (
        PairData(source, other, CPU).class_probability({"true_share": 0.5})
        != data.class_probability({"true_share": 0.5})
    ).any()


def test_pairs_and_class_probabilities_do_not_depend_on_the_order_of_sentences_and_images(source):
    keys = source.sentences["report"] + "/" + source.sentences["index"].astype(str)
    table = source.sentences.assign(sentence=keys).sample(frac=1, random_state=0)
    order = np.random.default_rng(0).permutation(len(source.images))
    arrays = ("images", "reports", "patients", "labels", "shown")
    shuffled = dataclasses.replace(
        source,
        sentences=table.reset_index(drop=True),
        **{name: getattr(source, name)[order] for name in arrays},
    )
    subset = split_pairs(shuffled, 0)
    data = PairData(shuffled, subset, CPU)
    report_of = shuffled.reports[subset.train]
    is_trained = table["report"].isin(report_of)
    assert sorted(data.sentences) == sorted(table["sentence"][is_trained])
    for unit in ("image", "study"):
        pairs = data.epoch(unit, torch.Generator().manual_seed(0)).part(slice(None), CPU)
        for sentence, image in zip(pairs.anchors.tolist(), pairs.positives.tolist(), strict=True):
            assert data.sentences[sentence].partition("/")[0] == report_of[image]
    expected = source.sentences.set_index(keys)["eta"][data.sentences]
    found = data.class_probability("language model")
    np.testing.assert_array_equal(found, expected.to_numpy(np.float32))


def test_the_statistics_of_images_are_those_of_the_training_split(source, subset):
    pixels = np.asarray(source.images[subset.train], np.float64) / 255
    means, deviations = PairData(source, subset, CPU).statistics
    assert means == pytest.approx(pixels.mean((0, 2, 3)), rel=1e-6)
    assert deviations == pytest.approx(pixels.std((0, 2, 3)), rel=1e-6)
    everything = np.asarray(source.images, np.float64) / 255
    assert means != pytest.approx(everything.mean((0, 2, 3)), rel=1e-6)


def test_an_epoch_of_images_pairs_each_image_with_a_uniformly_drawn_sentence_of_its_report(
    source, subset
):
    data, counts = PairData(source, subset, CPU), {}
    table = source.sentences.iloc[data._sentence_rows].reset_index(drop=True)
    for seed in range(300):
        epoch = data.epoch("image", torch.Generator().manual_seed(seed))
        pairs = epoch.part(slice(None), CPU)
        assert sorted(pairs.columns.tolist()) == list(range(len(subset.train)))
        reports = source.reports[subset.train[pairs.columns.numpy()]]
        assert (table["report"].to_numpy()[pairs.anchors.numpy()] == reports).all()
        for image, sentence in zip(pairs.columns.tolist(), pairs.anchors.tolist(), strict=True):
            if image < 5:
                counts[image, sentence] = counts.get((image, sentence), 0) + 1
    for image in range(5):
        mine = np.array([value for (one, _), value in counts.items() if one == image])
        size = (table["report"] == source.reports[subset.train[image]]).sum()
        assert len(mine) == size
        assert np.abs(mine / 300 - 1 / size).max() < 5 * math.sqrt(0.25 / 300)


def test_an_epoch_of_studies_draws_an_image_and_a_sentence_of_each_report(source, subset):
    data = PairData(source, subset, CPU)
    reports, chosen = source.reports[subset.train], set()
    for seed in range(20):
        epoch = data.epoch("study", torch.Generator().manual_seed(seed))
        pairs = epoch.part(slice(None), CPU)
        ours = reports[pairs.columns.numpy()]
        assert sorted(ours) == sorted(set(reports))
        assert (
            source.sentences.iloc[data._sentence_rows]["report"].to_numpy()[pairs.anchors.numpy()]
            == ours
        ).all()
        chosen |= set(pairs.columns.tolist())
    assert chosen == set(range(len(reports)))


def test_the_data_checksum_covers_the_source_class_probabilities_and_language_model_in_use(source):
    scored_anew = dataclasses.replace(source, sentences=source.sentences.assign(eta=0.5))
    checksums = {
        name: [data_checksum(one, settings_of(OBJECTIVES[name])) for one in (source, scored_anew)]
        for name in ("cl", "dcl", "dcl lm", "dcl permuted", "switched")
    }
    other = dataclasses.replace(
        source, language_model=source.language_model | {"checksum": "other"}
    )
    without = dataclasses.replace(source, language_model=None)
    embedded = {
        name: [
            data_checksum(one, settings_of(OBJECTIVES[name])) for one in (source, other, without)
        ]
        for name in OBJECTIVES
    }
    assert {name for name, found in embedded.items() if len(set(found)) > 1} == {
        "remove text",
        "resample",
        "reweight",
    }
    assert len({*embedded["remove text"], source.checksum}) == 4
    assert checksums["cl"] == checksums["dcl"] == [source.checksum] * 2
    assert checksums["dcl lm"][0] != checksums["dcl lm"][1]
    assert checksums["switched"][0] != checksums["switched"][1]
    other_truth = dataclasses.replace(
        source, sentences=source.sentences.assign(**{"eta true": 0.5})
    )
    partly = settings_of(OBJECTIVES["dcl true"] | {"class_probability": {"true_share": 0.5}})
    assert (
        len({source.checksum, data_checksum(source, partly), data_checksum(other_truth, partly)})
        == 3
    )
    assert checksums["dcl permuted"][0] == checksums["dcl permuted"][1] != source.checksum


def test_the_data_checksum_depends_on_weight_files(source, tmp_path):
    file = tmp_path / "text.safetensors"
    settings = settings_of(OBJECTIVES["cl"])
    settings["text_encoder"] |= {"projection": str(file)}
    found = [data_checksum(source, settings)]
    for content in (b"one", b"another"):
        file.write_bytes(content)
        found.append(data_checksum(source, settings))
    assert len(set(found)) == 3


def test_the_data_checksum_depends_on_a_folder_of_a_pretrained_text_encoder(source, tmp_path):
    settings = settings_of(OBJECTIVES["cl"])
    settings["text_encoder"] = {"name": "pretrained", "model": str(tmp_path / "bert")}
    found = [data_checksum(source, settings)]
    (tmp_path / "bert").mkdir()
    for content in (b"one", b"another"):
        (tmp_path / "bert/model.safetensors").write_bytes(content)
        found.append(data_checksum(source, settings))
    assert len(set(found)) == 3


def test_masked_positions_are_words_and_at_least_one_per_sentence():
    lengths = torch.tensor([9, 5, 3, 2])
    draws = torch.rand(4, 9, generator=torch.Generator().manual_seed(0))
    for share in (0.0, 0.5, 1.0):
        masked = masked_positions(draws, lengths, share)
        for row, length in enumerate(lengths.tolist()):
            words = set(range(1, length - 1))
            chosen = set(masked[row].nonzero().flatten().tolist())
            wanted = {place for place in words if draws[row, place] < share}
            if words and not wanted:
                wanted = {min(words, key=lambda place: float(draws[row, place]))}
            assert chosen == wanted
