"""The inputs of the libraries' own tests of the losses that ours replace, with the values or
properties that these tests expect; what differs on purpose stands in docs/losses.md.

Expected values are computed here, in float64. Each docstring names the upstream file.
"""

import gc
import math
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.functional import normalize

from tests.losses import by_the_book as book
from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    Guided,
    HardnessWeighted,
    OpenClipLoss,
    Sigmoid,
    SupConLoss,
    Uncorrected,
)
from trueneg.losses.adapters import LabelledLoss, RankingLoss

DTYPES = [torch.float16, torch.float32, torch.float64]


def draws(seed, *shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


# lightly


def nt_xent(z1, z2, temperature):
    return book.two_view_loss(
        lambda _, positives, negatives, __: book.uncorrected(positives, negatives),
        z1.double(),
        z2.double(),
        temperature,
    )


def decoupled(z1, z2, temperature, weights=None, apart=False):
    """Decoupled contrastive learning; a weight multiplies the positive of each sample.

    Before version 1.5.21, lightly summed the two views apart, and added the logarithms.
    """
    views = z1.double(), z2.double()
    losses = []
    for view in (0, 1):
        for i, anchor in enumerate(views[view]):
            sums = [
                book.exp_sum(
                    book.cosine(anchor, other) / temperature
                    for j, other in enumerate(each)
                    if j != i
                )
                for each in views
            ]
            mass = sums[0] * sums[1] if apart else sums[0] + sums[1]
            positive = book.cosine(anchor, views[1 - view][i]) / temperature
            weight = 1.0 if weights is None else weights[i]
            losses.append(torch.log(mass) - weight * positive)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("dimension", [1, 2, 16, 64])
@pytest.mark.parametrize("temperature", [0.1, 1, 10])
def test_nt_xent_of_normal_embeddings(count, dimension, temperature):
    """tests/loss/test_ntx_ent_loss.py: test_with_values."""
    z1, z2 = draws(0, 2, count, dimension)
    expected = pytest.approx(nt_xent(z1, z2, temperature).item(), abs=1e-5)
    for gather_distributed in (False, True):
        loss = ContrastiveLoss(Uncorrected(), temperature, gather_distributed=gather_distributed)
        assert loss(z1, z2).item() == expected
        assert loss(z2, z1).item() == expected


@pytest.mark.parametrize("count", [1, 2, 8, 16])
@pytest.mark.parametrize("size", [0, 1, 2, 8, 15, 16, 17])
def test_nt_xent_of_parallel_embeddings_with_a_memory_bank(count, size):
    """tests/loss/test_ntx_ent_loss.py: test_with_correlated_embedding.

    With a bank, its keys are the only negatives; here, the loop keeps it. At first, it holds
    vectors in other directions.
    """
    lengths = 0.1 + draws(0, 2, count, 1).abs()
    z1, z2 = torch.cat((lengths, 2 * lengths), dim=2)
    for temperature in (0.1, 1, 7):
        if size == 0:
            value = ContrastiveLoss(Uncorrected(), temperature)(z1, z2)
            assert value.item() == pytest.approx(math.log(2 * count - 1), abs=1e-6)
            continue
        loss = CrossModalLoss(Uncorrected(), "text", negatives="hard")
        units, bank = normalize(torch.stack((z1, z2)), dim=-1), normalize(draws(1, size, 2), dim=-1)
        values = []
        for _ in range(size // count + 2):
            terms = loss.of_features(*units, 1 / temperature, hard_negatives=bank)
            values.append(terms.loss.item())
            bank = torch.cat((bank, units[1]))[-size:]
        assert values[-1] == pytest.approx(math.log(size + 1), rel=1e-6)
        assert values[0] != pytest.approx(math.log(size + 1), rel=1e-3)


@pytest.mark.parametrize("dimension", [32, 1])
def test_nt_xent_is_symmetric_for_every_batch_size(dimension):
    """tests/loss/test_ntx_ent_loss.py: test_forward_pass, test_forward_pass_1d and
    test_forward_pass_memory_bank.
    """
    loss = ContrastiveLoss(Uncorrected())
    for count in range(1, 20):
        z1, z2 = draws(count, 2, count, dimension)
        assert loss(z1, z2).item() == pytest.approx(loss(z2, z1).item(), abs=1e-6)
        assert (loss(z1, z2) > 0) == (count > 1)
        assert loss(z1, z2, queue=draws(0, 64, dimension)).isfinite()


@pytest.mark.parametrize(
    ("draw", "counts", "dimensions"), [(torch.rand, (2, 3), (1, 3)), (torch.randn, (3, 4), (5, 7))]
)
@pytest.mark.parametrize("temperature", [0.1, 0.5, 1.0])
def test_decoupled_losses_without_and_with_weights(draw, counts, dimensions, temperature):
    """tests/loss/test_dcl_loss.py: test_dclloss_forward, test_dclloss_forward__no_weight_fn,
    test_dclwloss_forward and test_dclloss_matches_reference. The weights are made from the terms.
    """
    for count in counts:
        for dimension in dimensions:
            torch.manual_seed(0)
            z1, z2 = draw(count, dimension), draw(count, dimension)
            similarity = torch.linalg.vecdot(normalize(z1, dim=1), normalize(z2, dim=1)) / 0.5
            weights = 2 - count * similarity.softmax(0)
            loss = ContrastiveLoss(Uncorrected(), temperature, decoupled=True)
            expected = decoupled(z1, z2, temperature).item()
            of_weights = decoupled(z1, z2, temperature, weights).item()
            if draw is torch.rand:
                assert min(expected, of_weights) > 0
            for views in ((z1, z2), (z2, z1)):
                terms = loss.terms(*views)
                assert terms.loss.item() == pytest.approx(expected, rel=1e-5)
                weighted = terms.log_negative_mass - weights.repeat(2) * terms.positive[:, 0]
                assert weighted.mean().item() == pytest.approx(of_weights, rel=1e-5)


def stepped(layer, value, rate=0.1):
    """Take a step of gradient descent."""
    layer.zero_grad()
    value.backward()
    with torch.no_grad():
        for each in layer.parameters():
            each -= rate * each.grad


def test_a_step_along_the_gradient_lowers_a_decoupled_loss():
    """tests/loss/test_dcl_loss.py: test_dclloss_backprop."""
    torch.manual_seed(0)
    views, layer = torch.rand(2, 3, 5), nn.Linear(5, 5)
    loss = ContrastiveLoss(Uncorrected(), 0.1, decoupled=True)
    value = loss(*layer(views))
    stepped(layer, value)
    assert loss(*layer(views)) < value


def trained(loss):
    """Return the weights after ten steps."""
    layer = nn.Linear(5, 2, bias=False)
    layer.weight.data = torch.arange(1, 11).view(2, 5) / 10
    inputs = torch.arange(80.0).view(8, 2, 5)
    targets = torch.arange(32.0).view(8, 4)
    for _ in range(10):
        stepped(layer, loss(layer(inputs).flatten(1), targets))
    return layer.weight.detach()


def test_ten_steps_of_training_end_at_the_same_weights():
    """tests/utils/test_dist__gather__losses.py: test_loss_ntxent, whose values are those of one
    process; tests/losses/test_distributed.py compares it with several.
    """
    expected = [0.1675, 0.2676, 0.3678, 0.4679, 0.5680], [0.5763, 0.6742, 0.7721, 0.8700, 0.9679]
    weights = trained(ContrastiveLoss(Uncorrected(), 0.5, gather_distributed=True))
    torch.testing.assert_close(weights, torch.tensor(expected), rtol=1e-3, atol=0)


# pytorch-metric-learning


class NTXentLoss(LabelledLoss):
    """Its wrappers accept a loss by the name of its class."""


def at_angles(degrees, dtype, scale=(1.0, 1.0)):
    """Return points at angles on the unit circle, or on an ellipse."""
    turns = np.radians(degrees)
    points = np.stack((scale[0] * np.cos(turns), scale[1] * np.sin(turns)), axis=-1)
    return torch.tensor(points, dtype=dtype).requires_grad_()


ELLIPSE = (2.0, 0.5)


def of_pairs(anchors, keys, indices, temperature=0.1):
    """NT-Xent, averaged over listed pairs: the denominator holds the pair and the negatives that
    are listed for its anchor.
    """
    rows, positives, of_negatives, negatives = indices
    anchors, keys = normalize(anchors.double(), dim=-1), normalize(keys.double(), dim=-1)
    e = torch.exp(anchors @ keys.mT / temperature)
    mass = torch.zeros(len(anchors), dtype=torch.float64)
    mass = mass.index_add(0, of_negatives, e[of_negatives, negatives])
    return torch.log1p(mass[rows] / e[rows, positives]).sum() / max(len(rows), 1)


def pairs_of(labels, of_keys=None):
    """Return all pairs of equal labels, but not of one sample, and all of different labels."""
    same = labels[:, None] == (labels if of_keys is None else of_keys)
    positive = same.clone().fill_diagonal_(False) if of_keys is None else same
    return (*positive.nonzero().T, *(~same).nonzero().T)


def assert_close(actual, expected, rtol=1e-5):
    torch.testing.assert_close(actual.double(), expected, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_references", [False, True])
def test_labelled_embeddings_of_each_precision(dtype, with_references):
    """tests/losses/test_ntxent_loss.py: test_ntxent_loss and test_ntxent_loss_with_ref."""
    loss = LabelledLoss(Uncorrected(), 0.1)
    if with_references:
        embeddings, references = normalize(draws(139, 4, 32)), normalize(draws(140, 3, 32))
        embeddings, references = embeddings.to(dtype), references.to(dtype)
        positives = [(0, 0), (1, 0), (2, 1), (3, 1)]
        negatives = [(0, 1), (0, 2), (1, 1), (1, 2), (2, 0), (2, 2), (3, 0), (3, 2)]
        labels = torch.tensor([0, 0, 1, 1]), None, references, torch.tensor([0, 1, 2])
    else:
        embeddings = references = at_angles([0, 10, 20, 50, 60, 80], dtype)
        positives = [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (3, 4), (4, 3)]
        negatives = [(i, j) for i in range(3) for j in (3, 4, 5)]
        negatives += [(i, j) for i in (3, 4) for j in (0, 1, 2, 5)]
        negatives += [(5, j) for j in range(5)]
        labels = (torch.tensor([0, 0, 0, 1, 1, 2]),)
    indices = (*torch.tensor(positives).T, *torch.tensor(negatives).T)
    expected = of_pairs(embeddings, references, indices).detach()
    assert_close(loss(embeddings, *labels).detach(), expected)
    assert_close(loss(embeddings, None, indices, references).detach(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("degrees", "labels"),
    [([0], [0]), ([0, 10, 20], [0, 0, 0]), ([0, 40, 60], [1, 2, 3])],
    ids=["one sample", "one class", "all different"],
)
def test_without_positives_or_negatives_the_loss_and_its_gradient_are_0(dtype, degrees, labels):
    """tests/losses/test_ntxent_loss.py: test_with_no_valid_pairs."""
    for estimator in (Uncorrected(), Debiased(0.1)):
        embeddings = at_angles(degrees, dtype, ELLIPSE)
        value = LabelledLoss(estimator, 0.1)(embeddings, torch.tensor(labels))
        value.backward()
        assert value == 0
        assert torch.equal(embeddings.grad, torch.zeros_like(embeddings))


@pytest.mark.parametrize("dtype", DTYPES)
def test_labelled_embeddings_have_gradients_in_their_precision(dtype):
    """tests/losses/test_ntxent_loss.py: test_backward."""
    embeddings = at_angles([0, 20, 40, 60, 80], dtype, ELLIPSE)
    labels = torch.tensor([0, 0, 1, 1, 2])
    LabelledLoss(Uncorrected(), 0.1)(embeddings, labels).backward()
    exact = embeddings.detach().double().requires_grad_()
    of_pairs(exact, exact, pairs_of(labels)).backward()
    assert embeddings.grad.dtype == dtype
    rtol, atol = (1e-2, 1e-2) if dtype == torch.float16 else (1e-4, 1e-5)
    torch.testing.assert_close(embeddings.grad.double(), exact.grad, rtol=rtol, atol=atol)


@pytest.fixture(scope="module")
def metric_learning():
    reason = "gives our loss to pytorch-metric-learning's wrappers and miners"
    pytest.importorskip("pytorch_metric_learning", reason=reason)
    from pytorch_metric_learning import losses, miners

    return losses, miners


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("symmetric", [True, False])
def test_two_views_inside_of_self_supervised_loss(metric_learning, dtype, symmetric):
    """tests/losses/test_self_supervised_loss.py: test_ssl_wrapper_all, for NTXentLoss and
    SupConLoss.
    """
    z1, z2 = (normalize(draws(seed, 100, 256)).to(dtype) for seed in (0, 1))
    labels = torch.arange(100)
    wrapped = metric_learning[0].SelfSupervisedLoss(
        NTXentLoss(Uncorrected(), 0.07), symmetric=symmetric
    )
    both = torch.cat((z1, z2))
    if symmetric:
        expected = of_pairs(both, both, pairs_of(labels.repeat(2)), 0.07)
        assert_close(SupConLoss(0.07)(z1, z2, labels=labels), expected)
    else:
        expected = of_pairs(z1, z2, pairs_of(labels, labels), 0.07)
    assert_close(wrapped(z1, z2), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("mined", [False, True])
def test_a_memory_of_one_batch_is_no_memory(metric_learning, dtype, masked, mined):
    """tests/losses/test_cross_batch_memory.py: test_sanity_check, with and without a miner of
    triplets.
    """
    losses, miners = metric_learning
    miner = miners.TripletMarginMiner(margin=0.1) if mined else None
    for size in range(20, 40, 5):
        memory = losses.CrossBatchMemory(
            NTXentLoss(Uncorrected(), 0.1), 128, memory_size=size, miner=miner
        )
        for batch in range(3):
            embeddings = draws(batch, (1 + masked) * size, 128, dtype=dtype)
            labels = draws(batch + 9, len(embeddings)).abs().mul(3).long().clamp(max=3)
            into_memory = torch.arange(len(embeddings)) >= size if masked else None
            anchors, keys = (embeddings[:size], embeddings[size:]) if masked else [embeddings] * 2
            of_keys = labels[size:] if masked else None
            indices = pairs_of(labels[:size], of_keys)
            if mined:
                further = (keys, of_keys) if masked else ()
                rows, own, other = miner(anchors, labels[:size], *further)
                indices = rows, own, rows, other
            value = memory(embeddings, labels, enqueue_mask=into_memory)
            assert_close(value, of_pairs(anchors, keys, indices))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mined", [False, True])
def test_a_memory_of_several_batches_adds_their_pairs(metric_learning, dtype, mined):
    """tests/losses/test_cross_batch_memory.py: test_all_losses and test_loss, for NTXentLoss. The
    pairs that are passed are listed a second time.
    """
    losses, miners = metric_learning
    memory = losses.CrossBatchMemory(NTXentLoss(Uncorrected(), 0.07), 128, memory_size=321)
    everyone, all_labels = torch.empty(0, 128, dtype=dtype), torch.empty(0, dtype=torch.int64)
    for batch in range(10):
        embeddings = draws(batch, 32, 128, dtype=dtype)
        labels = draws(batch + 20, 32).abs().mul(5).long()
        everyone, all_labels = torch.cat((everyone, embeddings)), torch.cat((all_labels, labels))
        rows, own, of_negatives, other = pairs_of(labels, all_labels)
        is_other = own != rows + 32 * batch
        indices = rows[is_other], own[is_other], of_negatives, other
        chosen = miners.MultiSimilarityMiner(0.2)(embeddings, labels) if mined else None
        if mined:
            indices = [torch.cat(parts) for parts in zip(indices, chosen, strict=True)]
        value = memory(embeddings, labels, chosen)
        assert_close(value, of_pairs(embeddings, everyone, indices, 0.07))


def test_a_memory_with_a_miner_that_draws_triplets_has_gradients(metric_learning):
    """tests/losses/test_cross_batch_memory.py: test_with_distance_weighted_miner."""
    losses, miners = metric_learning
    torch.manual_seed(0)
    memory = losses.CrossBatchMemory(
        NTXentLoss(Uncorrected(), 0.1),
        2,
        memory_size=256,
        miner=miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=1.4),
    )
    for _ in range(20):
        embeddings = at_angles(range(32), torch.float32, ELLIPSE)
        value = memory(embeddings, torch.randint(10, (32,)))
        value.backward()
        assert value > 0
        assert embeddings.grad.isfinite().all()
        assert embeddings.grad.any()


def test_pairs_and_triplets_of_miners_need_no_labels(metric_learning):
    """tests/losses/test_losses_without_labels.py: test, for NTXentLoss."""
    _, miners = metric_learning
    embeddings, labels = draws(0, 32, 32), draws(1, 32).abs().mul(5).long()
    loss = LabelledLoss(Uncorrected(), 0.07)
    triplets = miners.TripletMarginMiner()(embeddings, labels)
    assert len(triplets) == 3
    mined = miners.MultiSimilarityMiner()(embeddings, labels)
    for indices in (pairs_of(labels), mined, triplets):
        value = loss(embeddings, labels, indices)
        assert torch.equal(loss(embeddings, indices_tuple=indices), value)
        torch.testing.assert_close(loss(embeddings, None, indices, embeddings), value)
        listed = indices if len(indices) == 4 else (*indices[:2], *indices[::2])
        assert_close(value, of_pairs(embeddings, embeddings, listed, 0.07))


# OpenCLIP


def images_and_texts(count):
    """Return unit vectors, a logit scale of 10 and a bias of −10."""
    generator = torch.Generator().manual_seed(0)
    image, text = (normalize(torch.randn(count, 32, generator=generator)) for _ in range(2))
    return image, text, torch.tensor(10.0), torch.tensor(-10.0)


def of_classified_pairs(image, text, scale, bias, negative_only=False):
    """The sum over all pairs, divided by the number of images."""
    logits = scale.double() * image.double() @ text.double().mT + bias.double()
    labels = -torch.ones_like(logits)
    if not negative_only:
        labels.fill_diagonal_(1.0)
    return torch.log1p(torch.exp(-labels * logits)).sum() / len(image)


@pytest.mark.parametrize(
    ("count", "chunk_size"), [(64, 64), (64, 32), (64, 8), (64, 1), (70, 8), (32, None)]
)
def test_sigmoid_losses_in_chunks(count, chunk_size):
    """tests/test_siglip_chunked_loss.py: values and gradients, with and without negative_only,
    which is the loss for the texts of another process: here, a queue.
    """
    image, text, scale, bias = images_and_texts(count)
    image.requires_grad_()
    loss = OpenClipLoss(Sigmoid(), chunk_size=chunk_size)
    value = loss(image, text, scale, bias)
    expected = of_classified_pairs(image, text, scale, bias)
    assert_close(value, expected)
    found, wanted = (book.gradients(each, [image])[0] for each in (value, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    images = CrossModalLoss(Sigmoid(), "image", chunk_size=chunk_size)
    with_queue = images.of_features(text, image, scale, queue=(None, text), logit_bias=bias).loss
    of_others = of_classified_pairs(image, text, scale, bias, negative_only=True)
    assert of_others > 0.001
    assert_close(with_queue, expected + of_others)


# sentence-transformers


class Letters(nn.Module):
    """Embeds the letters of texts; called like a model of sentence-transformers. Like old versions
    of its modules, it takes prompts out of the mask in place.
    """

    def __init__(self, dropout=0.0, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.letters = nn.Embedding(128, 16, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(16, 8, dtype=dtype)
        self.embedded = []

    def preprocess(self, texts):
        width = max(map(len, texts))
        ids = torch.tensor([[ord(letter) for letter in text.ljust(width)] for text in texts])
        mask = torch.tensor([[place < len(text) for place in range(width)] for text in texts])
        return {"input_ids": ids, "attention_mask": mask.long()}

    def forward(self, features):
        mask = features["attention_mask"]
        mask[:, : features.get("prompt_length", 0)] = 0
        letters = self.dropout(self.letters(features["input_ids"])) * mask[..., None]
        mean = letters.sum(1) / mask.sum(1, keepdim=True)
        self.embedded.append(mean.detach().clone())
        features["sentence_embedding"] = self.dense(mean.tanh()).tanh()
        return features

    def columns(self, *columns):
        return [self.preprocess(list(texts)) for texts in columns]


def letters_of(name, count):
    return [f"{name} {letter}" for letter in "abcdefg"[:count]]


def gradients_of(value, model):
    model.zero_grad()
    value.backward()
    return [each.grad.clone() for each in model.parameters()]


def assert_same_training(model, one, other):
    """Compare two values and their gradients, which are not all 0."""
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    found, wanted = gradients_of(one, model), gradients_of(other, model)
    assert any(each.any() for each in wanted)
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-12)


def cosines(model, one, other):
    units = (
        normalize(model(model.preprocess(texts))["sentence_embedding"], dim=-1)
        for texts in (one, other)
    )
    return next(units) @ next(units).mT


def cross_entropy(logits):
    """The mean over rows; the positives stand on the diagonal."""
    return functional.cross_entropy(logits, torch.arange(len(logits)))


TRIPLES = (
    ["aaa", "bbb", "ccc", "ddd", "eee"],
    ["aas", "bbs", "ccs", "dds", "ees"],
    ["xxx", "yyy", "zzz", "kkk", "fff"],
)
OTHERS = (["adsa", "czx", "dsada"], ["b", "fas", "xcz"], ["c", "yyy", "asdas"])


@pytest.mark.parametrize("factor", [1.0, 1000.0])
def test_mini_batches_of_triples_have_the_loss_of_the_batch(factor):
    """tests/sentence_transformer/losses/test_cmnrl.py: test_cmnrl_same_grad, also with the factor
    of automatic mixed precision, and with other texts.
    """
    model = Letters()
    in_parts = RankingLoss(model, Uncorrected(), mini_batch_size=2)
    value = factor * in_parts(model.columns(*TRIPLES))
    queries, positives, negatives = TRIPLES
    expected = factor * cross_entropy(20 * cosines(model, queries, positives + negatives))
    assert_same_training(model, value, expected)
    assert_same_training(
        model,
        factor * in_parts(model.columns(*TRIPLES)),
        factor * RankingLoss(model, Uncorrected())(model.columns(*TRIPLES)),
    )
    of_others = RankingLoss(model, Uncorrected())(model.columns(*OTHERS))
    assert (factor * of_others).item() != pytest.approx(expected.item(), rel=1e-3)


def three_directions(model, anchors, positives):
    """Return the logits of anchors and positives, anchors and anchors, positives and positives."""
    itself = torch.eye(len(anchors), dtype=torch.bool)
    further = [
        (20 * cosines(model, texts, texts)).masked_fill(itself, -math.inf)
        for texts in (anchors, positives)
    ]
    return torch.cat((20 * cosines(model, anchors, positives), *further), dim=1)


def of_configuration(model, name, anchors, positives):
    s = cosines(model, anchors, positives)
    if name == "symmetric":
        return (cross_entropy(50 * s) + cross_entropy(50 * s.mT)) / 2
    if name == "joint":
        return cross_entropy(three_directions(model, anchors, positives))
    strength = {"in_batch": 9.0, "all": 5.0}.get(name, 0.0)
    off_diagonal = 1 - torch.eye(len(s), dtype=torch.float64)
    return cross_entropy(20 * s + strength * s.detach() * off_diagonal)


@pytest.mark.parametrize("count", [5, 7])
@pytest.mark.parametrize("size", [2, 3, 50])
@pytest.mark.parametrize(
    ("name", "estimator", "options"),
    [
        ("plain", Uncorrected(), {}),
        ("symmetric", Uncorrected(), {"scale": 50.0, "contrast": "symmetric"}),
        ("joint", Uncorrected(), {"contrast": "joint"}),
        ("in_batch", HardnessWeighted(9.0, scope="in_batch"), {}),
        ("all", HardnessWeighted(5.0, scope="all"), {}),
    ],
    ids=["plain", "symmetric", "joint", "in_batch", "all"],
)
def test_mini_batches_of_each_configuration(name, estimator, options, count, size):
    """tests/sentence_transformer/losses/test_gradcache.py: test_cached_mnrl_matches_mnrl, and
    test_cached_mnsrl.py: test_cached_symmetric_matches_symmetric.
    """
    model = Letters()
    texts = letters_of("anchor", count), letters_of("positive", count)
    loss = RankingLoss(model, estimator, **options, mini_batch_size=size)
    assert_same_training(model, loss(model.columns(*texts)), of_configuration(model, name, *texts))


TWO_COLUMNS = letters_of("anchor", 7), letters_of("positive", 7)


def test_mini_batches_are_embedded_again_with_the_same_dropout():
    """tests/sentence_transformer/losses/test_gradcache.py:
    test_gradcache_replays_dropout_in_the_backward_pass, and test_cached_gist_embed.py.
    """
    for estimator in (Uncorrected(), Guided()):
        model = Letters(dropout=0.3).train()
        value = RankingLoss(model, estimator, mini_batch_size=3)(model.columns(*TWO_COLUMNS))
        first, model.embedded = model.embedded, []
        value.backward()
        assert len(first) == len(model.embedded) == 6
        for each in first:
            assert sum(each.equal(again) for again in model.embedded) == 1


@pytest.mark.parametrize("estimator", [Uncorrected(), Guided()], ids=["mnrl", "gist"])
def test_two_calls_before_one_backward_pass(estimator):
    """tests/sentence_transformer/losses/test_gradcache.py:
    test_gradcache_two_forwards_before_one_backward, and test_cached_gist_embed.py.
    """
    model = Letters()
    batches = [[each[part] for each in TWO_COLUMNS] for part in (slice(0, 4), slice(3, 7))]

    def several(*losses):
        pairs = zip(losses, batches, strict=True)
        return sum(loss(model.columns(*texts)) for loss, texts in pairs)

    shared = RankingLoss(model, estimator, mini_batch_size=2)
    whole = [RankingLoss(model, estimator) for _ in batches]
    assert_same_training(model, several(shared, shared), several(*whole))


@pytest.mark.parametrize("steps", [2, 4])
def test_mini_batches_scale_with_the_outer_gradient(steps):
    """tests/sentence_transformer/losses/test_gradcache.py:
    test_gradcache_scales_with_the_outer_backward.
    """
    model = Letters()
    loss = RankingLoss(model, Uncorrected(), mini_batch_size=2)
    texts = [each[:6] for each in TWO_COLUMNS]
    whole, parts = (
        gradients_of(loss(model.columns(*texts)) / number, model) for number in (1, steps)
    )
    assert any(each.any() for each in whole)
    torch.testing.assert_close([each / steps for each in whole], parts, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("training", [True, False])
def test_mini_batches_without_gradients(training):
    """tests/sentence_transformer/losses/test_gradcache.py: test_gradcache_under_no_grad."""
    model = Letters().train(training)
    texts = [each[:6] for each in TWO_COLUMNS]
    with torch.no_grad():
        value = RankingLoss(model, Uncorrected(), mini_batch_size=2)(model.columns(*texts))
        torch.testing.assert_close(value, cross_entropy(20 * cosines(model, *texts)))


def test_mini_batches_under_autocast_have_a_loss_in_float32_and_finite_gradients():
    """tests/sentence_transformer/losses/test_gradcache.py: test_gradcache_under_autocast; there,
    the loss is in bfloat16.
    """
    model = Letters(dtype=torch.float32)
    texts = [each[:6] for each in TWO_COLUMNS]
    loss = RankingLoss(model, Uncorrected(), mini_batch_size=2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(model.columns(*texts))
        assert model(model.columns(*texts)[0])["sentence_embedding"].dtype == torch.bfloat16
    assert value.dtype == torch.float32
    found = gradients_of(value, model)
    assert all(each.isfinite().all() for each in found)
    assert any(each.any() for each in found)


def test_features_are_released_with_the_loss():
    """tests/sentence_transformer/losses/test_gradcache.py:
    test_gradcache_backward_releases_the_hook_state.
    """
    model = Letters()
    loss = RankingLoss(model, Uncorrected(), mini_batch_size=3)
    columns = model.columns(*(each[:4] for each in TWO_COLUMNS))
    alive = [weakref.ref(each) for features in columns for each in features.values()]
    value = loss(columns)
    value.backward()
    kept = value.detach()
    del columns, value
    gc.collect()
    assert not any(each() is not None for each in alive)
    assert kept.isfinite()


VARIED = (
    ["a", "anchor b with quite a few more words in it", "c and d", "final anchor sentence"],
    ["short", "positive b also has a longer surface form here", "p", "another positive text"],
)


@pytest.mark.parametrize("size", [None, 2])
def test_prompts_are_left_out_in_mini_batches_and_in_repeated_calls(size):
    """tests/sentence_transformer/losses/test_gradcache.py:
    test_gradcache_replays_through_prompt_exclusion, and test_merged_forward.py:
    test_gist_embed_repeated_calls_with_the_same_dicts_match. The prompt has two letters.
    """
    model = Letters()
    columns = model.columns(*(["ab" + text for text in texts] for texts in VARIED))
    for features in columns:
        features["prompt_length"] = 2
    expected = cross_entropy(20 * cosines(model, *VARIED))
    loss = RankingLoss(model, Uncorrected(), mini_batch_size=size)
    assert_same_training(model, loss(columns), expected)
    guided = RankingLoss(model, Guided(), mini_batch_size=size)
    torch.testing.assert_close(guided(columns), guided(columns), rtol=0, atol=0)
    assert guided(columns) <= expected


def test_settings_can_be_read_changed_and_are_checked():
    """tests/sentence_transformer/losses/test_cmnrl.py:
    test_cmnrl_attributes_and_config_back_compat and test_cmnrl_hyperparameters_stay_assignable.
    """
    model = Letters()
    estimator = HardnessWeighted(9.0, scope="in_batch")
    loss = RankingLoss(model, estimator, 42.0, contrast="symmetric", mini_batch_size=4)
    settings = loss.get_config_dict()
    expected = {"scale": 42.0, "mini_batch_size": 4, "contrast": "symmetric"}
    assert expected.items() <= settings.items()
    assert settings["estimator"] == repr(estimator)
    assert not settings["gather_distributed"]
    with pytest.raises(ValueError, match="scale is -1"):
        RankingLoss(model, Uncorrected(), -1.0)
    loss = RankingLoss(model, Uncorrected())
    loss.scale = 5.0
    expected = cross_entropy(5 * cosines(model, *TWO_COLUMNS))
    torch.testing.assert_close(loss(model.columns(*TWO_COLUMNS)), expected)


def embedded(features):
    """A model whose features are the embeddings."""
    return {"sentence_embedding": features["embedding"]}


def guided_loss(anchors, positives, estimator, size=None, **options):
    columns = [{"embedding": each} for each in (anchors, positives)]
    options = {"same_text": False, "mini_batch_size": size} | options
    return RankingLoss(embedded, estimator, 100.0, **options)(columns)


@pytest.mark.parametrize("size", [None, 2, 32])
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_a_guide_keeps_the_positives_of_the_second_of_two_processes(size, margin):
    """tests/sentence_transformer/losses/test_gist_embed.py and test_cached_gist_embed.py:
    test_gather_rank1_positive_not_masked_with_margin, test_gather_rank1_margin_zero_baseline and
    test_positive_mask_protects_ce_target_column.

    The batches of both are given to one process, which tests/losses/test_distributed.py compares
    with two.
    """
    generator = torch.Generator().manual_seed(7)
    first = draws(1234, 3, 16)
    anchors, positives = (
        torch.cat((first, torch.randn(3, 16, generator=generator))) for _ in range(2)
    )
    loss = guided_loss(anchors, positives, Guided(margin), size, contrast="joint", reduction="none")
    a, c = normalize(anchors.double(), dim=-1), normalize(positives.double(), dim=-1)
    numbers = []
    for i in range(3, 6):
        others = [j for j in range(6) if j != i]
        near = torch.cat((c[others] @ a[i], a[others] @ a[i], c[others] @ c[i]))
        positive = a[i] @ c[i]
        kept = near[near <= positive - margin]
        numbers.append(len(kept))
        expected = torch.log1p(torch.exp(100 * (kept - positive)).sum())
        torch.testing.assert_close(loss[i].double(), expected, rtol=1e-4, atol=1e-4)
    assert 0 < sum(numbers) < 3 * 15


@pytest.mark.parametrize("size", [None, 32])
def test_a_relative_margin_removes_what_is_nearer_than_a_negative_positive(size):
    """tests/sentence_transformer/losses/test_gist_embed.py and test_cached_gist_embed.py:
    test_relative_margin_negative_positive_score_suppresses_closer_negative.
    """
    anchor = torch.tensor([1.0, 0.0, 0.0])
    far = torch.tensor([-0.50, math.sqrt(1 - 0.50**2), 0.0])
    nearer = torch.tensor([-0.49, 0.0, math.sqrt(1 - 0.49**2)])
    views = torch.stack((anchor, nearer)), torch.stack((far, nearer))
    removed = guided_loss(*views, Guided(0.05, strategy="relative"), size, reduction="none")
    assert removed[0] == 0
    assert removed.isfinite().all()
    plain = guided_loss(*views, Uncorrected(), size, reduction="none")
    assert plain[0].item() == pytest.approx(math.log(1 + math.e), rel=1e-4)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("size", [2, 3])
def test_mini_batches_with_the_model_as_guide(columns, size):
    """tests/sentence_transformer/losses/test_cached_gist_embed.py: test_cached_gist_matches_gist.

    The reference has no contrasts of anchors with anchors, nor of positives with positives.
    """
    model = Letters()
    texts = [letters_of(name, 5) for name in ("anchor", "positive", "negative")[:columns]]
    cosine = cosines(model, texts[0], [text for column in texts[1:] for text in column])
    is_near = cosine > cosine.diagonal()[:, None]
    assert is_near.any()
    expected = cross_entropy((100 * cosine).masked_fill(is_near, -math.inf))
    loss = RankingLoss(model, Guided(), 100.0, mini_batch_size=size)
    assert_same_training(model, loss(model.columns(*texts)), expected)


# What differs on purpose


def test_lightlys_expected_weights_are_those_of_its_earlier_decoupled_loss():
    """tests/utils/test_dist__gather__losses.py: test_loss_dcl."""
    expected = [0.1484, 0.2335, 0.3185, 0.4036, 0.4886], [0.6198, 0.7093, 0.7988, 0.8884, 0.9779]
    earlier = trained(lambda z1, z2: decoupled(z1, z2, 0.1, apart=True))
    torch.testing.assert_close(earlier, torch.tensor(expected), rtol=1e-3, atol=0)
    ours = trained(ContrastiveLoss(Uncorrected(), 0.1, decoupled=True))
    wanted = trained(lambda z1, z2: decoupled(z1, z2, 0.1))
    torch.testing.assert_close(ours, wanted, rtol=1e-3, atol=0)
    assert (ours - earlier).abs().max() > 0.1


def test_lightlys_negative_temperature_is_refused():
    """tests/loss/test_ntx_ent_loss.py: test_forward_pass_neg_temp."""
    with pytest.raises(ValueError, match=r"temperature is -1"):
        ContrastiveLoss(Uncorrected(), -1.0)


def test_gathering_without_processes_is_the_loss_of_one(monkeypatch):
    """tests/loss/test_ntx_ent_loss.py and test_dcl_loss.py:
    test__gather_distributed_dist_not_available; lightly raises an error.
    """
    monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
    z1, z2 = draws(0, 2, 4, 8)
    values = [
        ContrastiveLoss(Uncorrected(), gather_distributed=gathers)(z1, z2)
        for gathers in (False, True)
    ]
    assert torch.equal(*values)


def test_labelled_losses_are_of_cosines_averaged_over_pairs_and_never_in_half_precision():
    """tests/losses/test_ntxent_loss.py: the variants with LpDistance, with PerAnchorReducer, and
    SupConLoss of embeddings with labels; there, the loss has the precision of the embeddings.
    """
    for option in ("distance", "reducer"):
        with pytest.raises(TypeError, match=option):
            LabelledLoss(Uncorrected(), 0.1, **{option: None})
    embeddings = at_angles([0, 10, 20, 50, 60, 80], torch.float16)
    labels = torch.tensor([0, 0, 0, 1, 1, 2])
    assert LabelledLoss(Uncorrected(), 0.1)(embeddings, labels).dtype == torch.float32
    with pytest.raises(ValueError, match="z2 is missing"):
        SupConLoss(0.1)(embeddings, labels=labels)


def test_no_chunks_are_none_instead_of_0():
    """tests/test_siglip_chunked_loss.py: test_chunk_size_zero_skips_chunked_path."""
    with pytest.raises(ValueError, match="chunk_size is 0"):
        OpenClipLoss(Sigmoid(), chunk_size=0)


def test_joint_contrasts_have_no_other_queries_of_a_document_and_mini_batches_count_texts():
    """tests/sentence_transformer/losses/test_gradcache.py: test_cached_mnrl_matches_mnrl with four
    directions, and the tests of mini_batch_num_tokens.
    """
    model = Letters()
    s = 20 * cosines(model, *TWO_COLUMNS)
    three = RankingLoss(model, Uncorrected(), contrast="joint")(model.columns(*TWO_COLUMNS))
    of_queries = s.mT.masked_fill(torch.eye(7, dtype=torch.bool), -math.inf).logsumexp(1)
    log_sums = three_directions(model, *TWO_COLUMNS).logsumexp(1)
    four = (log_sums.logaddexp(of_queries) - s.diagonal()).mean()
    torch.testing.assert_close(three, (log_sums - s.diagonal()).mean())
    assert four > three + 0.01
    with pytest.raises(TypeError, match="mini_batch_num_tokens"):
        RankingLoss(model, Uncorrected(), mini_batch_num_tokens=16)


@pytest.mark.parametrize("images", [[2, 1, 0, 0], [2, 1, 0]])
def test_batches_with_images_of_some_texts_are_not_split(images):
    """tests/sentence_transformer/losses/test_cmnrl.py: TestCreateMinibatchMixedModality; the
    second batch has as many images as texts.
    """
    count = len(images)
    features = {
        "input_ids": torch.ones(count, 46, dtype=torch.int64),
        "attention_mask": torch.ones(count, 46, dtype=torch.int64),
        "pixel_values": torch.zeros(104, 16),
        "image_grid_thw": torch.tensor([[1, 4, 4], [1, 8, 8], [1, 4, 6]]),
        "num_images_per_sample": torch.tensor(images),
    }
    loss = RankingLoss(Letters(), Uncorrected(), same_text=False, mini_batch_size=2)
    with pytest.raises(ValueError, match=r"pixel_values \(104, 16\).*mini_batch_size=None"):
        loss([features, features])
