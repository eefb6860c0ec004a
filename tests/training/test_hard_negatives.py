"""Training with mined hard negatives: the loss over them equals a loop over plain numbers, labels
decide nothing unless they are asked for, and what was mined is part of a run's id.
"""

import math

import numpy as np
import pytest
import torch

from tests.config.mistakes import mistakes
from tests.evaluation.texts.test_text_rows import LABELLED, text_study
from tests.golden.numerics import double_precision
from tests.questions import (
    SETTINGS,
    frozen_of,
    question_source,
    settings_of,
    started,
    subset_of,
    vectors_of,
)
from tests.training.text_pairs.batches import SCALE, cosine, facts_of
from trueneg.data.mining import mine
from trueneg.data.texts.text_source import TextSource
from trueneg.store.identity import with_inputs

HARD = 3


def mined_for(source, frozen):
    """The frozen towers with what is mined with them."""
    values = frozen.texts.values[[frozen.rows[text] for text in source.sentences["sentence"]]]
    return frozen._replace(mined={0: mine(source, subset_of(source), values[:, 0, :, 0])})


def begun(source, **changes):
    """A run that mines, without a head."""
    objective = {"name": "cl", "hard_negatives": {"num_negatives": HARD} | changes}
    unprojected = {"projection": {"name": "none"}, "similarity": {"logit_scale": SCALE}}
    settings = settings_of(objective, **unprojected)
    return started(source, settings, mined_for(source, frozen_of(source, np.float64)))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("in_batch", [True, False])
@pytest.mark.parametrize("max_score", [None, -0.6])
def test_the_loss_is_over_the_hard_negatives_and_those_in_the_batch(given, in_batch, max_score):
    source = question_source(given=given)
    with double_precision():
        run = begun(source, in_batch=in_batch, max_score=max_score)
        run.network.double()
        pairs, inputs = next(run.batches(1))
        loss = run.backward(pairs, inputs)[0].loss.item()
    facts = facts_of(run, pairs)
    count = facts.count
    assert len(facts.texts[1]) == count * (1 + HARD)
    # an anchor of its own stands for each missing one, and is no negative of any
    is_missing = [
        j >= count and facts.texts[1][j] == facts.texts[0][j % count]
        for j in range(len(facts.texts[1]))
    ]
    share = run.data.hard_negatives.measured["share of missing hard negatives"]
    assert (share > 0) == (max_score is not None)
    losses = []
    for i in range(count):
        u = [math.exp(SCALE * cosine) for cosine in facts.cosines[i]]
        kept = [
            j
            for j in range(len(u))
            if j != i and not (facts.same(i, j) or is_missing[j]) and (in_batch or j % count == i)
        ]
        losses.append(math.log(1 + sum(u[j] for j in kept) / u[i]))
    assert loss == pytest.approx(sum(losses) / count, rel=1e-6)


def guided_mass(u, rated, limit, is_in_scope, alpha):
    """The mass of the columns that a guide rates at most as high as the positive, less a margin,
    with hardness weights.
    """
    kept = [j for j in u if not (is_in_scope(j) and rated[j] > limit)]
    return sum(u[j] * math.exp(alpha * is_in_scope(j) * math.log(u[j]) / SCALE) for j in kept)


def hardness_mass(u, is_in_scope, beta):
    """The mass of the columns, those in scope weighted by e^(βu), on average 1."""
    inside = [u[j] for j in u if is_in_scope(j)]
    weights = [each**beta for each in inside]
    mean = sum(weights) / len(weights)
    weighted = sum(weight / mean * each for weight, each in zip(weights, inside, strict=True))
    return weighted + sum(u[j] for j in u if not is_in_scope(j))


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("scope", ["all", "in_batch", "hard"])
@pytest.mark.parametrize(("name", "alpha"), [("guided", 0), ("guided", 5.0), ("hcl", 0)])
def test_a_correction_looks_at_the_hard_negatives_of_its_anchor_or_at_the_rest(
    name, alpha, scope, given
):
    source = question_source(given=given)
    frozen = frozen_of(source, np.float64, **{"guide text_encoder": vectors_of(source, seed=7)})
    tower = SETTINGS["text_encoder"]
    settings_of_name = {
        "guided": {"guide": {"name": "encoder", "text_encoder": tower}, "margin": 0.05}
        | {"hardness": alpha},
        "hcl": {"class_probability": 0, "beta": 0.5},
    }
    objective = {"name": name, "scope": scope, "hard_negatives": {"num_negatives": HARD}}
    unprojected = {"projection": {"name": "none"}, "similarity": {"logit_scale": SCALE}}
    settings = settings_of(objective | settings_of_name[name], **unprojected)
    with double_precision():
        run = started(source, settings, mined_for(source, frozen))
        run.network.double()
        pairs, inputs = next(run.batches(1))
        loss = run.backward(pairs, inputs)[0].loss.item()
    facts = facts_of(run, pairs)
    count = facts.count
    rating = vectors_of(source, seed=7).values[:, 0, :, 0].astype(float)
    row_of = run.frozen.rows
    losses, differ = [], 0
    for i in range(count):
        u = [math.exp(SCALE * each) for each in facts.cosines[i]]
        rated = [
            cosine(rating[row_of[facts.texts[0][i]]], rating[row_of[text]])
            for text in facts.texts[1]
        ]
        used = {j: u[j] for j in range(len(u)) if j != i and not facts.same(i, j)}
        is_in_scope = {
            "all": lambda j: True,
            "in_batch": lambda j, i=i: j < count or j % count != i,
            "hard": lambda j, i=i: j >= count and j % count == i,
        }[scope]
        if name == "guided":
            mass = guided_mass(used, rated, rated[i] - 0.05, is_in_scope, alpha)
        else:
            mass = hardness_mass(used, is_in_scope, 0.5)
        differ += mass != sum(used.values())
        losses.append(math.log(1 + mass / u[i]))
    assert differ
    assert loss == pytest.approx(sum(losses) / count, rel=1e-6)


@pytest.mark.parametrize("changes", [{}, {"relative_margin": 0.1}, {"shuffled": True}])
def test_labels_decide_nothing_unless_they_are_asked_for(changes):
    source = question_source(given=True)
    sentences = source.sentences
    hidden = sentences.assign(**{"class": sentences["class"].map({0: 3, 3: 0}).fillna(1)})
    unlabelled = TextSource(
        source.name, hidden.astype({"class": np.int64}), source.pairs, source.label_names
    )
    first, second = (
        begun(each, **changes).data.epoch("", torch.Generator().manual_seed(0))
        for each in (source, unlabelled)
    )
    assert first.columns.shape[1] == 1 + HARD
    assert torch.equal(first.columns, second.columns)


def test_what_was_mined_is_part_of_the_id():
    source = question_source()
    mined = mined_for(source, frozen_of(source)).mined[0]
    other = mined._replace(similarity=mined.similarity + 1)
    ids = {
        with_inputs("data", {"text_encoder": "weights"}, checksum)
        for checksum in (None, mined.checksum, other.checksum)
    }
    assert len(ids) == 3


@pytest.mark.parametrize("scope", ["hard", ["all", "in_batch"]])
def test_a_scope_without_hard_negatives_is_refused(scope):
    guided = {"name": "guided", "guide": {"name": "self"}, "scope": scope}
    for mined, expected in (({}, 1), ({"hard_negatives": {}}, 0)):
        objectives = {"CL": {"name": "cl"}, "DCL": guided | mined}
        study = text_study(LABELLED, objectives=objectives, sweeps="one at a time")
        found = [line for line in mistakes(mine=study) if "objectives.DCL.scope" in line]
        assert len(found) == expected
