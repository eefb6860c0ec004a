"""Pairs of a batch with the same text, and hard negatives in further columns: objectives equal
loops over plain numbers.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.textures import settings_of, texture_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.data.pairs.training_split import PairBatch, PairData
from trueneg.losses import LearnedThresholds
from trueneg.store.identity import model_of
from trueneg.training.guides.base import UNRATED, GuideBatch, rate_pairs
from trueneg.training.guides.own import OwnGuide
from trueneg.training.guides.thresholds import ThresholdGuide
from trueneg.training.image_text import ImageText
from trueneg.training.pair_criterion import PairCriterion

CPU = torch.device("cpu")
COUNT, HARD, SCALE = 16, 5, 6.0
SPELLINGS = ("{}", "{} .", " {}", "{}!")


@pytest.fixture(scope="module")
def source():
    """Textures whose sentences are spelled in several ways, which are equal after normalisation."""
    sentences = texture_source(patients=48).sentences.copy()
    texts = [text.rstrip(".") for text in sentences["sentence"]]
    spelled = [
        SPELLINGS[row % 4].format(text.upper() if row % 3 else text)
        for row, text in enumerate(texts)
    ]
    return texture_source(patients=48, sentences=sentences.assign(sentence=spelled))


@pytest.fixture(scope="module")
def subset(source):
    return split_pairs(source, 0)


class WithHardNegatives(PairData):
    """Pairs followed by hard negatives, whose images are further columns."""

    hard: PairBatch

    def _columns(self, pairs):
        return PairBatch(*(torch.cat(each) for each in zip(pairs, self.hard, strict=True)))

    def same_text(self, pairs):
        return super().same_text(self._columns(pairs))[: len(pairs.columns)]

    def of_own_report(self, pairs):
        return super().of_own_report(self._columns(pairs))[: len(pairs.columns)]

    def reports_with(self, pairs):
        return super().reports_with(self._columns(pairs))[: len(pairs.columns)]

    def matches(self, pairs):
        return tuple(each[: len(pairs.columns)] for each in super().matches(self._columns(pairs)))


@pytest.fixture(params=[0, HARD], ids=["no hard negatives", "hard negatives"])
def batch(request, source, subset):
    """Training data, the pairs of a batch, the normalised text, class and images of all columns,
    and similarities.
    """
    data = (WithHardNegatives if request.param else PairData)(source, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    pairs, columns = drawn.part(slice(COUNT), CPU), drawn.part(slice(COUNT + request.param), CPU)
    if request.param:
        data.hard = drawn.part(slice(COUNT, COUNT + HARD), CPU)
    table = data.source.sentences.iloc[data._sentence_rows].iloc[columns.anchors.numpy()]
    images = subset.train[columns.columns.numpy()]
    facts = SimpleNamespace(
        texts=[text.lower().strip(" .!") for text in table["sentence"]],
        spelled=table["sentence"].tolist(),
        classes=table["class"].tolist(),
        images=images.tolist(),
        reports=source.reports[images].tolist(),
        said=[
            set(source.sentences["sentence"][source.sentences["report"] == report])
            for report in source.reports[images]
        ],
    )
    generator = torch.Generator().manual_seed(1)
    similarity = (
        torch.rand(COUNT, COUNT + request.param, generator=generator, dtype=torch.float64) * 1.6
        - 0.8
    )
    return data, pairs, facts, similarity


def marks(facts, wide, relation):
    """Return rows of a text × image table of truth values."""
    return [[bool(relation(facts, i, j)) for j in range(wide)] for i in range(COUNT)]


def share_text(facts, i, j):
    return facts.texts[i] == facts.texts[j]


def is_own_report(facts, i, j):
    return facts.reports[i] == facts.reports[j]


def is_said(facts, i, j):
    return facts.spelled[i] in facts.said[j]


def terms_of(objective, data, pairs, similarity, guide=None):
    rated = (
        UNRATED
        if guide is None
        else guide.rate(GuideBatch(*data.compared(pairs), lambda: rate_pairs(similarity)))
    )
    made = PairCriterion(
        model_of(settings_of(objective), "objective"), objective, data, "global", guide
    )
    scale = torch.tensor(SCALE, dtype=torch.float64)
    index, _ = data.compared(pairs).samples
    return made.of_similarities([similarity], scale, pairs, index, rated)


def debiased(eta):
    def mass(negatives, positive):
        count = len(negatives)
        return max((sum(negatives) - count * eta * positive) / (1 - eta), count * math.exp(-SCALE))

    return lambda negatives, positive: mass(negatives, positive) if negatives else 0.0


def total(negatives, positive):
    return sum(negatives)


def slow(similarity, directions, left_out, positives=None, mass=total):
    """Return the mean over anchors, averaged over directions, of the mean over positives of −log
    e^p / (e^p + mass).
    """
    losses = []
    for direction in ("text", "image") if directions == "both" else (directions,):
        columns = similarity.shape[1] if direction == "text" else COUNT
        for anchor in range(COUNT):

            def at(table, column, anchor=anchor, direction=direction):
                return table[anchor][column] if direction == "text" else table[column][anchor]

            values = [math.exp(SCALE * float(at(similarity, column))) for column in range(columns)]
            kept = [
                value
                for column, value in enumerate(values)
                if column != anchor and not at(left_out, column)
            ]
            of_anchor = mass(kept, values[anchor])
            chosen = [
                column
                for column in range(columns)
                if column == anchor or (positives and at(positives, column))
            ]
            losses.append(
                sum(math.log(1 + of_anchor / values[column]) for column in chosen) / len(chosen)
            )
    return sum(losses) / len(losses)


@pytest.mark.parametrize("directions", ["text", "image", "both"])
@pytest.mark.parametrize("same_text", ["keep", "exclude", "positives"])
@pytest.mark.parametrize(
    ("objective", "mass"),
    [({"name": "cl"}, total), ({"name": "dcl", "class_probability": 0.1}, debiased(0.1))],
    ids=["cl", "dcl"],
)
def test_pairs_with_the_anchors_text_are_kept_left_out_or_positives(
    batch, directions, same_text, objective, mass
):
    data, pairs, facts, similarity = batch
    same = marks(facts, similarity.shape[1], share_text)
    exact = marks(
        facts, similarity.shape[1], lambda facts, i, j: facts.spelled[i] == facts.spelled[j]
    )
    assert np.sum(same) > np.sum(exact) > COUNT
    none = np.zeros_like(same)
    settings = objective | {"directions": directions, "same_text": same_text}
    loss = terms_of(settings, data, pairs, similarity).loss.item()
    left_out, positives = {
        "keep": (none, None),
        "exclude": (same, None),
        "positives": (same, same),
    }[same_text]
    assert loss == pytest.approx(slow(similarity, directions, left_out, positives, mass), rel=1e-9)


@pytest.mark.parametrize("same_text", ["exclude", "positives"])
def test_same_texts_and_the_own_report_are_left_out_together(batch, same_text):
    data, pairs, facts, similarity = batch
    same, of_report = (
        np.array(marks(facts, similarity.shape[1], relation))
        for relation in (share_text, is_own_report)
    )
    assert (of_report & ~same).any()
    settings = {
        "name": "cl",
        "directions": "both",
        "own_report": "left out",
        "same_text": same_text,
    }
    positives = same.tolist() if same_text == "positives" else None
    expected = slow(similarity, "both", (same | of_report).tolist(), positives)
    assert terms_of(settings, data, pairs, similarity).loss.item() == pytest.approx(
        expected, rel=1e-9
    )


def test_a_batch_of_one_text_has_no_negatives_and_no_gradient(source, subset):
    data = PairData(source, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    numbers = data._same_of[drawn.anchors]
    of_text = (numbers == numbers.mode().values).nonzero()[:3, 0]
    pairs = PairBatch(*(each.flatten()[of_text] for each in drawn))
    for objective in ({"name": "cl"}, {"name": "dcl", "class_probability": 0.1}):
        similarity = torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
        loss = terms_of(
            objective | {"directions": "both", "same_text": "exclude"}, data, pairs, similarity
        ).loss
        (gradient,) = torch.autograd.grad(loss, similarity)
        assert loss.item() == gradient.abs().max().item() == 0


@pytest.mark.parametrize("name", ["reco", "oc"])
def test_losses_without_estimator_leave_out_same_texts(source, subset, name):
    data = PairData(source, subset, CPU)
    pairs = data.epoch("image", torch.Generator().manual_seed(0)).part(slice(COUNT), CPU)
    rows = data.source.sentences.iloc[data._sentence_rows].iloc[pairs.anchors.numpy()]
    texts = [text.lower().strip(" .!") for text in rows["sentence"]]
    u, v = torch.nn.functional.normalize(torch.randn(2, COUNT, 5, dtype=torch.float64), dim=-1)
    objective = {"name": name, "negative_weight": 0.6, "same_text": "exclude"}
    expected = 0.0
    for i in range(COUNT):
        for j in range(COUNT):
            cosine = float(u[i] @ v[j])
            if i == j:
                expected += (1 - cosine) ** 2
            elif texts[i] != texts[j]:
                expected += 0.6 * (max(0, cosine) if name == "reco" else cosine) ** 2
    made = PairCriterion(model_of(settings_of(objective), "objective"), objective, data, "global")
    assert made.of_embeddings(u, v, pairs).loss.item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("directions", ["text", "image", "both"])
@pytest.mark.parametrize("mode", ["left out", "positives"])
def test_pairs_whose_report_contains_the_sentence_are_left_out_or_positives(
    batch, directions, mode
):
    data, pairs, facts, similarity = batch
    said = marks(facts, similarity.shape[1], is_said)
    expected = slow(similarity, directions, said, said if mode == "positives" else None)
    settings = {"name": "same_sentence", "directions": directions, "mode": mode}
    assert terms_of(settings, data, pairs, similarity).loss.item() == pytest.approx(
        expected, rel=1e-9
    )


@pytest.mark.parametrize("directions", ["text", "image", "both"])
@pytest.mark.parametrize("same_text", ["keep", "positives"])
def test_what_the_oracle_removes_is_counted_per_pair_and_in_agreement_with_the_truth(
    source, batch, directions, same_text
):
    data, pairs, facts, similarity = batch
    wide = similarity.shape[1]
    true = marks(
        facts,
        wide,
        lambda facts, i, j: (
            facts.classes[i] >= 0 and source.shown[facts.images[j], facts.classes[i]]
        ),
    )
    same = marks(facts, wide, share_text) if same_text == "positives" else np.zeros_like(true)
    terms = terms_of(
        {"name": "oracle", "directions": directions, "same_text": same_text},
        data,
        pairs,
        similarity,
    )
    positives = same if same_text == "positives" else None
    expected = slow(similarity, directions, (np.array(true) | np.array(same)).tolist(), positives)
    assert terms.loss.item() == pytest.approx(expected, rel=1e-9)
    removed, counts = np.zeros(COUNT), np.zeros(COUNT)
    sides = {"text": ["text"], "image": ["image"], "both": ["text", "image"]}[directions]
    for anchor in range(COUNT):
        for side in sides:
            places = [
                (anchor, j) if side == "text" else (j, anchor)
                for j in range(wide if side == "text" else COUNT)
            ]
            negatives = [
                place
                for place in places
                if place != (anchor, anchor) and not same[place[0]][place[1]]
            ]
            false = sum(true[i][j] for i, j in negatives)
            counts[anchor] += false
            removed[anchor] += false / len(negatives) / len(sides)
    np.testing.assert_allclose(terms.removed, removed, rtol=1e-6)
    assert terms.mask.shape == (4, COUNT)
    for row in range(4):  # hits, marked, hits, false
        np.testing.assert_allclose(terms.mask[row], counts)


@pytest.mark.parametrize("directions", ["text", "image", "both"])
def test_anchors_are_switched_off_by_their_own_columns(batch, directions):
    data, pairs, _, similarity = batch
    settings = {
        "name": "cl",
        "directions": directions,
        "switched_off_by": 0.2,
        "same_text": "exclude",
    }
    terms = terms_of(settings, data, pairs, similarity)
    dcl = {
        "name": "dcl",
        "directions": directions,
        "class_probability": 0.2,
        "same_text": "exclude",
    }
    assert torch.equal(terms.at_bound, terms_of(dcl, data, pairs, similarity).at_bound)
    assert 0 < terms.at_bound.mean() < 1


@pytest.mark.parametrize("directions", ["text", "image", "both"])
def test_guided_removal_compares_every_column_with_the_positive(batch, directions):
    data, pairs, _, similarity = batch
    terms = terms_of(
        {"name": "guided", "directions": directions}, data, pairs, similarity, OwnGuide({}, None)
    )
    rows = [
        [float(similarity[i, j]) > float(similarity[i, i]) for j in range(similarity.shape[1])]
        for i in range(COUNT)
    ]
    columns = [
        [float(similarity[i, j]) > float(similarity[j, j]) for j in range(COUNT)]
        for i in range(COUNT)
    ]
    expected = [
        slow(similarity, side, left)
        for side, left in (("text", rows), ("image", columns))
        if directions in (side, "both")
    ]
    assert terms.loss.item() == pytest.approx(sum(expected) / len(expected), rel=1e-9)


@pytest.mark.parametrize("directions", [("text",), ("image",), ("text", "image")])
def test_thresholds_are_learned_from_the_batch_and_used_for_every_column(batch, directions):
    data, pairs, _, similarity = batch
    run = SimpleNamespace(
        data=data,
        directions=directions,
        device=CPU,
        updates_done=1,
        updates=10,
    )
    guide = ThresholdGuide({"share": 0.2, "threshold_rate": 0.3, "start": 0.0}, run)
    references = [LearnedThresholds(len(data.images), 0.2, 0.3) for _ in directions]
    for _ in range(6):
        rated = guide.rate(GuideBatch(*data.compared(pairs), lambda: rate_pairs(similarity)))
        learned = []
        for side, reference in zip(directions, references, strict=True):
            square = torch.tensor(
                [
                    [
                        float(similarity[i, j] if side == "text" else similarity[j, i])
                        for j in range(COUNT)
                    ]
                    for i in range(COUNT)
                ]
            )
            learned.append(reference.update(pairs.columns, square))
    assert torch.equal(rated.negative_similarity, similarity)
    torch.testing.assert_close(rated.positive_similarity, torch.cat(learned))
    assert len(set(rated.positive_similarity.tolist())) > 1
    name = directions[0] if len(directions) == 1 else "both"
    thresholds = rated.positive_similarity.tolist()
    losses = []
    for place, side in enumerate(directions):
        of_side = thresholds[place * COUNT : (place + 1) * COUNT]
        above = [
            [
                float(similarity[i, j]) > of_side[i if side == "text" else j]
                for j in range(similarity.shape[1] if side == "text" else COUNT)
            ]
            for i in range(COUNT)
        ]
        losses.append(slow(similarity, side, above))
    settings = {
        "name": "glofnd",
        "directions": name,
        "share": 0.2,
        "threshold_rate": 0.3,
        "start": 0.0,
    }
    made = PairCriterion(
        model_of(settings_of(settings), "objective"), settings, data, "global", guide
    )
    scale = torch.tensor(SCALE, dtype=torch.float64)
    terms = made.of_similarities([similarity], scale, pairs, pairs.anchors, rated)
    assert terms.loss.item() == pytest.approx(sum(losses) / len(losses), rel=1e-9)


def test_the_share_of_same_texts_is_recorded_before_any_are_left_out(source, subset):
    rows = []
    for same_text in ("keep", "exclude", "positives"):
        settings = settings_of(
            {"name": "cl", "directions": "both", "same_text": same_text}, training={"epochs": 1}
        )
        training = ImageText(settings, 0, source, subset, CPU)
        rows.append(training.train_epoch())
    drawn = training.data.epoch(
        "image", ImageText(settings, 0, source, subset, CPU).generator("pairs")
    )
    texts = [
        training.data.sentences[number].lower().strip(" .!") for number in drawn.anchors.tolist()
    ]
    batches = [texts[start : start + 16] for start in range(0, len(texts) - 15, 16)]
    same = sum(
        a == b
        for batch in batches
        for i, a in enumerate(batch)
        for j, b in enumerate(batch)
        if i != j
    )
    assert same > 0
    for row in rows:
        assert row["share of same text"] == pytest.approx(same / (len(batches) * 16 * 15))
    assert len({row["loss"] for row in rows}) == 3
