"""Image–text runs train, resume bit for bit, are restored from their files, and learn."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.textures import FINDINGS, LSE_NL, settings_of, texture_source
from tests.training.image_text.batches import (
    CPU,
    OBJECTIVES,
)
from tests.training.interrupted import KilledError, assert_same_weights, without_times
from trueneg.config.runs import Run
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.data.run_inputs import data_checksum
from trueneg.data.samples import write_subsets
from trueneg.errors import UserError
from trueneg.evaluation.roc import area_under_roc
from trueneg.specs import stages
from trueneg.store import versions
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training import engine
from trueneg.training.image_text import ImageText
from trueneg.training.networks import read_networks


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_trains_and_reports_its_monitors(started, name):
    training = started(name, training={"epochs": 1})
    before = {key: value.clone() for key, value in training.weights().items()}
    row = training.train_epoch()
    assert all(
        math.isfinite(row[key])
        for key in ("loss", "similarity of pairs", "share at bound", "logit_scale")
    )
    assert row["pairs_per_second"] > 0
    assert {"share at bound common", "share at bound rare", "learning_rate", "seconds"} <= set(row)
    changed = [
        key for key, value in training.weights().items() if not torch.equal(value, before[key])
    ]
    assert any(key.startswith("image_encoder") for key in changed)
    assert any(key.startswith("text_encoder") for key in changed)
    assert (row["masked word loss"] > 0) == (name == "biovil")


@pytest.mark.parametrize("similarity", [LSE_NL, LSE_NL | {"combined": "losses"}])
def test_training_on_regions_with_one_loss_or_one_per_part(started, similarity):
    row = started(
        "dcl lm", similarity=similarity, projection={"name": "mlp"}, training={"epochs": 1}
    ).train_epoch()
    assert math.isfinite(row["loss"])


def test_the_share_of_removed_negatives_is_recorded(started):
    def share(objective):
        return started(objective, training={"epochs": 1}).train_epoch()

    assert share("cl")["share removed"] == share("dcl")["share removed"] == 0
    none, half = (
        share(OBJECTIVES["remove text"] | {"threshold": quantile}) for quantile in (1.0, 0.5)
    )
    assert none["share removed"] == 0
    assert none["loss"] == pytest.approx(share("cl")["loss"], rel=1e-6)
    assert half["share removed"] == pytest.approx(0.5, abs=0.08)
    assert half["similarity threshold"] < none["similarity threshold"]
    assert share(OBJECTIVES["reweight"] | {"exponent": 0})["share removed"] == 0
    assert (
        0.05
        < share("reweight")["share removed"]
        < share(OBJECTIVES["reweight"] | {"exponent": 8})["share removed"]
        < 1
    )
    assert 0 < share("oracle")["share removed"] < 1


RESUMED = {
    "dcl lm": {"training": {"epochs": 2, "warmup_updates": 3}, "similarity": LSE_NL},
    "resample": {"training": {"epochs": None, "updates": 7, "unit": "study"}},
    "biovil": {"training": {"epochs": 2, "optimizer": "adam"}},
}


@pytest.mark.parametrize("name", RESUMED)
def test_an_interrupted_run_has_the_same_weights_and_rows(started, name):
    whole = started(name, **RESUMED[name])
    expected = [whole.train_epoch() for _ in range(whole.epochs)]
    training, rows, done = started(name, **RESUMED[name]), [], 0
    state = training.state()

    def after_update():
        nonlocal done, state
        done += 1
        if done in (2, 4, 5):
            state = copied(training.state())
            raise KilledError

    while training.epoch < training.epochs:
        try:
            rows.append(training.train_epoch(after_update))
        except KilledError:
            training = started(name, **RESUMED[name])
            training.load_state(*state)
    assert done == whole.updates
    assert_same_weights(whole, training)
    assert without_times(rows) == without_times(expected)


def copied(state):
    tensors, values = state
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    return {name: tensor.clone() for name, tensor in tensors.items()}, dict(values)


def test_a_finished_model_is_restored_from_its_file_alone(source, started, tmp_path):
    training = started("biovil", similarity={"aggregation": "global"})
    training.train_epoch()
    tensors, _ = training.state()
    save_file(tensors, tmp_path / "checkpoint.safetensors")
    save_file(training.weights(), tmp_path / "model.safetensors")
    networks = read_networks(tmp_path / "model.safetensors", settings_of(OBJECTIVES["biovil"]))
    training.network.eval()
    images = torch.from_numpy(source.images[:5])
    tokens = training.networks.anchors.texts(torch.arange(4))
    ours, theirs = (
        (
            each.model.embed("text_", **tokens).pooled,
            each.model.embed("image_", each.columns.augmentation.normalise(images)).pooled,
        )
        for each in (training.networks, networks)
    )
    assert all(map(torch.equal, ours, theirs))
    text = training.data.texts[3]
    assert (
        networks.anchors.tokenizer(text)["input_ids"]
        == training.networks.anchors.tokenizer(text)["input_ids"]
    )
    with pytest.raises(UserError, match="model of a run"):
        read_networks(tmp_path / "checkpoint.safetensors", settings_of())


def test_a_pretrained_text_encoder_is_loaded_and_its_frozen_layers_do_not_change(
    source, started, tmp_path
):
    before = started("cl", text_encoder={"layers": 2})
    folder = tmp_path / "bert"
    before.model.text_encoder.bert.save_pretrained(folder)
    before.networks.anchors.tokenizer.save_pretrained(folder)
    text = {
        "name": "pretrained",
        "model": str(folder),
        "revision": None,
        "offline": True,
        "frozen_layers": 1,
    }
    text |= {"pooling": "cls", "maximum_tokens": None, "truncate": False}
    settings = settings_of(OBJECTIVES["cl"]) | {"text_encoder": text}
    training = ImageText(settings, 0, source, split_pairs(source, 0), CPU)
    training.train_epoch()
    found = training.model.text_encoder.bert.state_dict()
    for name, value in before.model.text_encoder.bert.state_dict().items():
        frozen = name.startswith(("embeddings", "encoder.layer.0"))
        # a key's bias has no gradient but rounding
        assert torch.equal(found[name], value) == frozen or "key.bias" in name, name
    save_file(training.weights(), tmp_path / "model.safetensors")
    (folder / "config.json").unlink()
    networks = read_networks(tmp_path / "model.safetensors", settings)
    text = training.data.texts[0]
    assert (
        networks.anchors.tokenizer(text)["input_ids"]
        == before.networks.anchors.tokenizer(text)["input_ids"]
    )
    assert networks.anchors.maximum_tokens == 32


def test_objectives_of_a_seed_share_weights_pairs_and_crops(started):
    one, other, third = started("cl"), started("biovil"), started("cl", seed=1)
    assert all(torch.equal(value, other.weights()[name]) for name, value in one.weights().items())
    seen = [recorded_inputs(training) for training in (one, other, third)]
    for ours, theirs in zip(*seen[:2], strict=True):
        assert torch.equal(ours, theirs)
    assert not all(torch.equal(ours, theirs) for ours, theirs in zip(seen[0], seen[2], strict=True))


def recorded_inputs(training):
    seen = []
    handle = training.model.image_encoder.register_forward_pre_hook(
        lambda _, given: seen.append(given[0].clone())
    )
    training.train_epoch()
    handle.remove()
    return seen


def test_the_global_random_state_is_neither_used_nor_changed(started):
    torch.manual_seed(1)
    first = started("resample")
    torch.manual_seed(2)
    state = torch.get_rng_state()
    second = started("resample")
    assert first.train_epoch()["loss"] == second.train_epoch()["loss"]
    assert torch.equal(torch.get_rng_state(), state)


def test_every_update_has_new_seeds_for_dropout_and_resampling(started):
    training, seeds = started("resample", training={"epochs": 2}), []
    for owner, name in ((training, "_embed"), (training.criterion, "of_similarities")):
        setattr(owner, name, recording_seeds(getattr(owner, name), seeds))
    for _ in range(training.epochs):
        training.train_epoch()
    assert len(seeds) == 2 * training.updates  # of the embeddings and of the objective
    assert len(set(seeds)) == len(seeds)


def recording_seeds(function, seeds):
    def recorded(*arguments):
        found = function(*arguments)
        seeds.append(torch.initial_seed())
        return found

    return recorded


def test_common_classes_cover_half_of_the_sentences_and_monitors_are_means_by_group(
    source, subset, started
):
    data = PairData(source, subset, CPU)
    classes, groups = data.class_of.numpy(), data.groups.numpy()
    counts = np.bincount(classes)
    common, rare = (set(classes[groups == number]) for number in (0, 1))
    assert not common & rare
    assert min(counts[list(common)]) >= max(counts[list(rare)])
    assert np.isin(classes, list(common)).mean() >= 0.5
    assert (
        np.isin(classes, [one for one in common if counts[one] > min(counts[list(common)])]).mean()
        < 0.5
    )
    training, seen = started({"name": "dcl", "directions": "text", "class_probability": 0.3}), []
    add = training.monitors.add

    def recorded(*values):
        seen.append(values)
        add(*values)

    training.monitors.add = recorded
    row = training.train_epoch()
    bound = torch.cat([terms.at_bound for terms, *_ in seen]).numpy()
    sentences = torch.cat([batch for *_, batch in seen]).numpy()
    for number, name in enumerate(("common", "rare")):
        assert row[f"share at bound {name}"] == pytest.approx(
            bound[groups[sentences] == number].mean()
        )
    assert row["share at bound"] == pytest.approx(bound.mean())
    assert row["loss"] == pytest.approx(np.mean([terms.loss.item() for terms, *_ in seen]))


def test_the_learning_rate_warms_up_and_decays_and_a_fixed_scale_is_constant(started):
    training = started(
        {"name": "cl", "directions": "text", "logit_scale": 5.0},
        similarity={"learned_logit_scale": False},
        training={"warmup_updates": 3, "learning_rate": 1e-3},
    )
    rates = []
    for _ in range(training.epochs):
        row = training.train_epoch(lambda: rates.append(training.optimizer.param_groups[0]["lr"]))
    assert rates[:3] == pytest.approx([1e-3 / 3, 2e-3 / 3, 1e-3])
    rest = training.updates - 3
    assert rates[3:] == pytest.approx(
        [5e-4 * (1 + math.cos(math.pi * step / rest)) for step in range(rest)]
    )
    assert row["logit_scale"] == pytest.approx(5.0)


def test_a_learned_scale_that_underflows_is_a_diverged_training(started):
    training = started({"name": "cl", "directions": "text"})
    with torch.no_grad():
        training.model.logit_scale.log_scale.fill_(-1e6)
    with pytest.raises(UserError, match="The loss became nan in epoch 1"):
        training.train_epoch(lambda: None)


@pytest.mark.parametrize(
    ("objective", "sections", "message"),
    [
        (
            "cl",
            {"training": {"batch_size": 500}},
            "batch_size is 500, but an epoch of seed 0 has .* pairs",
        ),
        ("cl", {"training": {"warmup_updates": 500}}, "warmup_updates is 500, but the run has"),
        ("cl", {"text_encoder": {"maximum_tokens": 4}}, "Set text_encoder.truncate to true"),
        (
            "cl",
            {"text_encoder": {"vocabulary": 20}},
            r"text_encoder\.vocabulary is 20; expected at least",
        ),
        ("reco", {"similarity": LSE_NL}, r"objective reco .* similarity\.aggregation is 'lse\+nl'"),
        (
            {"name": "dcl", "directions": "text", "class_probability": "length"},
            {},
            "is 'length', .*source textures",
        ),
    ],
)
def test_incompatible_settings_are_refused(started, objective, sections, message):
    with pytest.raises(UserError, match=message):
        started(objective, **sections)


def test_objectives_that_need_true_class_probabilities_refuse_a_source_without_classes(
    source, subset, started
):
    table = source.sentences.drop(columns="eta true").assign(**{"class": -1})
    empty = {"shown": source.shown[:, :0], "labels": source.labels[:, :0], "label_names": ()}
    bare = dataclasses.replace(source, sentences=table, **empty)
    own = dataclasses.replace(subset, source_checksum=bare.checksum)
    row = started("dcl lm", source=bare, subset=own, training={"epochs": 1}).train_epoch()
    assert math.isfinite(row["share at bound unknown"])
    assert math.isnan(row["share at bound common"])
    for eta in ("true", {"true_share": 0.5}):
        with pytest.raises(UserError, match=r"class_probability is .*true.*source textures"):
            started(OBJECTIVES["dcl true"] | {"class_probability": eta}, source=bare, subset=own)


def test_a_subset_with_leakage_is_refused(source, subset, started):
    with pytest.raises(UserError, match="in both train and test; expected none"):
        started(
            "cl", subset=dataclasses.replace(subset, test=np.append(subset.test, subset.train[:1]))
        )


def test_the_engine_trains_pairs_and_reuses_finished_runs(source, subset, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "run_id", lambda run, checksum: f"{run.seed}-{checksum[:8]}")
    settings = settings_of(OBJECTIVES["dcl lm"]) | {"dataset": {"source": "phantom"}}
    write_pairs(source, tmp_path / "pairs.npz")
    write_subsets([subset], tmp_path / "subsets.parquet")
    job = {
        "runs": [Run("tiny", "textures", "DCL", 0, settings).to_json()],
        "source": tmp_path / "pairs.npz",
        "subsets": tmp_path / "subsets.parquet",
        "store": tmp_path / "runs",
        "manifest": tmp_path / "manifest.json",
    }
    engine.train_runs(**job)
    (listed,) = read_manifest(job["manifest"], RunStore(job["store"]))
    assert listed["id"] == f"0-{data_checksum(source, settings)[:8]}"
    record = RunStore(job["store"]).record(listed["id"])
    training = ImageText(settings, 0, source, subset, CPU)
    rows = [training.train_epoch() for _ in range(training.epochs)]
    assert record["pairs"] == training.updates * 16
    assert record["code"]["versions"] == versions.training_versions(settings)
    curves = pd.read_parquet(RunStore(job["store"]).folder(listed["id"]) / RunStore.CURVES)
    assert curves["loss"].tolist() == [row["loss"] for row in rows]
    made = load_file(listed["model"])
    assert all(torch.equal(value, made[name]) for name, value in training.weights().items())
    engine.train_runs(**job)
    assert RunStore(job["store"]).record(listed["id"]) == record
    monkeypatch.setitem(stages.VERSIONS, "training/image-text", 2)
    engine.train_runs(**job)
    assert RunStore(job["store"]).record(listed["id"]) == record


@pytest.mark.long
def test_training_learns_to_rank_images_by_sentence():
    big = texture_source(patients=200)
    subset = split_pairs(big, 0)
    sections = {"training": {"epochs": 12, "learning_rate": 1e-2}, "similarity": LSE_NL}
    training = ImageText(settings_of(OBJECTIVES["cl both"], **sections), 0, big, subset, CPU)
    before = mean_area(training, big, subset.test)
    for _ in range(training.epochs):
        training.train_epoch()
    assert 0.3 < before < 0.7
    assert mean_area(training, big, subset.test) > 0.65


def mean_area(training, source, images):
    """Return the AUC of ranking unseen images by the sentence of a finding, averaged over
    findings.
    """
    training.network.eval()
    sentences = [f"Seen {finding}." for finding in FINDINGS]
    tokens = training.networks.anchors.tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        pixels = training.networks.columns.augmentation.normalise(
            torch.from_numpy(source.images[images])
        )
        texts = training.model.embed("text_", tokens["input_ids"], tokens["attention_mask"])
        embedded = training.model.embed("image_", pixels)
        scores = training.model.similarity(texts.pooled, embedded).numpy()
    shown = source.shown[images][:, : len(FINDINGS)].T
    return np.nanmean(
        [area_under_roc(own, true.astype(int)) for own, true in zip(scores, shown, strict=True)]
    )
