"""Training with positives and hard negatives of the user's: any number of each per text, compared
with a loop over plain numbers.
"""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

from tests.golden.numerics import double_precision
from tests.questions import frozen_of, settings_of, started, subset_of
from trueneg.data.mining import mine
from trueneg.data.texts.text_files import source_of

SCALE = 6.0
GENERATOR = np.random.default_rng(5)
TOPICS = ("card", "cash")
TEXTS = [f"question {row} about {TOPICS[row % 2]}" for row in range(40)]
POSITIVES = [[f"answer {row} {n}" for n in range(1 + row % 3)] for row in range(40)]
# some are a positive of another text
NEGATIVES = [
    [*(f"wrong {n}" for n in GENERATOR.choice(30, row % 4, replace=False)), POSITIVES[row - 1][-1]][
        : row % 4
    ]
    for row in range(40)
]


def ragged_source(given):
    """Texts with up to three positives, or none, and up to three hard negatives."""
    lists = {"positive": POSITIVES} if given else {}
    table = pd.DataFrame({"split": "", "label": [TOPICS[row % 2] for row in range(40)]})
    table["text"] = TEXTS
    for name, texts in (lists | {"negative": NEGATIVES}).items():
        for place in range(3):
            table[f"{name} {place}"] = [
                each[place] if place < len(each) else None for each in texts
            ]
    return source_of({"source": "made up"}, table, "", positives=3 * given)


def begun(source, **objective):
    settings = settings_of(
        {"name": "cl", "same_text": "known" if source.has_positives else "exclude"} | objective,
        projection={"name": "none"},
        similarity={"logit_scale": SCALE},
    )
    return started(source, settings, frozen_of(source, np.float64))


def first_batch(source, **objective):
    """The run, its first batch in double precision, and the loss of that."""
    with double_precision():
        run = begun(source, **objective)
        run.network.double()
        pairs, inputs = next(run.batches(1))
        return run, pairs, run.backward(pairs, inputs)[0].loss.item()


@pytest.mark.parametrize("given", [True, False])
def test_missing_hard_negatives_and_other_positives_are_no_negatives(given):
    source = ragged_source(given)
    run, pairs, loss = first_batch(source)
    frozen = frozen_of(source, np.float64)
    anchors, columns = ([run.data.sentences[row] for row in rows] for rows in pairs)
    count = len(anchors)

    def exponential(first, second):
        x, y = (frozen.texts.values[frozen.rows[text], 0, :, 0] for text in (first, second))
        return math.exp(SCALE * float(x @ y) / np.linalg.norm(x) / np.linalg.norm(y))

    losses = []
    for i, anchor in enumerate(anchors):
        row = TEXTS.index(anchor)
        assert columns[i] in POSITIVES[row] if given else columns[i] in TEXTS[row % 2 :: 2]
        own = [columns[place] for place in range(count + i, len(columns), count)]
        assert sorted(own) == sorted(NEGATIVES[row] + [anchor] * (3 - len(NEGATIVES[row])))
        right = {anchor, columns[i], *(POSITIVES[row] if given else [])}
        mass = sum(
            exponential(anchor, text)
            for j, text in enumerate(columns)
            if text not in right and not (j >= count and text == anchors[j % count])
        )
        losses.append(math.log(1 + mass / exponential(anchor, columns[i])))
    assert loss == pytest.approx(sum(losses) / count, rel=1e-6)


@pytest.mark.parametrize("objective", ["positives", "half uniform", "same class"])
def test_missing_hard_negatives_attract_nothing(objective):
    source = ragged_source(given=True)
    changes = {
        "positives": {"same_text": "positives"},
        "half uniform": {"targets": {"name": "half_uniform"}},
        "same class": {"name": "supcon"},
    }[objective]
    run, pairs, loss = first_batch(source, **changes)
    frozen = frozen_of(source, np.float64)
    anchors, columns = ([run.data.sentences[row] for row in rows] for rows in pairs)
    count = len(anchors)
    shows, is_labelled = (each.tolist() for each in run.data.matches(pairs))

    def logit(first, second):
        x, y = (frozen.texts.values[frozen.rows[text], 0, :, 0] for text in (first, second))
        return SCALE * float(x @ y) / np.linalg.norm(x) / np.linalg.norm(y)

    kept = [j for j, text in enumerate(columns) if j < count or text != anchors[j % count]]
    assert len(kept) < len(columns)
    losses = []
    for i, anchor in enumerate(anchors):
        same = {anchor, columns[i]}
        right = same if objective == "positives" else {*same, *POSITIVES[TEXTS.index(anchor)]}
        is_same = {j: columns[j] in same or anchors[j : j + 1] == [anchor] for j in kept}
        is_class = {j: shows[i][j] and is_labelled[i][j] for j in kept}
        u = {j: logit(anchor, columns[j]) for j in kept}
        attracted = {
            "positives": {j: float(is_same[j]) for j in kept},
            "half uniform": {j: (j == i) + 1 / len(kept) for j in kept},
            "same class": {j: float(j == i or is_class[j]) for j in kept},
        }[objective]
        mass = sum(
            math.exp(u[j])
            for j in kept
            if columns[j] not in right and not (objective == "positives" and is_same[j])
        )
        # over an anchor's positives, each one has a denominator of its own
        own = u if objective == "positives" else dict.fromkeys(kept, u[i])
        total = sum(attracted.values())
        losses.append(
            sum(
                weight / total * (math.log(math.exp(own[j]) + mass) - u[j])
                for j, weight in attracted.items()
            )
        )
    assert loss == pytest.approx(sum(losses) / count, rel=1e-6)


@pytest.mark.parametrize("directions", ["text", "both"])
@pytest.mark.parametrize("loss", ["batch", "global"])
def test_glofnd_before_its_thresholds_is_the_uncorrected_loss(loss, directions):
    source = ragged_source(given=True)
    _, _, expected = first_batch(source, directions=directions)
    settings = {"name": "glofnd", "loss": loss, "share": 0.1, "start": 0.5, "threshold_rate": 0.05}
    _, _, found = first_batch(source, directions=directions, **settings)
    assert found == pytest.approx(expected, rel=1e-6)


def test_each_positive_of_a_text_is_drawn_equally_often():
    data = begun(ragged_source(given=True)).data
    generator = torch.Generator().manual_seed(0)
    counts = Counter()
    for _ in range(3000):
        anchors, columns = data.epoch("", generator)
        counts.update(zip(anchors.tolist(), columns[:, 0].tolist(), strict=True))
    texts = data.sentences
    drawn = {(texts[anchor], texts[column]): count for (anchor, column), count in counts.items()}
    trained = {texts[row] for row, _ in counts}
    expected = {
        (text, positive): 3000 / len(positives)
        for text, positives in zip(TEXTS, POSITIVES, strict=True)
        for positive in positives
        if text in trained
    }
    assert drawn.keys() == expected.keys()
    for pair, count in drawn.items():
        assert count == pytest.approx(expected[pair], abs=150), pair


def test_no_positive_of_a_text_is_mined_for_it():
    source = ragged_source(given=True)
    subset = subset_of(source)
    vectors = np.random.default_rng(0).standard_normal((len(source.sentences), 6))
    mined = mine(source, subset, vectors)
    texts = source.sentences["sentence"].to_numpy(object)
    answers = {text for positives in POSITIVES for text in positives}
    for anchor, candidates in zip(texts[mined.anchors], mined.candidates, strict=True):
        found = set(texts[candidates[candidates >= 0]])
        assert found <= answers - set(POSITIVES[TEXTS.index(anchor)])
