"""Guides rate every anchor against every column."""

import numpy as np
import pytest
import torch

from tests.golden.numerics import double_precision
from tests.questions import settings_of, started
from tests.training.text_pairs.batches import EMA, ENCODER, HARD, LABELS, SELF, WORDS, with_loss
from tests.training.text_pairs.plain_losses import (
    by_encoder,
    by_labels,
    by_scores,
    by_text,
    by_words,
)
from trueneg.training.guides.base import GuideBatch


@pytest.mark.parametrize("positives", ["given", "drawn"])
@pytest.mark.parametrize(
    ("objective", "rating"),
    [
        ({"name": "guided", "guide": LABELS}, by_labels),
        ({"name": "remove", "by": "labels"}, by_labels),
        ({"name": "guided", "guide": WORDS}, by_words),
        ({"name": "guided", "guide": ENCODER}, by_encoder),
        ({"name": "guided", "guide": SELF}, by_scores),
        ({"name": "guided", "guide": EMA}, by_scores),
        ({"name": "reweight", "by": "text"}, by_text),
    ],
    ids=["labels", "by labels", "words", "encoder", "self", "ema", "by text"],
)
def test_a_guide_rates_every_anchor_against_every_column(sources, objective, rating, positives):
    source = sources["hard negatives" if positives == "given" else positives]
    facts, _ = with_loss(source, objective)
    run, wide = facts.run, len(facts.texts[1])
    inputs = [
        inputs
        for pairs, inputs in run.batches(2)
        if torch.equal(pairs.columns, facts.pairs.columns)
    ]
    with double_precision():
        scores = run.model.region_similarity(*run._embed(inputs[0], run.model))
        rated = run.rated(
            GuideBatch(
                *run.data.compared(facts.pairs),
                lambda network=None: run._rated_by(inputs[0], scores, network),
            )
        )
    table = [[rating(facts, i, j) for j in range(wide)] for i in range(facts.count)]
    np.testing.assert_allclose(rated.negative_similarity, table, rtol=1e-5, atol=1e-6)
    assert wide == facts.count * (1 + HARD * (positives == "given"))
    if rated.positive_similarity is not None:
        np.testing.assert_allclose(
            rated.positive_similarity, np.diagonal(table), rtol=1e-5, atol=1e-6
        )


def test_permuted_words_are_those_of_another_text(sources):
    runs = [
        started(
            sources["drawn"], settings_of({"name": "guided", "guide": WORDS | {"permuted": value}})
        )
        for value in (True, False)
    ]
    permuted, plain_words = (run.guide.overlap for run in runs)
    every = torch.arange(len(runs[0].data.texts))
    tables = [overlap(every, every).numpy() for overlap in (permuted, plain_words)]
    values = [np.sort(table[~np.eye(len(table), dtype=bool)]) for table in tables]
    np.testing.assert_allclose(*values, atol=1e-6)
    assert not np.allclose(*tables)


def test_the_average_of_the_networks_is_the_ema_guide(sources):
    settings = settings_of({"name": "guided", "guide": {"name": "ema", "momentum": 0.6}})
    run, kept = started(sources["hard negatives"], settings), []
    run.train_epoch(
        lambda: kept.append(
            [value.detach().clone() for value in run.model.anchors.text_projection.parameters()]
        )
    )
    weight, bias = kept[0]  # the average starts as the first update's networks
    for one, other in kept[1:]:
        weight, bias = 0.6 * weight + 0.4 * one, 0.6 * bias + 0.4 * other
    run.epoch = 0
    pairs, inputs = next(run.batches(1))
    rated = run.rated(
        GuideBatch(*run.data.compared(pairs), lambda network: run._rated_by(inputs, None, network))
    )
    stored = [
        torch.from_numpy(run.frozen.texts.values[run.frozen.rows[text], 0, :, 0])
        for text in run.data.sentences
    ]
    anchors, columns = (
        torch.stack([stored[number] for number in each]) @ weight.T + bias for each in pairs
    )
    cosines = torch.nn.functional.cosine_similarity(anchors[:, None], columns[None], dim=2)
    torch.testing.assert_close(rated.negative_similarity, cosines, rtol=1e-4, atol=1e-5)
