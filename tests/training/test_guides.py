"""Guides rate the samples of a batch, runs with a guide resume bit for bit, and masks are compared
with the truth.
"""

import functools
import gc
import math
import re
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.objectives import train_one_update
from tests.textures import settings_of as pair_settings
from tests.textures import texture_source
from tests.training.interrupted import KilledError, assert_same_weights, without_times
from tests.training.test_resume import trained
from tests.training.test_simclr import settings_of, started
from trueneg.data.images.loading import load_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.errors import UserError
from trueneg.losses import ContrastiveLoss, Guided, Quantile, Removed, Uncorrected, build
from trueneg.specs.guides.own import OwnGuideSettings as Settings
from trueneg.specs.objectives.base import Objective
from trueneg.training.guides import build_guide
from trueneg.training.guides.base import Guide, GuideBatch, rate_features, rate_pairs, rate_views
from trueneg.training.guides.ema import EmaGuide
from trueneg.training.guides.labels import rate_labels
from trueneg.training.image_text import ImageText
from trueneg.training.monitors import ViewMonitors, agreement

EMA = {"name": "ema", "momentum": 0.9}
OWN = {"name": "self"}
FNC = {"name": "fnc", "threshold": 0.3, "top_k": 5}
OBJECTIVES = {
    "guided": {"name": "guided", "margin": 0.0, "guide": EMA},
    "attraction": {"name": "cl", "targets": FNC, "guide": OWN},
    "elimination": {"name": "remove", "threshold": 0.3, "top_k": 5, "guide": EMA},
    "learned thresholds": {"name": "glofnd", "share": 0.05, "threshold_rate": 0.05, "start": 0.2},
    "moving averages": {"name": "global", "rate": 0.4},
    "thresholds on averages": {
        "name": "glofnd",
        "loss": "global",
        "rate": 0.4,
        "share": 0.05,
        "threshold_rate": 0.05,
        "start": 0.2,
    },
    "components": {"name": "cl", "targets": {"name": "wcl_one_head"}, "guide": OWN},
    "momentum": {
        "name": "cl",
        "targets": {"name": "softmax", "temperature": 0.1, "share": 0.4},
        "guide": EMA,
    },
    "labels": {
        "name": "cl",
        "targets": {"name": "softmax", "temperature": 0.1, "share": 1.0},
        "guide": {"name": "labels"},
    },
    "half uniform": {"name": "cl", "targets": {"name": "half_uniform"}, "decoupled": True},
    "control": {
        "name": "oracle",
        "rescaled": False,
        "precision": 0.5,
        "recall": 0.5,
        "shuffled": True,
    },
}


@pytest.fixture(scope="module")
def source():
    return load_source("digits")


@pytest.fixture(scope="module")
def texture_pairs():
    source = texture_source(patients=40)
    return source, split_pairs(source, 0)


def with_objective(objective, **training):
    return {**settings_of(**training), "objective": objective}


def cosines(embedded):
    return torch.nn.functional.cosine_similarity(embedded[:, None], embedded[None], dim=-1)


def test_a_moving_average_copies_integer_buffers():
    """Such as the positions of a text's tokens, whose mean would be truncated."""
    network = torch.nn.Linear(1, 1, bias=False)
    network.register_buffer("position", torch.tensor(7))
    guide = EmaGuide({"momentum": 0.7}, SimpleNamespace(network=network))
    for weight, position in ((1.0, 7), (2.0, 7), (3.0, 8)):
        torch.nn.init.constant_(network.weight, weight)
        network.position.fill_(position)
        guide.after_update()
        assert guide.average.module.position.item() == position
    assert guide.average.module.weight.item() == pytest.approx(0.7 * (0.7 * 1 + 0.3 * 2) + 0.3 * 3)


def test_views_are_rated_by_cosine_and_samples_by_their_nearest_views():
    embedded = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))  # 2 samples, 2 views
    every = cosines(embedded)
    rated = rate_views(embedded[:2], embedded[2:], by_sample=False)
    torch.testing.assert_close(rated.negative_similarity, every)
    torch.testing.assert_close(
        rated.positive_similarity, torch.stack([every[0, 2], every[1, 3], every[2, 0], every[3, 1]])
    )
    first, second = rate_views(embedded[:2], embedded[2:], by_sample=True).negative_similarity
    assert torch.equal(first, second)
    views = {0: [0, 2], 1: [1, 3]}
    for i in (0, 1):
        for j in (0, 1):
            nearest = max(every[v, w].item() for v in views[i] for w in views[j])
            assert first[i, j].item() == pytest.approx(nearest, abs=1e-6)


def test_features_are_rated_by_cosine_and_pairs_by_their_scores():
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    rated = rate_features(features)
    torch.testing.assert_close(rated.negative_similarity, cosines(features))
    assert rated.positive_similarity.tolist() == [1, 1, 1]
    scores = torch.randn(3, 3, requires_grad=True)
    assert not rate_pairs(scores).negative_similarity.requires_grad
    assert torch.equal(rate_pairs(scores).positive_similarity, scores.detach().diagonal())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_killed_run_resumes_with_the_same_weights_and_rows(source, tmp_path, name):
    settings = with_objective(OBJECTIVES[name], epochs=None, updates=14)
    whole, expected = trained(source, settings, tmp_path / "whole")
    stops = (4, 3, 5) if name == "guided" else (8,)
    for stop_after in stops:
        with pytest.raises(KilledError):
            trained(source, settings, tmp_path / "killed", stop_after)
    resumed, rows = trained(source, settings, tmp_path / "killed")
    assert_same_weights(whole, resumed)
    assert without_times(rows) == without_times(expected)


def test_no_threshold_is_learned_or_used_before_the_start(source):
    training = started(
        source,
        settings=with_objective(
            OBJECTIVES["learned thresholds"] | {"start": 0.5, "share": 0.5}, epochs=2
        ),
    )
    row = training.train_epoch()
    assert training.guide.thresholds.values.eq(1).all()
    assert np.isnan(row["mask precision common"])  # nothing was marked
    training.train_epoch()
    assert (
        training.guide.thresholds.updates.sum() == training.updates_per_epoch * training.batch_size
    )


def test_classes_are_rated_1_if_equal_and_0_otherwise():
    classes = torch.tensor([2, -1, 2, -2])
    rated = rate_labels(classes, classes)
    assert rated.negative_similarity.tolist() == [
        [1, 0, 1, 0],
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [0, 0, 0, 1],
    ]
    assert rated.positive_similarity.tolist() == [1, 1, 1, 1]


def test_the_moving_average_equals_its_recursion(source):
    training = started(source, settings=with_objective(OBJECTIVES["guided"]))
    average = {
        key: value.clone() for key, value in training.guide.average.module.state_dict().items()
    }
    for key, value in training.network.state_dict().items():
        assert torch.equal(average[key], value)
    for _ in range(2):
        train_one_update(training)
        network = training.network.state_dict()
        # the first update copies the network, as nothing has been averaged
        if training.update == 1:
            average = {key: value.clone() for key, value in network.items()}
        else:
            for key, value in network.items():
                if value.is_floating_point():
                    average[key] = 0.9 * average[key] + 0.1 * value
    for key, value in training.guide.average.module.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, average[key], rtol=1e-5, atol=1e-7)


class Overwriting(Guide):
    def __init__(self, settings, run):
        super().__init__(settings, run)
        self.network = torch.nn.Linear(1, 1)


def test_a_guide_cannot_overwrite_the_network_in_a_checkpoint(source, monkeypatch):
    monkeypatch.setattr(Settings, "IMPLEMENTATION", f"{__name__}:Overwriting")
    with pytest.raises(ValueError, match="Overwriting is called network"):
        build_guide(Objective, {"guide": {"name": "self"}}, started(source))


@pytest.mark.parametrize("name", ["guided", "learned thresholds", "moving averages"])
def test_a_finished_run_with_a_guide_frees_its_network_at_once(source, name):
    training = started(source, settings=with_objective(OBJECTIVES[name], epochs=None, updates=1))
    training.train_epoch()
    network = weakref.ref(training.network)
    gc.disable()
    try:
        del training
        assert network() is None
    finally:
        gc.enable()


def test_a_guide_does_not_change_weights_batches_or_views(source):
    plain, guided = (
        started(source),
        started(source, settings=with_objective(OBJECTIVES["attraction"])),
    )
    assert_same_weights(plain, guided)
    (order, views), (guided_order, guided_views) = (
        next(training.batches(3)) for training in (plain, guided)
    )
    assert torch.equal(order, guided_order)
    assert all(torch.equal(*each) for each in zip(views, guided_views, strict=True))


def test_soft_targets_do_not_change_which_negatives_are_removed(source):
    shares = []
    for targets in (None, {"name": "half_uniform"}, FNC):
        training = started(
            source,
            settings=with_objective({**OBJECTIVES["guided"], "guide": OWN, "targets": targets}),
        )
        chosen, drawn = next(training.batches(1))
        terms, _ = training.backward(chosen, drawn)
        shares.append(terms.removed[0])
    assert torch.equal(shares[0], shares[1])
    assert torch.equal(shares[0], shares[2])


class TestAgreement:
    """Precision and recall of a mask against a loop over anchors."""

    LABELS = torch.tensor([0, 1, 0, 2, 1, 0, -1])

    def terms(self, loss, **known):
        z1, z2 = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(1))
        return loss.terms(z1, z2, **known, unused="ignore")

    def test_weights_are_not_counted_as_marks(self):
        loss = build({"name": "reweight", "targets": {"name": "fnc", "threshold": 0.5}})
        guide = 2 * torch.rand(14, 14, generator=torch.Generator().manual_seed(2)) - 1
        terms = self.terms(loss, negative_similarity=guide)
        every = torch.ones(14, 14, dtype=torch.bool)
        found = agreement(terms, [every], [every])
        expected = 2 * (terms.targets[0].gt(0).sum(1) - 1)  # both views of each sample found
        assert found[1].tolist() == expected.repeat(2).tolist()

    @pytest.mark.parametrize("kind", ["guided", "quantile", "remove", "fnc"])
    def test_means_over_an_epoch_equal_a_loop(self, kind):
        guide = 2 * torch.rand(14, 14, generator=torch.Generator().manual_seed(2)) - 1
        known = {"negative_similarity": guide, "positive_similarity": guide[:, 0]}
        loss = {
            "guided": ContrastiveLoss(Guided(0.2)),
            "quantile": ContrastiveLoss(Quantile(0.3)),
            "remove": ContrastiveLoss(Removed(0.1)),
            "fnc": build({"name": "cl", "targets": {"name": "fnc", "threshold": 0.5}}),
        }[kind]
        terms = self.terms(loss, **({} if kind == "quantile" else known))
        monitors = ViewMonitors(torch.tensor([False, False, True]), torch.device("cpu"), marks=True)
        monitors.add(terms, self.LABELS)
        found = monitors.read()
        labels = self.LABELS.repeat(2)
        for group, classes in (("common", (0, 1)), ("rare", (2,))):
            hits = marked = false = 0
            for a in range(14):
                if int(labels[a]) not in classes:
                    continue
                others = [n for n in range(14) if n % 7 != a % 7 and labels[n] >= 0]
                every = [n for n in range(14) if n % 7 != a % 7]
                truth = [bool(labels[n] == labels[a]) for n in others]
                removed = {n: self.is_marked(kind, terms, guide, a, n) for n in every}
                own = [removed[n] for n in others]
                hits += sum(t and m for t, m in zip(truth, own, strict=True))
                marked, false = marked + sum(own), false + sum(truth)
            expected = {
                "precision": hits / marked if marked else None,
                "recall": hits / false if false else None,
            }
            for name, value in expected.items():
                if value is None:
                    assert np.isnan(found[f"mask {name} {group}"])
                else:
                    assert found[f"mask {name} {group}"] == pytest.approx(value, abs=1e-9), (
                        name,
                        group,
                    )

    def is_marked(self, kind, terms, guide, a, n):
        match kind:
            case "guided":
                return bool(guide[a, n] > guide[a, 0] - 0.2)
            case "remove":
                return bool(guide[a, n] > 0.1)
            case "fnc":
                i, j = a % 7, n % 7
                return max(float(guide[v, w]) for v in (i, i + 7) for w in (j, j + 7)) > 0.5
            case "quantile":
                logits = sorted(
                    (float(u) for u in terms.logits[0][a].detach() if u > -torch.inf), reverse=True
                )
                # ceil(0.3 · 12) = 4 are removed
                return float(terms.logits[0][a, n].detach()) > logits[4]

    def test_the_oracles_mask_is_the_truth(self):
        loss, labels = build({"name": "oracle"}), torch.arange(6) % 2
        z1, z2 = torch.randn(2, 6, 4)
        monitors = ViewMonitors(torch.tensor([False, False]), torch.device("cpu"), marks=True)
        monitors.add(loss.terms(z1, z2, labels=labels), labels)
        row = monitors.read()
        assert row["mask precision common"] == row["mask recall common"] == 1


def test_objectives_without_a_mask_have_no_such_columns(source):
    row = started(source, epochs=1).train_epoch()
    assert not any(key.startswith("mask") for key in row)
    assert isinstance(started(source).loss.estimator, Uncorrected)


def rated_by_guide(training, pairs, inputs):
    """Return the similarities of a batch of pairs according to a guide other than the networks
    being trained.
    """
    return training.rated(
        GuideBatch(
            *training.data.compared(pairs), functools.partial(training._rated_by, inputs, None)
        )
    )


ALBEF = {"name": "softmax", "temperature": 0.1, "share": 0.4}
PAIR_OBJECTIVES = {
    "ema": {"name": "guided", "guide": {"name": "ema", "momentum": 0.5}},
    "elimination": {"name": "remove", "by": "guide", "threshold": 0.2, "top_k": 3, "guide": OWN},
    "attraction": {
        "name": "cl",
        "targets": {"name": "fnc", "threshold": 0.2, "top_k": 3},
        "guide": OWN,
    },
    "control": {"name": "oracle", "shuffled": True},
    "learned thresholds": {"name": "glofnd", "share": 0.1, "threshold_rate": 0.8, "start": 0.0},
    "thresholds on averages": {
        "name": "glofnd",
        "loss": "global",
        "rate": 0.4,
        "share": 0.1,
        "threshold_rate": 0.8,
        "start": 0.0,
    },
    "words": {"name": "cl", "targets": ALBEF, "guide": {"name": "words", "permuted": True}},
    "labels": {"name": "cl", "targets": ALBEF, "guide": {"name": "labels"}},
    "momentum": {"name": "cl", "targets": ALBEF, "guide": {"name": "ema", "momentum": 0.5}},
}


class TestPairs:
    """Guides of image–text training."""

    def started(self, texture_pairs, **objective):
        return ImageText(
            pair_settings({"directions": "both", **objective}),
            0,
            *texture_pairs,
            torch.device("cpu"),
        )

    @pytest.mark.parametrize("name", PAIR_OBJECTIVES)
    def test_a_run_resumes_bit_for_bit_and_measures_its_mask(self, texture_pairs, name):
        objective = PAIR_OBJECTIVES[name]
        whole, killed, resumed = (self.started(texture_pairs, **objective) for _ in range(3))
        row = whole.train_epoch()
        train_one_update(killed)
        resumed.load_state(*killed.state())
        assert without_times([resumed.train_epoch()]) == without_times([row])
        assert_same_weights(whole, resumed)
        if "targets" not in objective or objective["targets"]["name"] == "fnc":
            assert all(0 <= row[f"mask {measure}"] <= 1 for measure in ("precision", "recall"))

    def test_a_new_average_rates_like_the_networks_without_dropout(self, texture_pairs):
        training = self.started(
            texture_pairs, name="guided", guide={"name": "ema", "momentum": 0.5}
        )
        pairs, inputs = next(training.batches(1))
        rated = rated_by_guide(training, pairs, inputs)
        training.network.eval()
        scores = training.model.region_similarity(*training._embed(inputs, training.model))
        torch.testing.assert_close(rated.negative_similarity, scores.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(
            rated.positive_similarity, scores.detach().diagonal(), rtol=1e-5, atol=1e-6
        )

    def test_labels_are_rated_by_the_cosine_of_positive_masks(self, texture_pairs):
        training = self.started(texture_pairs, name="guided", guide={"name": "labels"})
        pairs, inputs = next(training.batches(1))
        rated = rated_by_guide(training, pairs, inputs)
        labels = training.data.labels[pairs.columns].nan_to_num(0).eq(1).double().numpy()
        norms = np.linalg.norm(labels, axis=1)
        expected = labels @ labels.T / np.maximum(norms[:, None] * norms, 1e-9)
        np.fill_diagonal(expected, 1)
        np.testing.assert_allclose(rated.negative_similarity.numpy(), expected, atol=1e-6)
        assert rated.positive_similarity.tolist() == [1] * len(labels)

    def test_words_are_rated_by_tf_idf(self, texture_pairs):
        training = self.started(
            texture_pairs, name="guided", guide={"name": "words", "permuted": False}
        )
        pairs, inputs = next(training.batches(1))
        rated = rated_by_guide(training, pairs, inputs)
        words = [re.findall(r"\w\w+", text.lower()) for text in training.data.texts]
        idf = {
            w: math.log((1 + len(words)) / (1 + sum(w in text for text in words))) + 1
            for text in words
            for w in text
        }

        def vector(number):
            text = words[number]
            return {word: text.count(word) * idf[word] for word in text}

        numbers = training.data.text_of[pairs.anchors].tolist()
        vectors = [vector(number) for number in numbers]
        for row, first in enumerate(vectors):
            for column, second in enumerate(vectors):
                product = sum(value * second.get(word, 0) for word, value in first.items())
                norm = math.sqrt(
                    sum(v * v for v in first.values()) * sum(v * v for v in second.values())
                )
                assert rated.negative_similarity[row, column].item() == pytest.approx(
                    product / norm, abs=1e-5
                )

    def test_permuted_sentences_have_the_words_of_others(self, texture_pairs):
        plain, permuted = (
            self.started(
                texture_pairs, name="guided", guide={"name": "words", "permuted": permuted}
            )
            for permuted in (False, True)
        )
        every = torch.arange(len(plain.data.texts))
        assert not torch.equal(
            plain.guide.overlap(every, every), permuted.guide.overlap(every, every)
        )
        # the same overlaps, between other sentences
        torch.testing.assert_close(
            plain.guide.overlap(every, every).sum(), permuted.guide.overlap(every, every).sum()
        )

    def test_a_source_without_words_is_reported(self):
        source = texture_source(patients=40)
        source.sentences["sentence"] = "a 1."
        pairs = source, split_pairs(source, 0)
        with pytest.raises(UserError, match=r"guide is words.* 1 .*textures.* two letters"):
            self.started(pairs, name="guided", guide={"name": "words", "permuted": False})

    @pytest.mark.parametrize("directions", ["text", "image", "both"])
    def test_thresholds_are_learned_for_each_image_and_direction(self, texture_pairs, directions):
        objective = {
            "name": "glofnd",
            "directions": directions,
            "share": 0.1,
            "threshold_rate": 0.05,
            "start": 0.0,
        }
        training = self.started(texture_pairs, **objective)
        pairs, inputs = next(training.batches(1))
        training.backward(pairs, inputs)
        count = len(training.data.images)
        learned = [
            number
            for number, value in enumerate(training.guide.thresholds.values.tolist())
            if value != 1
        ]
        offsets = [0, count] if directions == "both" else [0]
        assert learned == sorted(
            offset + image for offset in offsets for image in pairs.columns.tolist()
        )
