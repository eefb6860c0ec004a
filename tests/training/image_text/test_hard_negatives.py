"""Hard negatives of sentences are further images, compared with loops over plain numbers."""

import dataclasses

import numpy as np
import pytest
import torch

from tests.textures import LSE_NL, settings_of, with_negatives
from tests.training.image_text.batches import (
    CPU,
    OBJECTIVES,
    OfTexts,
    loss_of,
    slow_loss,
)
from trueneg.data.false_negatives import of_pairs
from trueneg.data.pairs.training_split import PairData
from trueneg.data.run_inputs import data_checksum

MOST = 3
SIZE = 24


@pytest.fixture(scope="module")
def given(source):
    return with_negatives(source, MOST)


@pytest.fixture
def batch(given, subset):
    data = PairData(given, subset, CPU)
    drawn = data.epoch("image", torch.Generator().manual_seed(0))
    return data, drawn.part(slice(SIZE), CPU)


@pytest.fixture
def similarity():
    generator = torch.Generator().manual_seed(5)
    return torch.rand(SIZE, SIZE * (1 + MOST), generator=generator, dtype=torch.float64) - 0.5


def rows_of(batch):
    """The row of the source of each anchor, and the image of each column."""
    data, pairs = batch
    return data._sentence_rows[pairs.anchors.numpy()], data.image_rows[pairs.columns.numpy()]


def is_missing(batch):
    """Whether each column stands for a missing hard negative: the image of its anchor."""
    _, images = rows_of(batch)
    return [place >= SIZE and image == images[place % SIZE] for place, image in enumerate(images)]


def test_an_anchor_has_its_image_and_its_hard_negatives_in_the_training_split(given, batch):
    data, _ = batch
    sentences, images = rows_of(batch)
    for place, row in enumerate(sentences):
        own = images[place::SIZE]
        assert given.reports[own[0]] == given.sentences["report"][row]
        usable = set(given.negatives[row]) & set(data.image_rows)
        assert sorted(own[1:]) == sorted([*usable] + [own[0]] * (MOST - len(usable)))
    assert data.has_unused


def left_out_by(objective, given, batch, loss):
    """Which columns a loop over plain numbers leaves out for each anchor."""
    data, pairs = batch
    table = given.sentences
    sentences, images = rows_of(batch)
    said = table.groupby("report")["sentence"].agg(list)
    reports = given.reports[images]
    missing = is_missing(batch)
    # of a hard negative, the first sentence of its report
    text = [
        table["sentence"][sentences[place]] if place < SIZE else said[report][0]
        for place, report in enumerate(reports)
    ]
    guide = OfTexts(data, pairs.anchors).similarity
    number = {each: place for place, each in reversed([*enumerate(data.sentences)])}
    rated = guide(pairs.anchors, torch.tensor([number[each] for each in text]))

    def is_left_out(row, column):
        sentence = table["sentence"][sentences[row]]
        if missing[column] or (column >= SIZE and images[column] == images[row]):
            return True
        if objective == "own_report":
            return reports[row] == reports[column]
        if objective == "same_text":
            return sentence in said[reports[column]] if column >= SIZE else sentence == text[column]
        if objective == "oracle":
            kind = table["class"][sentences[row]]
            return bool(given.shown[images[column], kind]) if kind >= 0 else False
        if objective == "labels":
            positive = [given.labels[images[place]] == 1 for place in (row, column)]
            return bool((positive[0] & positive[1]).any())
        if objective == "text":
            return bool(rated[row, column] > loss.threshold)
        if objective == "own similarity":
            return bool(loss.similarity[row, column] > loss.similarity[row, row])
        return False

    return [[is_left_out(row, column) for column in range(len(images))] for row in range(SIZE)]


@dataclasses.dataclass
class Settings:
    """What a loop needs of the loss."""

    similarity: torch.Tensor
    threshold: float = 0.0


@pytest.mark.parametrize(
    ("kind", "objective"),
    [
        ("none", {"name": "cl"}),
        ("own_report", {"name": "cl", "own_report": "left out"}),
        ("same_text", {"name": "cl", "same_text": "exclude"}),
        ("oracle", {"name": "oracle"}),
        ("labels", {"name": "remove", "by": "labels", "threshold": 0.5}),
        ("text", {"name": "remove", "by": "text", "threshold": 0.8}),
        ("own similarity", {"name": "guided", "margin": 0.0, "guide": {"name": "self"}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("directions", ["text", "both"])
def test_losses_with_hard_negatives_equal_loops(
    given, batch, similarity, kind, objective, directions
):
    data, pairs = batch
    threshold = OfTexts(data, pairs.anchors).similarity.threshold(0.8)
    left_out = left_out_by(kind, given, batch, Settings(similarity, threshold))
    assert kind == "none" or sum(map(sum, left_out)) > SIZE * sum(is_missing(batch))
    expected = slow_loss(similarity, 6.0, left_out)
    if directions == "both":
        square = similarity[:, :SIZE].mT
        of_images = [[left_out[row][column] for row in range(SIZE)] for column in range(SIZE)]
        if kind == "own similarity":
            of_images = (square > square.diagonal()[:, None]).tolist()
        expected = (expected + slow_loss(square, 6.0, of_images)) / 2
    found = loss_of(objective | {"directions": directions}, given, batch, similarity, 6.0)
    assert found.loss.item() == pytest.approx(expected, rel=1e-6)


def test_a_correction_can_look_at_hard_negatives_alone(given, batch, similarity):
    left_out = left_out_by("oracle", given, batch, Settings(similarity))
    missing = is_missing(batch)
    _, images = rows_of(batch)
    of_own = [
        [
            missing[column]
            or (column >= SIZE and images[column] == images[row])
            or (column >= SIZE and column % SIZE == row and left_out[row][column])
            for column in range(SIZE * (1 + MOST))
        ]
        for row in range(SIZE)
    ]
    objective = {"name": "oracle", "directions": "text", "scope": "hard"}
    found = loss_of(objective, given, batch, similarity, 6.0).loss.item()
    assert found == pytest.approx(slow_loss(similarity, 6.0, of_own), rel=1e-6)


@pytest.mark.parametrize("sections", [{}, {"similarity": LSE_NL}], ids=["pooled", "regions"])
@pytest.mark.parametrize("objective", ["cl both", "guided", "eliminated", "remove labels"])
def test_runs_with_more_negatives_lose_more(given, subset, started, objective, sections):
    drawn = dataclasses.replace(subset, source_checksum=given.checksum)
    run = started(objective, source=given, subset=drawn, **sections)
    fewer = started(objective, **sections)
    assert run.train_epoch()["loss"] > fewer.train_epoch()["loss"] + 0.2


def test_missing_hard_negatives_are_no_negatives_of_any_kind(source, subset, started):
    none = dataclasses.replace(source, negatives=np.full((len(source.sentences), 2), -1))
    drawn = dataclasses.replace(subset, source_checksum=none.checksum)
    shares = []
    for run in (started(), started(source=none, subset=drawn)):
        row = run.train_epoch()
        shares.append((row["share of own report"], row["share of same text"]))
    assert shares[0] == shares[1]


def test_an_image_is_no_negative_of_its_own_text_where_two_are_mutual_negatives(source, subset):
    first = np.array([np.flatnonzero(source.reports == name)[0] for name in source.reports])
    alone = np.flatnonzero(np.bincount(first, minlength=len(first)) == 1)
    pairs = subset.train[np.isin(subset.train, alone)][:4]
    mutual = np.full((len(source.sentences), 1), -1)
    for one, other in (pairs[:2], pairs[1::-1], pairs[2:], pairs[:1:-1]):
        mutual[source.sentences["report"] == source.reports[one]] = other
    given = dataclasses.replace(source, negatives=mutual)
    data = PairData(given, dataclasses.replace(subset, train=pairs), CPU)
    batch = data, data.epoch("image", torch.Generator().manual_seed(0)).part(slice(4), CPU)
    _, images = rows_of(batch)
    similarity = torch.tensor(images[:4, None] == images, dtype=torch.float64)
    loss = loss_of({"name": "cl", "directions": "text"}, given, batch, similarity, 20.0).loss
    assert loss.item() < 1e-6


def test_hard_negatives_are_part_of_what_a_run_is_trained_on(source, given):
    assert given.checksum != source.checksum
    other = dataclasses.replace(given, negatives=given.negatives[:, ::-1])
    settings = settings_of(OBJECTIVES["cl"])
    assert len({data_checksum(each, settings) for each in (source, given, other)}) == 3


def test_the_negatives_of_other_splits_are_counted(given, subset):
    settings = settings_of(OBJECTIVES["cl"]) | {"dataset": {}}
    facts = of_pairs(given, subset, settings)
    assert facts["negatives"] == 16 * (1 + MOST) - 1
    trained = given.sentences["report"].isin(given.reports[subset.train])
    listed = [image for image in given.negatives[trained].flatten() if image >= 0]
    outside = sum(image not in subset.train for image in listed)
    assert 0 < outside < len(listed)
    assert facts["certain"].startswith(f"{outside} of {len(listed)} hard negatives are left out")


@pytest.mark.parametrize(
    ("negatives", "problem"),
    [
        (np.zeros((2, 1), np.int64), "rows, one for each sentence"),
        (np.full((200, 1), 1000), "a number that is no image"),
    ],
)
def test_negatives_that_are_no_images_are_refused(source, negatives, problem):
    if len(negatives) > 2:
        negatives = np.resize(negatives, (len(source.sentences), 1))
    with pytest.raises(ValueError, match=problem):
        dataclasses.replace(source, negatives=negatives)
