"""SupCon equals its published equation, one anchor after the other, whatever kind of labels a study
has.
"""

import dataclasses
import math

import numpy as np
import pytest
import torch

from tests.textures import settings_of as pair_settings
from tests.textures import texture_source
from tests.training.test_simclr import settings_of, started
from trueneg.data.images.loading import load_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.training.image_text import ImageText

CPU = torch.device("cpu")


def supcon(logits, positives):
    """L_out (Khosla et al., 2020, equation 2), the mean over anchors.

    Args:
        logits: for each anchor, the logit of each other sample by its number.
        positives: for each anchor, the numbers of its positives.
    """
    total = 0.0
    for u, chosen in zip(logits, positives, strict=True):
        denominator = sum(math.exp(value) for value in u.values())
        total -= sum(math.log(math.exp(u[number]) / denominator) for number in chosen) / len(chosen)
    return total / len(logits)


def updated(run):
    """Return the first batch of a run, and the terms of its objective."""
    batch = next(run.batches(1))
    return batch, run.backward(*batch)[0]


def test_both_views_of_images_of_the_class_are_positives_and_unlabelled_have_their_own():
    source = load_source("digits")
    labels = source.labels.copy()
    labels[np.flatnonzero(~source.is_test)[::3]] = -1
    objective = settings_of()["objective"] | {"name": "supcon"}
    run = started(
        dataclasses.replace(source, labels=labels),
        settings=settings_of() | {"objective": objective},
    )
    (chosen, drawn), terms = updated(run)
    with torch.no_grad():
        embedded = torch.cat(run._embed(run.data.images[chosen], drawn)).double()
    units, classes = (
        torch.nn.functional.normalize(embedded, dim=1).numpy(),
        run.data._classes[chosen.numpy()].tolist(),
    )
    count = len(chosen)
    assert -1 in classes
    assert max(classes.count(label) for label in classes if label >= 0) > 1
    logits, positives = [], []
    for a in range(2 * count):
        others = [b for b in range(2 * count) if b != a]
        logits.append({b: float(units[a] @ units[b]) / run.loss.temperature for b in others})
        label = classes[a % count]
        positives.append(
            [
                b
                for b in others
                if b % count == a % count or (label >= 0 and classes[b % count] == label)
            ]
        )
    assert terms.loss.item() == pytest.approx(supcon(logits, positives), rel=1e-5)


@pytest.mark.parametrize("directions", ["text", "image", "both"])
def test_pairs_whose_images_share_a_positive_label_are_positives(directions):
    """Some images have several labels, some none, and some labels are unknown."""
    source = texture_source(patients=40)
    labels = source.labels.copy()
    labels[::5], labels[1::7, 0] = 0, math.nan
    source = dataclasses.replace(source, labels=labels)
    run = ImageText(
        pair_settings({"name": "supcon", "directions": directions}),
        0,
        source,
        split_pairs(source, 0),
        CPU,
    )
    compute, recorded = run.criterion.of_similarities, []
    run.criterion.of_similarities = lambda *arguments: (
        recorded.append(arguments[:2]) or compute(*arguments)
    )
    (pairs, _), terms = updated(run)
    (((similarity,), scale),) = recorded
    scores, count = (similarity * scale).tolist(), len(pairs.anchors)
    shown = [
        {k for k, value in enumerate(row) if value == 1}
        for row in run.data.labels[pairs.columns].tolist()
    ]
    assert {0, 1, 2} == {len(each) for each in shown}
    assert any(a != b and a & b for a in shown for b in shown)
    logits, positives = [], []
    for side in ("text", "image") if directions == "both" else (directions,):
        for i in range(count):
            logits.append(
                {j: scores[i][j] if side == "text" else scores[j][i] for j in range(count)}
            )
            positives.append([j for j in range(count) if j == i or shown[i] & shown[j]])
    assert terms.loss.item() == pytest.approx(supcon(logits, positives), rel=1e-5)
