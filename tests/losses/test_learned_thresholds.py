"""Thresholds learned for each sample, as an estimator called with indices, equal a loop over
numbers with PyTorch's Adam.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book
from tests.losses.loops import anchor_loss, uniform
from trueneg.losses import Anchors, ContrastiveLoss, CrossModalLoss, LearnedThresholds

PROPERTIES = settings(deadline=None, max_examples=15)
SEEDS = st.integers(0, 10_000)
SHARE, RATE = 0.3, 0.4
BATCHES = st.lists(
    st.lists(st.integers(0, 5), min_size=4, max_size=4), min_size=3, max_size=3
)  # of six samples, some of which are drawn several times


class Thresholds:
    """One number per sample of a direction, and its own Adam."""

    def __init__(self, samples):
        self.numbers = [torch.nn.Parameter(torch.ones(()).double()) for _ in range(samples)]
        self.adams = [
            torch.optim.Adam([number], lr=RATE, betas=(0.9, 0.98), eps=1e-8)
            for number in self.numbers
        ]

    def learn(self, samples, rows):
        """Learn from ``rows``: the number of each anchor's sample, and a list of (sample, cosine)
        of its columns.
        """
        for sample in set(samples):
            shares = []
            for anchor, columns in rows:
                others = [cosine.item() for other, cosine in columns if other != sample]
                if anchor == sample and others:
                    above = [cosine > self.numbers[sample].item() for cosine in others]
                    shares.append(sum(above) / len(above))
            if shares:
                gradient = SHARE - sum(shares) / len(shares)
                self.numbers[sample].grad = torch.tensor(gradient, dtype=torch.float64)
                self.adams[sample].step()
                self.numbers[sample].data.clamp_(-1, 1)

    def values(self):
        return [number.item() for number in self.numbers]


def of_an_anchor(positive, cosines, scale, threshold):
    removed = [cosine.item() > threshold for cosine in cosines]
    return anchor_loss(scale * positive, [scale * each for each in cosines], removed)


@pytest.mark.parametrize("chunk_size", [None, 3])
@PROPERTIES
@given(SEEDS, BATCHES)
def test_three_updates_on_views_equal_a_loop(chunk_size, seed, batches):
    thresholds = Thresholds(6)
    estimator = LearnedThresholds(6, SHARE, RATE)
    loss = ContrastiveLoss(estimator, 0.3, chunk_size=chunk_size).double()
    for update, samples in enumerate(batches):
        views = [uniform(4, 3, seed=seed + 2 * update + each).requires_grad_() for each in (0, 1)]
        rows = {
            (view, i): {
                (other, j): book.cosine(views[view][i], views[other][j])
                for other in (0, 1)
                for j in range(4)
            }
            for view in (0, 1)
            for i in range(4)
        }
        thresholds.learn(
            samples,
            [
                (samples[i], [(samples[j], cosine) for (_, j), cosine in columns.items()])
                for (_, i), columns in rows.items()
            ],
        )
        losses = []
        for (view, i), columns in rows.items():
            cosines = [cosine for (_, j), cosine in columns.items() if j != i]
            threshold = thresholds.values()[samples[i]]
            losses.append(of_an_anchor(columns[1 - view, i], cosines, 1 / 0.3, threshold))
        actual = loss(*views, index=torch.tensor(samples))
        book.assert_same(actual, sum(losses) / 8, views)
        assert estimator.values.tolist() == pytest.approx(thresholds.values(), abs=1e-12)


@pytest.mark.parametrize("directions", ["text", "image", "both"])
@PROPERTIES
@given(SEEDS, BATCHES)
def test_three_updates_on_pairs_equal_a_loop(directions, seed, batches):
    """A direction has its own thresholds. Hard negatives, two here, are removed by the thresholds
    of the texts, but are no random samples from which to learn them.
    """
    sides = ("text", "image") if directions == "both" else (directions,)
    of_sides = [Thresholds(6) for _ in sides]
    estimator = LearnedThresholds(6, SHARE, RATE, directions=len(sides))
    loss = CrossModalLoss(estimator, directions).double()
    for update, samples in enumerate(batches):
        similarity = uniform(4, 6, seed=seed + update).requires_grad_()
        losses = []
        for side, thresholds in zip(sides, of_sides, strict=True):
            rows = [
                [similarity[i, j] if side == "text" else similarity[j, i] for j in range(4)]
                for i in range(4)
            ]
            known = [
                (samples[i], list(zip(samples, cosines, strict=True)))
                for i, cosines in enumerate(rows)
            ]
            thresholds.learn(samples, known)
            for i, cosines in enumerate(rows):
                others = [cosine for j, cosine in enumerate(cosines) if j != i]
                others += list(similarity[i, 4:]) if side == "text" else []
                threshold = thresholds.values()[samples[i]]
                losses.append(of_an_anchor(cosines[i], others, 6.0, threshold))
        # images as anchors do not use the hard negatives
        actual = loss(similarity, 6.0, index=torch.tensor(samples), unused="ignore")
        book.assert_same(actual, sum(losses) / len(losses), [similarity])
        expected = [value for thresholds in of_sides for value in thresholds.values()]
        assert estimator.values.tolist() == pytest.approx(expected, abs=1e-12)


def test_nothing_is_learned_from_excluded_columns():
    thresholds = Thresholds(6)
    estimator = LearnedThresholds(6, SHARE, RATE)
    similarity = uniform(4, 4, seed=3)
    exclude = torch.rand(4, 4, generator=torch.Generator().manual_seed(1)) < 0.4
    exclude[2] = True  # keeps its threshold
    thresholds.learn(
        range(4),
        [
            (i, [(j, similarity[i, j]) for j in range(4) if j == i or not exclude[i, j]])
            for i in range(4)
        ],
    )
    loss = CrossModalLoss(estimator, "text").double()
    loss(similarity, 6.0, index=torch.arange(4), exclude=exclude)
    assert estimator.values.tolist() == pytest.approx(thresholds.values(), abs=1e-12)


def test_in_evaluation_mode_thresholds_are_used_and_stay():
    index = torch.tensor([4, 0, 6, 2])
    loss = ContrastiveLoss(LearnedThresholds(8, SHARE, RATE), 0.3).double()
    views = [uniform(4, 3, seed=seed) for seed in (0, 1)]
    before = loss(*views, index=index)
    for _ in range(2):
        loss(*views, index=index)
    state = {name: value.clone() for name, value in loss.state_dict().items()}
    value = loss.eval()(*views, index=index)
    assert value < before  # by now, negatives are removed
    for name, each in loss.state_dict().items():
        assert torch.equal(each, state[name])
    again = ContrastiveLoss(LearnedThresholds(8, SHARE, RATE), 0.3).double()
    again.load_state_dict(state)
    assert torch.equal(again.eval()(*views, index=index), value)
    values = [each.train()(*views, index=index) for each in (loss, again)]
    assert torch.equal(*values)
    assert torch.equal(loss.estimator.values, again.estimator.values)
    assert not torch.equal(loss.estimator.values, state["estimator.values"])


def pairs(estimator, directions="both", **facts):
    return CrossModalLoss(estimator, directions)(torch.eye(3), 5.0, **facts)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pairs(LearnedThresholds(4, directions=2)), "index is missing; LearnedThresholds"),
        (
            lambda: pairs(LearnedThresholds(4), index=torch.arange(3)),
            "directions is 1, but the loss has more; pass directions=2",
        ),
        (
            lambda: pairs(LearnedThresholds(4), "text", index=torch.tensor([0, 4, 1])),
            "index contains numbers from 0 to 4; expected those of 4 samples",
        ),
        (
            lambda: pairs(
                LearnedThresholds(4),
                "text",
                index=torch.arange(3),
                positive_similarity=torch.zeros(3),
            ),
            "positive_similarity is given, but LearnedThresholds.* does not use it",
        ),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_equal_sample_is_not_above_the_initial_threshold_by_rounding():
    rounded = torch.full((2, 2), 1 + 2**-23)
    updated = [
        LearnedThresholds(samples=2).update(torch.arange(2), similarity)
        for similarity in (rounded, torch.ones(2, 2))
    ]
    assert torch.equal(*updated)
    for threshold, left in ((1.0, 1), (0.5, 0)):
        anchors = Anchors(
            torch.zeros(1), rounded[:1, :1], temperature=1.0, threshold=torch.tensor([threshold])
        )
        assert (~LearnedThresholds(samples=2).marked(anchors)).sum() == left
