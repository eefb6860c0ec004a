"""Guides rate the samples of a batch; runs with a guide resume bit for bit, and their masks are compared with the truth."""

import math
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.metrics import roc_auc_score

from tests.objectives import train_one_update
from tests.textures import settings_of as pair_settings
from tests.textures import texture_source
from tests.training.test_resume import KilledError, trained, without_times
from tests.training.test_simclr import settings_of, started
from trueneg.data.images.loading import load_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.errors import UserError
from trueneg.losses import ContrastiveLoss, Guided, Quantile, Removed, Uncorrected, build
from trueneg.store.identity import identity
from trueneg.store.run_files import run_checksums
from trueneg.training.guides import rate_features, rate_labels, rate_pairs, rate_views, read_features
from trueneg.training.image_text import ImageText
from trueneg.training.monitors import RANKED, ViewMonitors, agreement
from trueneg.training.simclr import SimCLR

EMA = {"name": "ema", "momentum": 0.9}
OWN = {"name": "self"}
FNC = {"name": "fnc", "threshold": 0.3, "top_k": 5}
OBJECTIVES = {
    "guided": {"name": "guided", "margin": 0.0, "strategy": "absolute", "guide": EMA},
    "attraction": {"name": "cl", "targets": FNC, "guide": OWN},
    "elimination": {"name": "remove", "threshold": 0.3, "top_k": 5, "guide": EMA},
    "learned thresholds": {"name": "glofnd", "share": 0.05, "threshold_rate": 0.05, "start": 0.2},
    "components": {"name": "cl", "targets": {"name": "wcl_one_head"}, "guide": OWN},
    "momentum": {"name": "cl", "targets": {"name": "softmax", "temperature": 0.1, "share": 0.4}, "guide": EMA},
    "labels": {"name": "cl", "targets": {"name": "softmax", "temperature": 0.1, "share": 1.0}, "guide": {"name": "labels"}},
    "half uniform": {"name": "cl", "targets": {"name": "half_uniform"}, "decoupled": True},
    "control": {"name": "oracle", "rescaled": False, "precision": 0.5, "recall": 0.5, "shuffled": True},
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


def test_views_are_rated_by_cosine_and_samples_by_their_nearest_views():
    embedded = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))  # 2 samples, 2 views
    every = cosines(embedded)
    rated = rate_views(embedded[:2], embedded[2:], by_sample=False)
    torch.testing.assert_close(rated.negative_similarity, every)
    torch.testing.assert_close(rated.positive_similarity, torch.stack([every[0, 2], every[1, 3], every[2, 0], every[3, 1]]))
    first, second = rate_views(embedded[:2], embedded[2:], by_sample=True).negative_similarity
    assert torch.equal(first, second)
    views = {0: [0, 2], 1: [1, 3]}
    for i in (0, 1):
        for j in (0, 1):
            nearest = max(every[v, w].item() for v in views[i] for w in views[j])
            assert first[i, j].item() == pytest.approx(nearest, abs=1e-6)


def test_features_and_pairs_are_rated_as_they_are():
    features = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    rated = rate_features(features)
    torch.testing.assert_close(rated.negative_similarity, cosines(features))
    assert rated.positive_similarity.tolist() == [1, 1, 1]
    scores = torch.randn(3, 3, requires_grad=True)
    assert not rate_pairs(scores).negative_similarity.requires_grad
    assert torch.equal(rate_pairs(scores).positive_similarity, scores.detach().diagonal())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_killed_run_goes_on_from_any_update_with_the_same_weights_and_rows(source, tmp_path, name):
    settings = with_objective(OBJECTIVES[name], epochs=None, updates=14)
    whole, expected = trained(source, settings, tmp_path / "whole")
    stops = (4, 3, 5) if name == "guided" else (8,)
    for stop_after in stops:
        with pytest.raises(KilledError):
            trained(source, settings, tmp_path / "killed", stop_after)
    resumed, rows = trained(source, settings, tmp_path / "killed")
    for key, value in whole.weights().items():
        assert torch.equal(value, resumed.weights()[key]), key
    assert without_times(rows) == without_times(expected)


def test_nothing_is_learned_or_removed_before_the_thresholds_start(source):
    training = started(source, settings=with_objective(OBJECTIVES["learned thresholds"] | {"start": 0.5, "share": 0.5}, epochs=2))
    row = training.train_epoch()
    assert training.thresholds.values.eq(1).all()
    assert np.isnan(row["mask precision common"])  # nothing was marked
    training.train_epoch()
    assert training.thresholds.updates.sum() == training.updates_per_epoch * training.batch_size


def test_classes_rate_images_as_alike_if_they_are_equal():
    rated = rate_labels(torch.tensor([2, -1, 2, -2]))
    assert rated.negative_similarity.tolist() == [[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]]
    assert rated.positive_similarity.tolist() == [1, 1, 1, 1]


def test_the_average_follows_the_network(source):
    training = started(source, settings=with_objective(OBJECTIVES["guided"]))
    average = {key: value.clone() for key, value in training.average.module.state_dict().items()}
    for key, value in training.network.state_dict().items():
        assert torch.equal(average[key], value)
    for _ in range(2):
        train_one_update(training)
        network = training.network.state_dict()
        if training.update == 1:  # the first update copies the network, as nothing has been averaged
            average = {key: value.clone() for key, value in network.items()}
        else:
            for key, value in network.items():
                if value.is_floating_point():
                    average[key] = 0.9 * average[key] + 0.1 * value
    for key, value in training.average.module.state_dict().items():
        if value.is_floating_point():
            torch.testing.assert_close(value, average[key], rtol=1e-5, atol=1e-7)


def test_a_guide_changes_no_weights_batches_or_views(source):
    plain, guided = started(source), started(source, settings=with_objective(OBJECTIVES["attraction"]))
    for key, value in plain.weights().items():
        assert torch.equal(value, guided.weights()[key])
    (order, views), (same, own) = (next(training.batches(3)) for training in (plain, guided))
    assert torch.equal(order, same)
    assert all(torch.equal(*each) for each in zip(views, own, strict=True))


def test_soft_targets_do_not_change_which_negatives_are_removed(source):
    shares = []
    for targets in (None, {"name": "half_uniform"}, FNC):
        training = started(source, settings=with_objective({**OBJECTIVES["guided"], "guide": OWN, "targets": targets}))
        chosen, drawn = next(training.batches(1))
        terms, _ = training.backward(chosen, drawn)
        shares.append(terms.removed[0])
    assert torch.equal(shares[0], shares[1])
    assert torch.equal(shares[0], shares[2])


class TestFrozenFeatures:
    def saved(self, path, count, **changes):
        draws = torch.Generator().manual_seed(0)
        save_file({"images": torch.randn(count, 6, generator=draws), **changes}, path)
        return {"name": "features", "path": str(path)}

    def test_images_of_a_batch_have_the_features_of_their_rows(self, source, tmp_path):
        guide = self.saved(tmp_path / "features.safetensors", len(source.images))
        training = started(source, settings=with_objective({"name": "guided", "margin": 0.2, "guide": guide}))
        subset_rows = training.features[:5]
        every = read_features(guide["path"], {"images": len(source.images)}, "digits")["images"]
        images = training.images[:5].numpy()
        rows = [int(np.flatnonzero((source.images == image).all((1, 2, 3)))[0]) for image in images]
        assert torch.equal(subset_rows, every[rows])
        train_one_update(training)

    def test_the_file_is_part_of_the_data(self, source, tmp_path):
        guide = self.saved(tmp_path / "features.safetensors", 3)
        settings = with_objective({"name": "guided", "guide": guide})
        before = SimCLR.data_checksum(source, settings)
        assert before != SimCLR.data_checksum(source, settings_of())
        self.saved(tmp_path / "features.safetensors", 4)
        assert SimCLR.data_checksum(source, settings) != before
        assert run_checksums(settings_of()) == {}

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"images": torch.zeros(4, 6)}, r"images has shape \(4, 6\); expected \(3, D\), as digits has"),
            ({"images": torch.full((3, 6), torch.nan)}, "images contains NaN"),
            ({"images": torch.zeros(3)}, r"images has shape \(3,\)"),
        ],
    )
    def test_odd_features_are_reported_with_their_file(self, tmp_path, changes, message):
        self.saved(tmp_path / "features.safetensors", 3, **changes)
        with pytest.raises(UserError, match=f"features.safetensors: {message}"):
            read_features(tmp_path / "features.safetensors", {"images": 3}, "digits")

    def test_a_missing_file_is_reported_before_anything_is_read(self, tmp_path):
        settings = with_objective({"name": "guided", "guide": {"name": "features", "path": str(tmp_path / "none.safetensors")}})
        with pytest.raises(UserError, match=r"guide.path is .*none\.safetensors"):
            SimCLR.data_checksum(load_source("digits"), settings)

    def test_the_place_of_the_file_is_no_part_of_an_id(self):
        settings = [with_objective({"name": "guided", "guide": {"name": "features", "path": path}}) for path in ("a", "b")]
        first, second = map(identity, settings)
        assert first == second
        assert first["objective"]["guide"] == {"name": "features"}

    def test_a_file_without_images_is_reported(self, tmp_path):
        save_file({"other": torch.zeros(3, 2)}, tmp_path / "features.safetensors")
        with pytest.raises(UserError, match="none of the tensors images, sentences"):
            read_features(tmp_path / "features.safetensors", {"images": 3, "sentences": 4}, "pairs")
        save_file({"images": torch.zeros(3, 2), "sentences": torch.zeros(4, 3)}, tmp_path / "features.safetensors")
        with pytest.raises(UserError, match="different dimensions"):
            read_features(tmp_path / "features.safetensors", {"images": 3, "sentences": 4}, "pairs")


class TestAgreement:
    """Precision, recall and AUC of a mask against a loop over anchors and scikit-learn."""

    LABELS = torch.tensor([0, 1, 0, 2, 1, 0, -1])

    def terms(self, loss, **known):
        z1, z2 = torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(1))
        return loss.terms(z1, z2, **known)

    def test_a_weight_is_no_mark(self):
        loss = build({"name": "reweight", "targets": {"name": "fnc", "threshold": 0.5}})
        guide = 2 * torch.rand(14, 14, generator=torch.Generator().manual_seed(2)) - 1
        terms = self.terms(loss, negative_similarity=guide)
        every = torch.ones(14, 14, dtype=torch.bool)
        found = agreement(terms, [every], [every])
        expected = 2 * (terms.targets[0].gt(0).sum(1) - 1)  # both views of each sample found
        assert found.marked.tolist() == expected.repeat(2).tolist()

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
        score = terms.logits[0] if kind == "quantile" else guide
        for group, classes in (("common", (0, 1)), ("rare", (2,))):
            hits = marked = false = 0
            areas = []
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
                if 0 < sum(truth) < len(truth):
                    areas.append(roc_auc_score(truth, [float(score[a, n].detach()) for n in others]))
            expected = {"precision": hits / marked if marked else None, "recall": hits / false if false else None}
            expected["AUC"] = np.mean(areas) if areas else None
            for name, value in expected.items():
                if value is None:
                    assert np.isnan(found[f"mask {name} {group}"])
                else:
                    assert found[f"mask {name} {group}"] == pytest.approx(value, abs=1e-9), (name, group)

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
                logits = sorted((float(u) for u in terms.logits[0][a].detach() if u > -torch.inf), reverse=True)
                return float(terms.logits[0][a, n].detach()) > logits[4]  # ceil(0.3 · 12) = 4 are removed

    def test_the_oracles_mask_is_the_truth(self):
        loss, labels = build({"name": "oracle"}), torch.arange(6) % 2
        z1, z2 = torch.randn(2, 6, 4)
        monitors = ViewMonitors(torch.tensor([False, False]), torch.device("cpu"), marks=True)
        monitors.add(loss.terms(z1, z2, labels=labels), labels)
        row = monitors.read()
        assert row["mask precision common"] == row["mask recall common"] == 1

    def test_only_the_first_anchors_are_ranked(self):
        count = RANKED  # two views: twice as many anchors
        z1, z2 = torch.randn(2, count, 4)
        labels = torch.arange(count) % 3
        terms = ContrastiveLoss(Quantile(0.1)).terms(z1, z2)
        same = (labels[:, None] == labels).repeat(2, 2)
        found = agreement(terms, [same], [torch.ones_like(same)])
        assert found.ranked.sum().item() == RANKED
        assert found.ranked[:RANKED].all()


def test_objectives_without_a_mask_have_no_such_columns(source):
    row = started(source, epochs=1).train_epoch()
    assert not any(key.startswith("mask") for key in row)
    assert isinstance(started(source).loss.estimator, Uncorrected)


class TestPairs:
    """Guides of image–text training."""

    def started(self, texture_pairs, **objective):
        return ImageText(pair_settings({"directions": "both", **objective}), 0, *texture_pairs, torch.device("cpu"))

    @pytest.mark.parametrize(
        "objective",
        [
            {"name": "guided", "guide": {"name": "ema", "momentum": 0.5}},
            {"name": "remove", "by": "guide", "threshold": 0.2, "top_k": 3, "guide": {"name": "self"}},
            {"name": "cl", "targets": {"name": "fnc", "threshold": 0.2, "top_k": 3}, "guide": {"name": "self"}},
            {"name": "oracle", "shuffled": True},
            {"name": "glofnd", "share": 0.1, "threshold_rate": 0.8, "start": 0.0},
        ],
        ids=["ema", "elimination", "attraction", "control", "learned thresholds"],
    )
    def test_a_run_goes_on_from_its_state_and_measures_its_mask(self, texture_pairs, objective):
        whole, killed, resumed = (self.started(texture_pairs, **objective) for _ in range(3))
        row = whole.train_epoch()
        train_one_update(killed)
        resumed.load_state(*killed.state())
        rest = resumed.train_epoch()
        for key, value in whole.weights().items():
            assert torch.equal(value, resumed.weights()[key]), key
        for name in ("precision", "recall", "AUC"):
            assert 0 <= row[f"mask {name}"] <= 1
            assert row[f"mask {name}"] == rest[f"mask {name}"]

    def test_an_average_of_the_present_networks_is_the_networks_without_dropout(self, texture_pairs):
        training = self.started(texture_pairs, name="guided", guide={"name": "ema", "momentum": 0.5})
        pairs, inputs = next(training.batches(1))
        rated = training._rated(pairs, inputs)
        training.network.eval()
        scores = training.model.region_similarity(*training._embed(inputs, training.model))
        torch.testing.assert_close(rated.negative_similarity, scores.detach(), rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(rated.positive_similarity, scores.detach().diagonal(), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize(
        "guide",
        [{"name": "words", "permuted": True}, {"name": "labels"}, {"name": "ema", "momentum": 0.5}, {"name": "features"}],
        ids=lambda guide: guide["name"],
    )
    def test_a_run_with_soft_targets_goes_on_from_its_state(self, texture_pairs, tmp_path, guide):
        if guide["name"] == "features":
            sentences = torch.randn(len(texture_pairs[0].sentences), 6, generator=torch.Generator().manual_seed(0))
            save_file({"sentences": sentences}, tmp_path / "features.safetensors")
            guide = guide | {"path": str(tmp_path / "features.safetensors")}
        targets = {"name": "softmax", "temperature": 0.1, "share": 0.4}
        whole, killed, resumed = (self.started(texture_pairs, name="cl", targets=targets, guide=guide) for _ in range(3))
        whole.train_epoch()
        train_one_update(killed)
        resumed.load_state(*killed.state())
        resumed.train_epoch()
        for key, value in whole.weights().items():
            assert torch.equal(value, resumed.weights()[key]), key

    def test_labels_are_rated_by_the_cosine_of_what_is_positive(self, texture_pairs):
        training = self.started(texture_pairs, name="guided", guide={"name": "labels"})
        pairs, inputs = next(training.batches(1))
        rated = training._rated(pairs, inputs)
        labels = training.data.labels[pairs.images].nan_to_num(0).eq(1).double().numpy()
        norms = np.linalg.norm(labels, axis=1)
        expected = labels @ labels.T / np.maximum(norms[:, None] * norms, 1e-9)
        np.fill_diagonal(expected, 1)
        np.testing.assert_allclose(rated.negative_similarity.numpy(), expected, atol=1e-6)
        assert rated.positive_similarity.tolist() == [1] * len(labels)

    def test_words_are_rated_by_tf_idf(self, texture_pairs):
        training = self.started(texture_pairs, name="guided", guide={"name": "words", "permuted": False})
        pairs, inputs = next(training.batches(1))
        rated = training._rated(pairs, inputs)
        words = [re.findall(r"\w\w+", text.lower()) for text in training.data.texts]
        idf = {w: math.log((1 + len(words)) / (1 + sum(w in text for text in words))) + 1 for text in words for w in text}

        def vector(number):
            text = words[number]
            return {word: text.count(word) * idf[word] for word in text}

        numbers = training.data.text_of[pairs.sentences].tolist()
        for row, i in enumerate(numbers):
            for column, j in enumerate(numbers):
                one, other = vector(i), vector(j)
                product = sum(value * other.get(word, 0) for word, value in one.items())
                norm = math.sqrt(sum(v * v for v in one.values()) * sum(v * v for v in other.values()))
                assert rated.negative_similarity[row, column].item() == pytest.approx(product / norm, abs=1e-5)

    def test_permuted_words_are_those_of_other_sentences(self, texture_pairs):
        own, permuted = (
            self.started(texture_pairs, name="guided", guide={"name": "words", "permuted": permuted})
            for permuted in (False, True)
        )
        every = torch.arange(len(own.data.texts))
        assert not torch.equal(own.words(every), permuted.words(every))
        torch.testing.assert_close(
            own.words(every).sum(), permuted.words(every).sum()
        )  # the same overlaps, between other sentences

    def test_texts_without_words_are_reported(self):
        source = texture_source(patients=40)
        source.sentences["sentence"] = "a 1."
        with pytest.raises(UserError, match=r"guide is words.* 1 .*textures.* two letters"):
            self.started((source, split_pairs(source, 0)), name="guided", guide={"name": "words", "permuted": False})

    def test_labels_of_a_source_without_any_are_reported(self):
        source = texture_source(patients=40, labels=np.zeros((50, 0), np.float32), label_names=())
        with pytest.raises(UserError, match="guide is labels, but source textures has no labels"):
            self.started((source, split_pairs(source, 0)), name="guided", guide={"name": "labels"})

    @pytest.mark.parametrize("directions", ["text", "image", "both"])
    def test_thresholds_are_learned_for_each_image_and_direction(self, texture_pairs, directions):
        objective = {"name": "glofnd", "directions": directions, "share": 0.1, "threshold_rate": 0.05, "start": 0.0}
        training = self.started(texture_pairs, **objective)
        pairs, inputs = next(training.batches(1))
        training.backward(pairs, inputs)
        count = len(training.data.images)
        learned = [number for number, value in enumerate(training.thresholds.values.tolist()) if value != 1]
        offsets = [0, count] if directions == "both" else [0]
        assert learned == sorted(offset + image for offset in offsets for image in pairs.images.tolist())

    @pytest.mark.parametrize("keys", [("images",), ("sentences",), ("images", "sentences")])
    def test_features_are_those_of_the_batchs_images_and_sentences(self, texture_pairs, tmp_path, keys):
        source, subset = texture_pairs
        draws, rows = torch.Generator().manual_seed(0), {"images": len(source.images), "sentences": len(source.sentences)}
        features = {key: torch.randn(rows[key], 6, generator=draws) for key in keys}
        save_file(features, tmp_path / "features.safetensors")
        guide = {"name": "features", "path": str(tmp_path / "features.safetensors")}
        training = self.started(texture_pairs, name="guided", guide=guide)
        pairs, inputs = next(training.batches(1))
        found = training._rated(pairs, inputs)
        images = [int(subset.train[number]) for number in pairs.images.tolist()]
        table = source.sentences.reset_index(drop=True)
        sentences = [
            table.index[(table["report"] == source.reports[image]) & (table["sentence"] == training.data.sentences[number])][0]
            for image, number in zip(images, pairs.sentences.tolist(), strict=True)
        ]
        chosen = {"images": images, "sentences": sentences}
        of = {key: chosen[key] for key in keys}
        texts = features[keys[-1]][of[keys[-1]]]
        expected = torch.nn.functional.cosine_similarity(texts[:, None], features[keys[0]][of[keys[0]]][None], dim=-1)
        torch.testing.assert_close(found.negative_similarity, expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found.positive_similarity, expected.diagonal(), rtol=1e-5, atol=1e-6)
