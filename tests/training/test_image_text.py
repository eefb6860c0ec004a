"""Image–text training: objectives equal plain loops, interrupted runs resume bit for bit, and
training learns.
"""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.stats
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional

from tests.text.models import saved
from tests.textures import CONVIRT, FINDINGS, LSE_NL, settings_of, texture_source
from tests.training.interrupted import KilledError, assert_same_weights, without_times
from trueneg.config.runs import Run
from trueneg.data.pairs.inputs import data_checksum
from trueneg.data.pairs.pair_source import write_pairs
from trueneg.data.pairs.pair_splits import split_pairs, write_pair_subsets
from trueneg.data.pairs.training_split import PairBatch, PairData
from trueneg.errors import UserError
from trueneg.evaluation.roc import area_under_roc
from trueneg.specs import stages
from trueneg.store import versions
from trueneg.store.identity import model_of
from trueneg.store.run_store import RunStore, read_manifest
from trueneg.training import engine
from trueneg.training.guides.base import UNRATED, Guide, GuideBatch, rate_pairs
from trueneg.training.guides.labels import SharedLabelGuide
from trueneg.training.guides.own import OwnGuide
from trueneg.training.guides.sentences import SentenceGuide
from trueneg.training.image_text import ImageText
from trueneg.training.masked_words import masked_positions
from trueneg.training.networks import read_networks
from trueneg.training.pair_criterion import PairCriterion
from trueneg.training.radiograph_augmentation import RadiographAugmentation
from trueneg.training.text_similarity import TextSimilarity

CPU = torch.device("cpu")
OBJECTIVES = {
    "cl": {"name": "cl", "directions": "text"},
    "cl image": {"name": "cl", "directions": "image"},
    "cl both": {"name": "cl", "directions": "both"},
    "dcl": {"name": "dcl", "directions": "text", "class_probability": 0.05},
    "dcl lm": {"name": "dcl", "directions": "text", "class_probability": "language model"},
    "dcl permuted": {"name": "dcl", "directions": "both", "class_probability": "permuted"},
    "dcl constant": {"name": "dcl", "directions": "text", "class_probability": "constant mean"},
    "dcl true": {
        "name": "dcl",
        "directions": "text",
        "class_probability": "true",
        "bound_gradient": True,
    },
    "hcl": {"name": "hcl", "directions": "text", "class_probability": 0.02, "beta": 0.5},
    "bcl": {
        "name": "bcl",
        "directions": "text",
        "class_probability": 0.05,
        "alpha": 0.7,
        "beta": 0.5,
    },
    "reco": {"name": "reco", "negative_weight": 0.6},
    "oc": {"name": "oc", "negative_weight": 0.6},
    "oracle": {"name": "oracle", "directions": "both"},
    "remove text": {"name": "remove", "directions": "text", "by": "text", "threshold": 0.9},
    "remove labels": {"name": "remove", "directions": "text", "by": "labels", "threshold": 0.5},
    "resample": {"name": "resample", "directions": "text", "by": "text", "size": 8},
    "reweight": {"name": "reweight", "directions": "both", "by": "text"},
    "clip": {"name": "clip"},
    "biovil": {"name": "biovil", "masked_words_weight": 0.5, "mask_share": 0.15},
    "left out": {"name": "same_sentence", "directions": "text", "mode": "left out"},
    "positives": {"name": "same_sentence", "directions": "both", "mode": "positives"},
    "guided": {
        "name": "guided",
        "directions": "both",
        "margin": 0.0,
        "guide": {"name": "ema", "momentum": 0.9},
    },
    "quantile": {"name": "quantile", "directions": "text", "share": 0.1, "decoupled": True},
    "eliminated": {
        "name": "remove",
        "by": "guide",
        "threshold": 0.2,
        "top_k": 3,
        "guide": {"name": "self"},
    },
    "attracted": {
        "name": "cl",
        "targets": {"name": "fnc", "threshold": 0.2, "top_k": 3},
        "guide": {"name": "self"},
    },
    "switched": {"name": "cl", "directions": "text", "switched_off_by": "language model"},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return texture_source(patients=48, language_model=saved(tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def subset(source):
    return split_pairs(source, 0)


@pytest.fixture
def started(source, subset):
    def start(objective="cl", seed=0, source=source, subset=subset, **sections):
        given = OBJECTIVES[objective] if isinstance(objective, str) else objective
        return ImageText(settings_of(given, **sections), seed, source, subset, CPU)

    return start


@pytest.fixture
def parts(source, subset):
    """The training data and the pairs of one batch."""
    data = PairData(source, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    return data, drawn.part(slice(24), CPU)


class OfTexts(SentenceGuide):
    """The guide with made-up embeddings."""

    def __init__(self, data, sample):
        Guide.__init__(self, {}, None)
        self.similarity = TextSimilarity(features_of(data), data.text_of, sample)


def loss_of(objective, source, parts, similarity, scale=14.0):
    data, pairs = parts
    guide = None
    if objective.get("by") == "text":
        guide = OfTexts(data, pairs.anchors)
    elif objective.get("by") == "labels":
        guide = SharedLabelGuide(objective, SimpleNamespace(data=data))
    elif "guide" in objective:
        guide = OwnGuide({}, None)
    rated = (
        UNRATED
        if guide is None
        else guide.rate(GuideBatch(*data.compared(pairs), lambda: rate_pairs(similarity)))
    )
    model = model_of(settings_of(objective), "objective")
    made = PairCriterion(model, objective, data, "global", guide)
    return made.of_similarities(similarity, torch.tensor(scale, dtype=torch.float64), pairs, rated)


def features_of(data):
    """Random embeddings of the distinct sentences."""
    return torch.randn(len(data.texts), 5, generator=torch.Generator().manual_seed(1))


def random_similarity(count=24, seed=0):
    return (
        torch.rand(count, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        * 1.6
        - 0.8
    )


def slow_loss(similarity, scale, left_out, positives=None):
    """The mean over rows of −log e^p / (e^p + Σ kept e^u), averaged over each row's positives."""
    logits, total = (similarity * scale).tolist(), 0.0
    for row, values in enumerate(logits):
        mass = sum(
            math.exp(u)
            for column, u in enumerate(values)
            if column != row and not left_out[row][column]
        )
        own = (
            [row]
            if positives is None
            else [
                column for column in range(len(values)) if column == row or positives[row][column]
            ]
        )
        total += sum(
            -math.log(math.exp(values[p]) / (math.exp(values[p]) + mass)) for p in own
        ) / len(own)
    return total / len(logits)


def facts(source, parts):
    """Return, for each pair of the batch, its sentence, the sentence's class, the sentences of its
    report, and its image.
    """
    data, pairs = parts
    rows = data._table.iloc[pairs.anchors.numpy()]
    subset = split_pairs(source, 0)
    images = subset.train[pairs.columns.numpy()]
    said = source.sentences.groupby("report")["sentence"].agg(set)
    return (
        rows["sentence"].tolist(),
        rows["class"].tolist(),
        [said[source.reports[image]] for image in images],
        images,
    )


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


def test_class_probabilities_are_those_of_the_sentence(source, parts):
    data, pairs = parts
    columns = {
        "language model": "eta",
        "permuted": "eta permuted",
        "constant mean": "eta constant",
        "true": "eta true",
    }
    for name, column in columns.items():
        objective = {"name": "dcl", "directions": "text", "class_probability": name}
        similarity, scale = random_similarity(), 3.0
        eta = source.sentences.set_index(["report", "index"])[column]
        total = 0.0
        for row, number in enumerate(pairs.anchors.tolist()):
            sentence = data._table.iloc[number]
            value = np.float32(eta[sentence["report"], sentence["index"]])
            logits = [scale * float(score) for score in similarity[row]]
            negatives = [math.exp(u) for column, u in enumerate(logits) if column != row]
            positive = math.exp(logits[row])
            mass = max(
                (sum(negatives) - 23 * value * positive) / (1 - value), 23 * math.exp(-scale)
            )
            total += math.log(1 + mass / positive) / 24
        assert loss_of(objective, source, parts, similarity, scale).loss.item() == pytest.approx(
            total, rel=1e-5
        )


@pytest.mark.parametrize(
    "estimator", [{"name": "dcl"}, {"name": "hcl", "beta": 0.5}, {"name": "bcl", "alpha": 0.7}]
)
def test_an_objective_can_have_its_own_a_and_k(source, subset, parts, estimator):
    source = dataclasses.replace(
        source, sentences=source.sentences.assign(**{"eta by length": 0.1})
    )
    table, similarity, data = source.sentences, random_similarity(), PairData(source, subset, CPU)
    permuted = np.log(table["eta permuted"] / 0.25) / 0.35
    eta = 0.4 * np.exp(0.1 * np.log(table["eta"] / 0.25) / 0.35)
    lengths = table["sentence"].str.split().str.len()
    expected = {
        "language model": eta,
        "permuted": 0.4 * np.exp(0.1 * permuted),
        "constant mean": pd.Series(eta.mean(), table.index),
    }
    expected["length"] = eta.groupby(lengths).transform("mean")
    for name, values in expected.items():
        by_hand = dataclasses.replace(source, sentences=table.assign(eta=values))
        of_source = {"directions": "both", "class_probability": "language model"} | estimator
        wanted = loss_of(
            of_source, by_hand, (PairData(by_hand, subset, CPU), parts[1]), similarity, 3.0
        ).loss.item()
        objective = of_source | {"class_probability": name, "a": 0.4, "k": 0.1}
        loss = loss_of(objective, source, (data, parts[1]), similarity, 3.0).loss.item()
        assert loss == pytest.approx(wanted, rel=1e-5)


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
        [by_text[row["report"], row["index"]] for _, row in data._table.iterrows()], np.float32
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


@pytest.mark.parametrize("direction", ["text", "image"])
def test_the_oracle_removes_images_for_which_the_sentence_is_true(source, parts, direction):
    _, classes, _, images = facts(source, parts)
    similarity = random_similarity()
    true = [
        [number >= 0 and bool(source.shown[image, number]) for image in images]
        for number in classes
    ]
    if direction == "image":
        true = np.array(true).T.tolist()
    expected = slow_loss(similarity if direction == "text" else similarity.T, 14.0, true)
    found = loss_of({"name": "oracle", "directions": direction}, source, parts, similarity)
    assert found.loss.item() == pytest.approx(expected, rel=1e-9)
    assert np.array(true).sum() > 24  # more than the pairs themselves


@pytest.mark.parametrize("direction", ["text", "image"])
@pytest.mark.parametrize("mode", ["left out", "positives"])
def test_images_whose_report_contains_the_sentence_are_removed_or_become_positives(
    source, parts, direction, mode
):
    texts, _, said, _ = facts(source, parts)
    similarity = random_similarity()
    same = [[text in own for own in said] for text in texts]
    if direction == "image":
        same = np.array(same).T.tolist()
    matrix = similarity if direction == "text" else similarity.T
    expected = slow_loss(matrix, 14.0, same, same if mode == "positives" else None)
    found = loss_of(
        {"name": "same_sentence", "directions": direction, "mode": mode}, source, parts, similarity
    )
    assert found.loss.item() == pytest.approx(expected, rel=1e-6)
    assert np.array(same).sum() > 24


@pytest.fixture
def studies(source, subset):
    """A batch of eight pairs in which two studies have two images each, and whether two pairs
    belong to the same study.
    """
    data = PairData(source, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    reports = source.reports[subset.train][drawn.columns[:, 0].numpy()]
    names, counts = np.unique(reports, return_counts=True)
    chosen = [
        *np.flatnonzero(np.isin(reports, names[counts == 2][:2])),
        *np.flatnonzero(np.isin(reports, names[counts == 1][:4])),
    ]
    pairs = PairBatch(*(each.flatten()[chosen] for each in drawn))
    same = [[a == b for b in reports[chosen]] for a in reports[chosen]]
    assert np.array(same).sum() == 8 + 4
    return (data, pairs), same


def test_two_images_of_a_study_are_negatives_of_each_other_unless_the_own_report_is_left_out(
    source, studies
):
    parts, same = studies
    similarity = random_similarity(8)
    for direction, matrix in (("text", similarity), ("image", similarity.T)):
        objective = {"name": "cl", "directions": direction}
        kept = loss_of(objective, source, parts, similarity)
        left = loss_of(objective | {"own_report": "left out"}, source, parts, similarity)
        assert kept.loss.item() == pytest.approx(
            slow_loss(matrix, 14.0, np.zeros((8, 8))), rel=1e-9
        )
        assert left.loss.item() == pytest.approx(slow_loss(matrix, 14.0, same), rel=1e-9)
        assert left.loss < kept.loss
    debiased = {
        "name": "dcl",
        "directions": "text",
        "class_probability": 0.1,
        "own_report": "left out",
    }
    total = 0.0
    for row, values in enumerate((3 * similarity).tolist()):
        # N is 6 or 7
        negatives = [math.exp(u) for column, u in enumerate(values) if not same[row][column]]
        mass = max(
            (sum(negatives) - len(negatives) * 0.1 * math.exp(values[row])) / 0.9,
            len(negatives) * math.exp(-3),
        )
        total += math.log(1 + mass / math.exp(values[row])) / 8
    assert loss_of(debiased, source, parts, similarity, 3.0).loss.item() == pytest.approx(
        total, rel=1e-9
    )


@pytest.mark.parametrize("name", ["reco", "oc"])
def test_losses_without_estimator_can_leave_out_the_own_report(source, studies, name):
    (data, pairs), same = studies
    texts, images = torch.randn(
        2, 8, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    cosines = [
        [float(functional.cosine_similarity(text, image, dim=0)) for image in images]
        for text in texts
    ]
    for leaves_out in (False, True):
        objective = {"name": name, "negative_weight": 0.6} | (
            {"own_report": "left out"} if leaves_out else {}
        )
        made = PairCriterion(
            model_of(settings_of(objective), "objective"), objective, data, "global"
        )
        expected = sum((1 - cosines[i][i]) ** 2 for i in range(8))
        for i in range(8):
            for j in range(8):
                if i != j and not (leaves_out and same[i][j]):
                    expected += (
                        0.6 * (max(0, cosines[i][j]) if name == "reco" else cosines[i][j]) ** 2
                    )
        assert made.of_embeddings(texts, images, pairs).loss.item() == pytest.approx(
            expected, rel=1e-9
        )


EVERY_PAIR = [
    name
    for name, objective in OBJECTIVES.items()
    if objective["name"] not in ("reco", "oc", "same_sentence")
]


@pytest.mark.parametrize("name", EVERY_PAIR)
def test_every_objective_can_leave_out_the_own_report(source, studies, name):
    parts, same = studies
    same = torch.tensor(same) & ~torch.eye(8, dtype=torch.bool)
    objective = {
        key: value
        for key, value in OBJECTIVES[name].items()
        if key not in ("masked_words_weight", "mask_share")
    }
    objective |= {"size": 4} if name == "resample" else {}
    torch.manual_seed(0)
    similarity = random_similarity(8).requires_grad_()
    terms = loss_of(objective | {"own_report": "left out"}, source, parts, similarity, 2.0)
    (gradient,) = torch.autograd.grad(terms.loss, similarity)
    assert gradient.isfinite().all()
    assert gradient[~same].abs().sum() > 0
    if "targets" not in objective:  # which may attract the own report
        assert gradient[same].abs().max() == 0


def test_training_counts_the_negatives_of_the_own_report_and_leaves_them_out(
    source, subset, started
):
    training = started("cl", training={"epochs": 1, "batch_size": 24})
    row = training.train_epoch()
    drawn = training.data.epoch(
        "image", started("cl", training={"epochs": 1, "batch_size": 24}).generator("pairs")
    )
    reports = source.reports[subset.train][drawn.columns[:, 0].numpy()]
    batches = [reports[start : start + 24] for start in range(0, len(reports) - 23, 24)]
    same = sum(
        a == b
        for batch in batches
        for i, a in enumerate(batch)
        for j, b in enumerate(batch)
        if i != j
    )
    assert same > 0
    assert row["share of own report"] == pytest.approx(same / (len(batches) * 24 * 23))
    assert (
        started("cl", training={"epochs": 1, "unit": "study"}).train_epoch()["share of own report"]
        == 0
    )
    objective = {"name": "cl", "directions": "text", "own_report": "left out"}
    left = started(objective, training={"epochs": 1, "batch_size": 24}).train_epoch()
    assert left["share of own report"] == row["share of own report"]
    assert left["loss"] != row["loss"]


@pytest.mark.parametrize("by", ["labels", "text"])
def test_removal_by_labels_or_by_sentence_similarity_equals_a_loop(source, parts, by):
    texts, _, _, images = facts(source, parts)
    data, similarity = parts[0], random_similarity()
    if by == "labels":
        alike = [
            [bool(((source.labels[i] == 1) & (source.labels[j] == 1)).any()) for j in images]
            for i in images
        ]
    else:
        mean = np.mean(
            [features_of(data)[data.texts.index(text)].numpy() for text in data.sentences], axis=0
        )
        rows = [features_of(data)[data.texts.index(text)].numpy() - mean for text in texts]
        cosines = np.array(
            [
                [one @ other / np.sqrt((one @ one) * (other @ other)) for other in rows]
                for one in rows
            ]
        )
        pairs = sorted(cosines[row, column] for row in range(24) for column in range(row))
        alike = cosines > pairs[round(0.7 * len(pairs)) - 1] + 1e-5  # the top 30 %, including ties
    found = loss_of(
        {"name": "remove", "directions": "text", "by": by, "threshold": 0.7},
        source,
        parts,
        similarity,
    )
    assert found.loss.item() == pytest.approx(slow_loss(similarity, 14.0, alike), rel=1e-6)
    removed = np.array(
        [[alike[row][column] for column in range(24) if column != row] for row in range(24)]
    )
    assert 0 < removed.mean() < 1
    np.testing.assert_allclose(found.removed, removed.mean(1), rtol=1e-6)


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


def test_anchors_switched_off_by_the_dcl_bound_get_no_gradient_and_others_are_unchanged(
    source, parts
):
    similarity = random_similarity().requires_grad_()
    found = loss_of(OBJECTIVES["switched"] | {"switched_off_by": 0.1}, source, parts, similarity)
    bounded = loss_of(
        {"name": "dcl", "directions": "text", "class_probability": 0.1}, source, parts, similarity
    )
    assert torch.equal(found.at_bound, bounded.at_bound)
    assert 0 < found.at_bound.mean() < 1
    (gradient,) = torch.autograd.grad(found.loss, similarity)
    (plain,) = torch.autograd.grad(
        loss_of(OBJECTIVES["cl"], source, parts, similarity).loss, similarity
    )
    off = found.at_bound.bool()
    assert gradient[off].abs().max() == 0
    torch.testing.assert_close(gradient[~off], plain[~off])
    none = loss_of(OBJECTIVES["switched"] | {"switched_off_by": 0.0}, source, parts, similarity)
    assert none.loss.item() == loss_of(OBJECTIVES["cl"], source, parts, similarity).loss.item()


DETERMINISTIC = [name for name in OBJECTIVES if name not in ("reco", "oc", "resample")]


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_the_loss_does_not_depend_on_the_order_of_a_batch(source, parts, name):
    data, pairs = parts
    objective = {
        key: value
        for key, value in OBJECTIVES[name].items()
        if key not in ("masked_words_weight", "mask_share")
    }
    similarity, order = (
        random_similarity(),
        torch.randperm(24, generator=torch.Generator().manual_seed(2)),
    )
    straight = loss_of(objective, source, parts, similarity, 2.0)
    turned = loss_of(
        objective,
        source,
        (data, PairBatch(*(one[order] for one in pairs))),
        similarity[order][:, order],
        2.0,
    )
    assert turned.loss.item() == pytest.approx(straight.loss.item(), rel=1e-9)
    torch.testing.assert_close(turned.at_bound, straight.at_bound[order])


def test_both_directions_give_their_mean_which_is_clips_loss(source, parts):
    similarity = random_similarity()
    one, other, both, clip = (
        loss_of(OBJECTIVES[name], source, parts, similarity).loss.item()
        for name in ("cl", "cl image", "cl both", "clip")
    )
    assert both == pytest.approx((one + other) / 2, rel=1e-12)
    assert clip == both
    target = torch.arange(24)
    reference = functional.cross_entropy(14 * similarity, target) + functional.cross_entropy(
        14 * similarity.T, target
    )
    assert clip == pytest.approx(reference.item() / 2, rel=1e-9)


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
    tokens = training.networks.anchors.texts.batch(torch.arange(4))
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
    for name in ("_embed", "_mean_terms"):
        setattr(training, name, recording_seeds(getattr(training, name), seeds))
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


def test_an_epoch_of_images_pairs_each_image_with_a_uniformly_drawn_sentence_of_its_report(
    source, subset
):
    data, counts = PairData(source, subset, CPU), {}
    table = data._table.reset_index(drop=True)
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
        assert (data._table["report"].to_numpy()[pairs.anchors.numpy()] == ours).all()
        chosen |= set(pairs.columns.tolist())
    assert chosen == set(range(len(reports)))


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


@pytest.mark.parametrize("channels", [1, 3])
def test_augmentation_equals_torchvision_on_each_image(channels):
    from torchvision.transforms.v2 import functional as reference

    images = torch.randint(
        256, (6, channels, 20, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    augmentation = RadiographAugmentation(
        [0.4] * channels, [0.2] * channels, crop=0.75, brightness=0.5, contrast=0.5
    )
    parameters = augmentation.draw(6, (20, 16), torch.Generator().manual_seed(1))
    found = augmentation(images, parameters)
    for image, (top, left, brightness, contrast), ours in zip(
        images, parameters.tolist(), found, strict=True
    ):
        pixels = reference.crop(image, int(top), int(left), 15, 12).float() / 255
        pixels = reference.adjust_contrast(
            reference.adjust_brightness(pixels, brightness), contrast
        )
        torch.testing.assert_close(ours, (pixels - 0.4) / 0.2, atol=1e-3, rtol=1e-3)
    centre = reference.center_crop(images, [15, 12]).float() / 255
    torch.testing.assert_close(augmentation.normalise(images), (centre - 0.4) / 0.2)
    whole = RadiographAugmentation([0.4] * channels, [0.2] * channels, crop=0.75, evaluated="whole")
    torch.testing.assert_close(whole.normalise(images), (images.float() / 255 - 0.4) / 0.2)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("left_out", [None, "crop_area", "rotation"])
def test_the_augmentation_of_convirt_equals_torchvision_on_each_image(channels, left_out):
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as reference

    settings = {name: value for name, value in CONVIRT.items() if name != left_out}
    images = torch.randint(
        256, (8, channels, 40, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    augmentation = RadiographAugmentation([0.4] * channels, [0.2] * channels, crop=0.75, **settings)
    parameters = augmentation.draw(8, (40, 32), torch.Generator().manual_seed(1))
    augmented = augmentation(images, parameters)
    assert len(set(parameters[:, 6].tolist())) == 2
    for image, row, ours in zip(images, parameters.tolist(), augmented, strict=True):
        (
            top,
            left,
            brightness,
            contrast,
            height,
            width,
            flip,
            angle,
            _,
            log_scale,
            right,
            down,
            sigma,
        ) = row
        box = [int(top), int(left), int(height), int(width)]
        pixels = reference.resized_crop(image.float() / 255, *box, [30, 24], antialias=True)
        pixels = reference.horizontal_flip(pixels) if flip else pixels
        how = {
            "translate": [24 * right, 30 * down],
            "scale": math.exp(log_scale),
            "shear": [0.0, 0.0],
        }
        pixels = reference.affine(
            pixels, math.degrees(angle), interpolation=InterpolationMode.BILINEAR, **how
        )
        pixels = reference.adjust_contrast(
            reference.adjust_brightness(pixels, brightness), contrast
        )
        pixels = reference.gaussian_blur(pixels, [19, 19], [sigma, sigma])
        torch.testing.assert_close(ours, (pixels - 0.4) / 0.2, atol=2e-3, rtol=1e-3)


def test_the_draws_of_convirt_are_uniform_in_its_ranges():
    augmentation = RadiographAugmentation([0.4], [0.2], crop=0.875, **CONVIRT)
    drawn = augmentation.draw(4000, (256, 256), torch.Generator().manual_seed(0)).double()
    area, ratio = drawn[:, 4] * drawn[:, 5] / 256**2, drawn[:, 5] / drawn[:, 4]
    assert 0.595 < area.min() < 0.605
    assert area.max() <= 1
    assert ratio.min() == pytest.approx(3 / 4, abs=0.02)
    assert ratio.max() == pytest.approx(4 / 3, abs=0.02)
    assert (drawn[:, 0] + drawn[:, 4]).max() <= 256
    assert (drawn[:, 1] + drawn[:, 5]).max() <= 256
    assert drawn[:, 6].mean() == pytest.approx(0.5, abs=0.03)
    assert not drawn[:, 8].any()
    expected = [
        (2, 0.6, 1.4),
        (3, 0.6, 1.4),
        (7, -20, 20),
        (9, 0.95, 1.05),
        (10, -0.1, 0.1),
        (11, -0.1, 0.1),
        (12, 0.1, 3.0),
    ]
    for column, lowest, highest in expected:
        values = {7: drawn[:, 7].rad2deg(), 9: drawn[:, 9].exp()}.get(column, drawn[:, column])
        assert (
            scipy.stats.kstest(
                values.numpy(), scipy.stats.uniform(lowest, highest - lowest).cdf
            ).pvalue
            > 1e-3
        )
    pairs = torch.corrcoef(drawn[:, [2, 3, 6, 7, 9, 10, 11, 12]].T) - torch.eye(8)
    assert pairs.abs().max() < 0.06


def test_further_steps_leave_the_first_draws_of_a_seed_unchanged():
    plain, blurred = (RadiographAugmentation([0.4], [0.2], blur=blur) for blur in (0.0, 2.0))
    few, many = (
        augmentation.draw(9, (32, 32), torch.Generator().manual_seed(5))
        for augmentation in (plain, blurred)
    )
    torch.testing.assert_close(many[:, :4], few, rtol=0, atol=0)


def test_crop_positions_are_uniform_and_independent():
    augmentation = RadiographAugmentation([0.5], [0.2], crop=0.9)
    drawn = augmentation.draw(3000, (20, 20), torch.Generator().manual_seed(0))
    for column in (0, 1):
        places, counts = drawn[:, column].unique(return_counts=True)
        assert places.tolist() == [0, 1, 2]
        assert counts.min() > 900
    assert len(drawn.unique(dim=0)) == 3000
    assert (drawn[:, 2:] - 1).abs().max() <= 0.2


def test_the_engine_trains_pairs_and_reuses_finished_runs(source, subset, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "run_id", lambda run, checksum: f"{run.seed}-{checksum[:8]}")
    settings = settings_of(OBJECTIVES["dcl lm"]) | {"dataset": {"source": "phantom"}}
    write_pairs(source, tmp_path / "pairs.npz")
    write_pair_subsets([subset], tmp_path / "subsets.parquet")
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
