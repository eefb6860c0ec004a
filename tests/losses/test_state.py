"""What losses remember of samples: GloFND's thresholds and SogCLR's averages, by index."""

import copy
import math

import pytest
import torch
from torch.nn.functional import normalize

from tests.losses import by_the_book as book
from tests.losses.distributed_losses import Embedded
from tests.losses.forms import normal
from tests.losses.two_processes import REMEMBERING, SAMPLES, results
from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    GlobalMass,
    LearnedThresholds,
    OpenClipLoss,
)
from trueneg.losses.adapters import RankingLoss

T = 0.4
NAMES = list(REMEMBERING)
INDEX = torch.tensor([3, 0, 5, 9])


def views_of(call, count=4):
    first = normal(count, 4, seed=2 * call)
    return first, normal(count, 4, seed=2 * call + 1)


def loss_of(name, directions=1, **options):
    estimator = REMEMBERING[name](directions)
    if directions == 1:
        return ContrastiveLoss(estimator, T, **options).double()
    return CrossModalLoss(estimator, "both", **options).double()


def state_of(loss):
    return copy.deepcopy(loss.state_dict())


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, values in one.items():
        torch.testing.assert_close(values, other[name], rtol=1e-12, atol=0)


def differs(one, other):
    return any(not torch.equal(one[name], other[name]) for name in one)


def called(name):
    """Return losses with their calls of a batch of pairs: each takes two features and an index."""

    def ranking(first, second, index):
        return texts([{"model": first}, {"model": second}], index=index)

    def openclip(first, second, index):
        unit = normalize(second, dim=-1), normalize(first, dim=-1)
        return clip(*unit, torch.tensor(3.0), index=index)

    def matrix(first, second, index):
        return pairs(normalize(first, dim=-1) @ normalize(second, dim=-1).mT, 3.0, index=index)

    texts = RankingLoss(Embedded("model"), REMEMBERING[name](1), 3.0, same_text=False)
    clip = OpenClipLoss(REMEMBERING[name](2))
    pairs = CrossModalLoss(REMEMBERING[name](2))
    views = loss_of(name)
    return {
        "views": (views, lambda *given: views(*given[:2], index=given[2])),
        "texts": (texts, ranking),
        "openclip": (clip, openclip),
        "matrix": (pairs, matrix),
    }


@pytest.mark.parametrize("kind", ["views", "texts", "openclip", "matrix"])
@pytest.mark.parametrize("name", NAMES)
def test_each_call_in_training_mode_updates_the_samples_of_the_batch(name, kind):
    loss, call = called(name)[kind]
    before = state_of(loss)
    call(*views_of(0), INDEX).backward()
    after = state_of(loss)
    assert differs(before, after)
    sides = 2 if kind in ("openclip", "matrix") else 1
    for key, values in after.items():
        of_samples = (values != before[key]).view(-1, SAMPLES)
        assert set(of_samples.any(0).nonzero().flatten().tolist()) <= set(INDEX.tolist())
        if "first" in key or "log_averages" in key:
            assert of_samples.any(1).sum() == sides
    loss.eval()
    call(*views_of(1), INDEX).backward()
    assert_equal(state_of(loss), after)
    loss.train()
    call(*views_of(1), INDEX)
    assert differs(after, state_of(loss))


@pytest.mark.parametrize("name", NAMES)
def test_evaluation_uses_what_is_remembered(name):
    loss = loss_of(name)
    fresh = copy.deepcopy(loss).eval()
    for call in range(3):
        loss(*views_of(call), index=INDEX)
    loss.eval()
    assert loss(*views_of(5), index=INDEX) != fresh(*views_of(5), index=INDEX)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_chunks_give_the_same_values_gradients_and_state(name, directions):
    """Chunks are computed again in the backward pass, when the state is new."""
    losses = [loss_of(name, directions, chunk_size=size) for size in (None, 1, 3)]
    for update in range(4):
        given = views_of(update)
        index = INDEX.roll(update) + update % 2
        values = []
        for loss in losses:
            if directions == 1:
                values.append(loss(*given, index=index))
                continue
            terms = loss.of_features(*(normalize(each, dim=-1) for each in given), 3.0, index=index)
            values.append(terms.loss)
        for value in values[1:]:
            book.assert_same(value, values[0], list(given), 1e-12)
        for loss in losses[1:]:
            assert_equal(state_of(loss), state_of(losses[0]))


@pytest.mark.parametrize("name", NAMES)
def test_training_continues_from_a_loaded_state(name):
    whole, first_half, second_half = (loss_of(name) for _ in range(3))
    for call in range(2):
        whole(*views_of(call), index=INDEX)
        first_half(*views_of(call), index=INDEX)
    second_half.load_state_dict(first_half.state_dict())
    for call in (2, 3):
        given = views_of(call)
        one, other = whole(*given, index=INDEX), second_half(*given, index=INDEX)
        book.assert_same(other, one, list(given), 0)
    assert_equal(state_of(second_half), state_of(whole))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("index", "message"),
    [
        (None, "index is missing"),
        (torch.tensor([0, 1, 2, SAMPLES]), "index"),
        (torch.tensor([0, -1, 2, 3]), "index"),
        (torch.arange(3), "index"),
        (torch.arange(8), "index"),
        ([0, 1, 2, 3], "index"),
    ],
)
def test_wrong_indices_are_refused_and_change_nothing(name, index, message):
    loss = loss_of(name)
    before = state_of(loss)
    with pytest.raises(ValueError, match=message):
        loss(*views_of(0), index=index)
    assert_equal(state_of(loss), before)
    loss.eval()
    with pytest.raises(ValueError, match=message):
        loss(*views_of(0), index=index)


@pytest.mark.parametrize("name", NAMES)
def test_an_index_of_other_integers_is_accepted(name):
    """Those of an array of int32."""
    one, other = loss_of(name), loss_of(name)
    for loss, index in ((one, INDEX), (other, INDEX.int())):
        loss(*views_of(0), index=index)
    assert_equal(state_of(one), state_of(other))


def test_thresholds_of_one_direction_are_refused_for_two():
    loss = CrossModalLoss(LearnedThresholds(SAMPLES))
    before = state_of(loss)
    with pytest.raises(ValueError, match="directions"):
        loss(torch.eye(4), 3.0, index=INDEX)
    del before


@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_one_changes_nothing(name):
    loss = loss_of(name)
    loss(*views_of(0), index=INDEX)
    before = state_of(loss)
    first, second = views_of(1, 1)
    value = loss(first, second, index=INDEX[:1])
    value.backward()
    assert value == 0
    assert first.grad.eq(0).all()
    assert_equal(state_of(loss), before)


@pytest.mark.parametrize("views", [2, 3])
def test_averages_equal_a_loop(views):
    """Of the batch's mean relative to the own positive; the mean over the views is kept."""
    loss, rate, averages = loss_of("averages"), 0.3, {}
    for call in range(3):
        given = [normal(4, 4, seed=10 * call + view) for view in range(views)]
        index = (INDEX + call).tolist()
        loss(given, index=torch.tensor(index))
        new = {}
        for i, number in enumerate(index):
            of_views = []
            for v, view in enumerate(given):
                p = book.cosine(view[i], given[v - 1][i]).item() / T
                ratios = [
                    math.exp(book.cosine(view[i], other[j]).item() / T - p)
                    for other in given
                    for j in range(4)
                    if j != i
                ]
                mean = sum(ratios) / len(ratios)
                of_views.append((1 - rate) * averages.get(number, mean) + rate * mean)
            new[number] = sum(of_views) / views
        averages |= new
    stored = loss.estimator.log_averages
    assert stored[0].isfinite().nonzero().flatten().tolist() == sorted(averages)
    for number, value in averages.items():
        assert stored[0, number].exp().item() == pytest.approx(value, rel=1e-9)
    assert stored[1].isneginf().all()


@pytest.mark.parametrize("further", [0, 3])
def test_thresholds_equal_a_loop_of_adam(further):
    """The share of a sample's negatives above its threshold; a queue does not count."""
    loss, state = loss_of("thresholds"), {}
    queue = {"queue": normal(further, 4, seed=50)} if further else {}
    for call in range(4):
        given = views_of(call)
        index = (INDEX + call % 2).tolist()
        loss(*given, index=torch.tensor(index), **queue)
        new = {}
        for i, number in enumerate(index):
            value, m, v, t = state.get(number, (1.0, 0.0, 0.0, 0))
            cosines = [
                book.cosine(view[i], other[j]).item()
                for view in given
                for other in given
                for j in range(4)
                if j != i
            ]
            g = 0.2 - sum(cosine > value for cosine in cosines) / len(cosines)
            m, v, t = 0.9 * m + 0.1 * g, 0.98 * v + 0.02 * g * g, t + 1
            step = m / (1 - 0.9**t) / (math.sqrt(v / (1 - 0.98**t)) + 1e-8)
            new[number] = (min(1.0, max(-1.0, value - 0.3 * step)), m, v, t)
        state |= new
    for number, (value, *_) in state.items():
        assert loss.estimator.values[number].item() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_copies_and_moves_keep_the_state(name):
    loss = loss_of(name)
    loss(*views_of(0), index=INDEX)
    again = copy.deepcopy(loss)
    assert_equal(state_of(again), state_of(loss))
    assert any(each.dtype == torch.float32 for each in loss.float().state_dict().values())
    assert list(loss.parameters()) == []


@pytest.mark.parametrize("cast", ["half", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_that_is_cast_to_half_precision_remembers_as_before(name, cast):
    plain = loss_of(name).float()
    loss = getattr(copy.deepcopy(plain), cast)()
    for call in range(60):  # bfloat16 cannot tell Adam's later steps apart
        for each in (plain, loss):
            each(*views_of(call), index=INDEX)
        getattr(loss, cast)()
    assert_equal(state_of(loss), state_of(plain))
    assert next(loss.to("meta").buffers()).is_meta


@pytest.mark.parametrize("size", [None, 3])
@pytest.mark.parametrize("where", ["inside", "outside"])
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_train_as_one_inside_and_outside_of_ddp(name, where, size):
    """Network and state, after batches that contain samples twice."""
    of_ranks, alone = results()
    key = f"{name}, {where}, {size}"
    assert of_ranks[0][key] == of_ranks[1][key]
    assert of_ranks[0][key] == pytest.approx(alone[key], rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_two_processes_share_the_state_of_samples_whose_negatives_they_do_not_share(name):
    of_ranks, alone = results()
    key = f"{name}, alone"
    assert of_ranks[0][key] == of_ranks[1][key]
    assert of_ranks[0][key] == pytest.approx(alone[key], rel=1e-9)


def test_thresholds_and_averages_are_those_of_the_module():
    """So that they are saved, moved and broadcast with it."""
    assert set(loss_of("averages").state_dict()) == {"estimator.log_averages"}
    assert set(loss_of("thresholds").state_dict()) == {
        f"estimator.{name}" for name in ("values", "first", "second", "updates")
    }
    assert GlobalMass(3).log_averages.shape == (2, 3)
