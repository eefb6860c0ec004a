"""Text training, with one or two towers: hidden labels and unseen texts change nothing, interrupted
runs resume bit for bit.
"""

import dataclasses

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sentence_transformers import SentenceTransformer

from tests.golden.chosen import PAIRS as GOLDEN
from tests.models.towers.test_sentence_transformers_tower import folder_of
from tests.objectives import examples, variants
from tests.questions import frozen_of, question_source, settings_of, started, subset_of, vectors_of
from tests.text.models import saved
from tests.training.interrupted import (
    KilledError,
    assert_same_weights,
    train_to_the_end,
    without_times,
)
from trueneg.data.texts.training_split import TextData
from trueneg.errors import UserError
from trueneg.specs.objectives import OF_PAIRS
from trueneg.specs.settings import tag_of
from trueneg.training import text_pairs
from trueneg.training.frozen import NOTHING_FROZEN
from trueneg.training.networks import build_networks, read_networks
from trueneg.training.sides.base import TrainedOn
from trueneg.training.text_pairs import TextPairs

CPU = torch.device("cpu")
EMA, WORDS = {"name": "ema", "momentum": 0.6}, {"name": "words"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    model = saved(tmp_path_factory.mktemp("model"))
    kinds = {"drawn": {}, "given": {"given": True}, "hard negatives": {"given": True, "hard": 1}}
    return {
        name: question_source(**arguments, language_model=model)
        for name, arguments in kinds.items()
    }


def whole(run):
    while run.epoch < run.epochs:
        run.train_epoch()
    return run


def same_weights(first, second):
    return all(
        torch.equal(value, second.weights()[name]) for name, value in first.weights().items()
    )


def cases():
    """Every objective, with what may see labels: its class probabilities, guides, controls and
    comparisons.
    """
    irrelevant = (
        "learned_logit_scale",
        "directions",
        "bound_gradient",
        "decoupled",
        "form",
        "own_report",
        "scope",  # without hard negatives, "hard" is nothing
    )
    varied = {
        title: settings
        for title, settings in variants(OF_PAIRS)
        if not any(key in title for key in irrelevant)
    }
    for name, settings in {**dict(examples(OF_PAIRS)), **varied, **GOLDEN}.items():
        if settings["name"] != "biovil":
            numbers = (
                {"threshold": 0.2}
                if settings.get("by") == "guide" and "threshold" in settings
                else {}
            )
            yield name, settings | numbers


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_only_what_declares_labels_depends_on_them(sources, name, monkeypatch):
    """Once the pairs are drawn, labels are exchanged: in the source of given pairs, and in the
    training data of drawn ones.
    """
    objective = settings_of(CASES[name])["objective"]
    uses_labels = (
        next(model for model in OF_PAIRS if objective["name"] in tag_of(model)[1])
        .model_validate(objective)
        .uses_labels
    )
    settings = settings_of() | {"objective": objective}
    generator = np.random.default_rng(1)

    source = sources["given" if objective["name"] in ("reco", "oc") else "hard negatives"]
    classes = source.sentences["class"].to_numpy().copy()
    classes[classes >= 0] = generator.permutation(classes[classes >= 0])
    other = dataclasses.replace(source, sentences=source.sentences.assign(**{"class": classes}))
    subset = subset_of(source)
    settings["dataset"]["positives"] = "given"
    runs = [
        TextPairs(
            settings,
            0,
            each,
            dataclasses.replace(subset, source_checksum=each.checksum),
            CPU,
            frozen=frozen_of(each),
        )
        for each in (source, other)
    ]
    assert same_weights(*map(whole, runs)) == (not uses_labels)

    class Exchanged(TextData):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.class_of = self.labels = self.class_of[
                torch.from_numpy(generator.permutation(len(self.class_of)))
            ]
            self.groups = self.groups.flip(0)

    settings["dataset"]["positives"] = "same_label"
    hidden = whole(started(sources["drawn"], settings))
    monkeypatch.setattr(text_pairs, "TextData", Exchanged)
    assert same_weights(hidden, whole(started(sources["drawn"], settings))) == (not uses_labels)


STATEFUL = {
    "glofnd": {
        "name": "glofnd",
        "directions": "both",
        "share": 0.1,
        "threshold_rate": 0.3,
        "start": 0.2,
    },
    "global": {"name": "global", "directions": "both", "rate": 0.4},
    "glofnd on global": {
        "name": "glofnd",
        "loss": "global",
        "rate": 0.4,
        "directions": "both",
        "share": 0.1,
        "threshold_rate": 0.3,
        "start": 0.2,
    },
    "ema": {"name": "guided", "directions": "both", "guide": EMA},
    "resample": {"name": "resample", "by": "labels", "size": 8},
}
DROPOUT = {"name": "residual", "dimensions": 8, "hidden": 12, "dropout": 0.3}


@pytest.mark.parametrize("kind", ["drawn", "hard negatives"])
@pytest.mark.parametrize("name", STATEFUL)
def test_a_killed_run_continues_with_the_same_weights_and_rows(sources, tmp_path, name, kind):
    settings = settings_of(STATEFUL[name], projection=DROPOUT, training={"updates": 14})

    def trained(folder, stop_after=None):
        run = started(sources[kind], settings)
        return run, train_to_the_end(run, folder, stop_after)

    expected, expected_rows = trained(tmp_path / "whole")
    assert expected.epochs > 1
    for stop_after in (5, 4):
        with pytest.raises(KilledError):
            trained(tmp_path / "killed", stop_after)
    run, rows = trained(tmp_path / "killed")
    assert_same_weights(expected, run)
    assert without_times(rows) == without_times(expected_rows)
    for key, value in expected.state()[0].items():  # averages and thresholds, too
        assert torch.equal(value, run.state()[0][key]), key


def test_a_text_and_itself_have_different_dropout(sources):
    settings = settings_of({"name": "cl"}, projection=DROPOUT, dataset={"positives": "dropout"})
    run = started(sources["drawn"], settings)
    with torch.no_grad():
        run.model.anchors.text_projection.change[-1].weight.normal_()  # it starts at 0
    pairs, inputs = next(run.batches(1))
    assert torch.equal(pairs.columns, pairs.anchors)
    for is_training in (True, False):
        run.network.train(is_training)
        anchors, columns = run._embed(inputs, run.model)
        assert torch.equal(anchors, columns.pooled) != is_training
    assert np.isfinite(run.train_epoch()["loss"])


@pytest.mark.parametrize("name", ["oracle", "dcl", "guided"])
def test_texts_of_labels_without_training_change_no_weight(name):
    objective = {
        "oracle": {"name": "oracle", "directions": "both"},
        "dcl": {"name": "dcl", "class_probability": "true"},
        "guided": {"name": "guided", "margin": 0.1, "guide": WORDS},
    }[name]
    sets = {
        "train": 4,
        "validation_unseen": 1,
        "test_unseen": 2,
        "seed": 0,
        "per_run": None,
        "fraction": 0.5,
    }
    settings = settings_of(objective, dataset={"labels": sets})
    source = question_source()
    subset = subset_of(source, settings["dataset"])
    unseen = np.unique(source.labels[subset.test_unseen])
    assert len(unseen) == 2
    rows = source.sentences["class"].isin(unseen)
    generator, table = np.random.default_rng(0), source.sentences.copy()
    table.loc[rows, "sentence"] = [f"Something else {number}" for number in range(rows.sum())]
    table.loc[rows, "class"] = generator.permutation(table.loc[rows, "class"])
    run, other = (
        whole(started(each, settings))
        for each in (source, dataclasses.replace(source, sentences=table))
    )
    assert run.data.source.checksum != other.data.source.checksum
    assert_same_weights(run, other)
    seen = table.copy()
    seen.loc[source.anchors[subset.train[:9]], "sentence"] += " please"
    assert not same_weights(
        run, whole(started(dataclasses.replace(source, sentences=seen), settings))
    )


TOWER = settings_of()["text_encoder"]


@pytest.mark.parametrize("kind", ["drawn", "hard negatives"])
def test_two_towers_of_different_sizes_embed_anchors_and_columns(sources, tmp_path, kind):
    source = sources[kind]
    frozen = frozen_of(source, positive_encoder=vectors_of(source, 4, seed=3))
    settings = settings_of(
        {"name": "cl", "directions": "both", "same_text": "keep"}, positive_encoder=TOWER
    )
    run = started(source, settings, frozen)
    pairs, inputs = next(run.batches(1))
    terms, *_ = run.backward(pairs, inputs)
    sides = []
    for numbers, stored, embedder in (
        (pairs.anchors, frozen.texts, run.model.anchors),
        (pairs.columns, frozen.stored["positive_encoder"], run.model.own_positives),
    ):
        vectors = np.stack(
            [
                stored.values[frozen.rows[run.data.sentences[number]], 0, :, 0]
                for number in numbers.tolist()
            ]
        )
        weight, bias = (value.detach().numpy() for value in embedder.text_projection.parameters())
        embedded = vectors @ weight.T + bias
        sides.append(embedded / np.linalg.norm(embedded, axis=1, keepdims=True))
    logits, count = 8.0 * sides[0] @ sides[1].T, len(pairs.anchors)
    rows = [np.log(np.exp(row).sum()) - row[place] for place, row in enumerate(logits)]
    columns = [
        np.log(np.exp(column).sum()) - column[place]
        for place, column in enumerate(logits[:, :count].T)
    ]
    assert terms.loss.item() == pytest.approx(np.mean(rows + columns), rel=1e-5)
    before = {name: value.clone() for name, value in run.weights().items()}
    whole(run)
    assert all(
        not torch.equal(value, before[name])
        for name, value in run.weights().items()
        if name.endswith("weight")
    )
    save_file(run.weights(), tmp_path / "model.safetensors")
    restored = read_networks(tmp_path / "model.safetensors", settings, frozen)
    for side in ("anchors", "own_positives"):
        for one, other in zip(
            getattr(restored.model, side).parameters(),
            getattr(run.model, side).parameters(),
            strict=True,
        ):
            assert torch.equal(one, other)


def test_two_towers_without_one_size_are_refused(sources):
    source = sources["drawn"]
    frozen = frozen_of(source, positive_encoder=vectors_of(source, 4, seed=3))
    with pytest.raises(
        UserError, match=r"6 dimensions, and positive_encoder 4.*projection\.dimensions"
    ):
        build_networks(
            settings_of(
                positive_encoder=TOWER, projection={"name": "residual", "dimensions": None}
            ),
            TrainedOn(),
            frozen,
        )


@pytest.mark.parametrize("is_shared", [True, False], ids=["one tower", "two towers"])
def test_the_last_block_of_a_tower_is_trained(sources, tmp_path, is_shared):
    source, folder = sources["drawn"], folder_of("bert", tmp_path / "bert")
    tower = TOWER | {"model": str(folder), "train": {"last": 1}}
    sections = (
        {}
        if is_shared
        else {
            "positive_encoder": tower | {"model": str(folder_of("distilbert", tmp_path / "other"))}
        }
    )
    settings = settings_of(
        {"name": "cl"}, text_encoder=tower, projection={"name": "none"}, **sections
    )
    run = started(source, settings, NOTHING_FROZEN)
    run.network.eval()  # without dropout
    pairs, inputs = next(run.batches(1))
    found = run._embed(inputs, run.model)
    models = [SentenceTransformer(str(folder), device="cpu")]
    models.append(
        models[0]
        if is_shared
        else SentenceTransformer(sections["positive_encoder"]["model"], device="cpu")
    )
    for numbers, model, embedded in zip(pairs, models, (found[0], found[1].pooled), strict=True):
        expected = model.encode([run.data.sentences[number] for number in numbers.tolist()])
        np.testing.assert_allclose(embedded.detach(), expected, rtol=1e-4, atol=1e-5)
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    whole(run)
    changed = {
        name
        for name, value in run.model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    towers = {name.partition(".")[0] for name in changed} - {"logit_scale"}
    assert towers == ({"anchors"} if is_shared else {"anchors", "own_positives"})
    assert all("layer.2." in name or "logit_scale" in name for name in changed)
    save_file(run.weights(), tmp_path / "model.safetensors")
    restored = read_networks(tmp_path / "model.safetensors", settings).model.state_dict()
    assert all(torch.equal(value, restored[name]) for name, value in run.model.state_dict().items())


def test_fewer_texts_than_the_batch_size_are_refused(sources):
    with pytest.raises(UserError, match=r"batch_size is 5000.*\d+ samples.*more data"):
        started(sources["drawn"], settings_of(training={"batch_size": 5000}))


def test_an_objective_overrides_the_scale_of_the_similarity():
    run = started(
        question_source(),
        settings_of({"name": "cl", "logit_scale": 30.0, "learned_logit_scale": False}),
    )
    run.train_epoch()
    assert run.model.logit_scale().item() == pytest.approx(30)
    learned = started(question_source(), settings_of({"name": "cl", "logit_scale": 30.0}))
    learned.train_epoch()
    assert learned.model.logit_scale().item() != pytest.approx(30)
