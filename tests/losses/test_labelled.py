"""The call of pytorch-metric-learning: equal to its own losses, and inside of its wrappers."""

import pytest
import torch

from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    HardNegative,
    Oracle,
    Quantile,
    Sigmoid,
    Uncorrected,
)
from trueneg.losses.adapters import LabelledLoss

get_all_pairs_indices = pytest.importorskip(
    "pytorch_metric_learning.utils.loss_and_miner_utils", reason="its pairs are compared"
).get_all_pairs_indices
pml = pytest.importorskip(
    "pytorch_metric_learning.losses", reason="compares with pytorch-metric-learning's own losses"
)
LABELS = torch.arange(12) % 4


class NTXentLoss(LabelledLoss):
    """The wrappers accept a loss by the name of its class."""


def draws(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def assert_same(actual, expected, inputs):
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(
        torch.autograd.grad(actual, inputs), torch.autograd.grad(expected, inputs)
    )


@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_it_equals_their_loss(temperature):
    embeddings, references = draws(0, 12, 8), draws(1, 7, 8)
    ours, theirs = LabelledLoss(Uncorrected(), temperature), pml.NTXentLoss(temperature)
    assert_same(ours(embeddings, LABELS), theirs(embeddings, LABELS), [embeddings])
    with_references = {"ref_emb": references, "ref_labels": torch.arange(7) % 4}
    assert_same(
        ours(embeddings, LABELS, **with_references),
        theirs(embeddings, LABELS, **with_references),
        [embeddings, references],
    )
    other_views = {"ref_emb": draws(2, 12, 8), "ref_labels": LABELS}
    assert_same(
        ours(embeddings, LABELS, **other_views),
        theirs(embeddings, LABELS, **other_views),
        [embeddings, other_views["ref_emb"]],
    )
    pairs = (
        torch.tensor([0, 1]),
        torch.tensor([4, 9]),
        torch.tensor([0, 0, 1]),
        torch.tensor([1, 2, 3]),
    )
    assert_same(ours(embeddings, LABELS, pairs), theirs(embeddings, LABELS, pairs), [embeddings])


@pytest.mark.parametrize(
    "estimator", [Uncorrected(), Debiased(0.1), HardNegative(1.0, 0.1)], ids=repr
)
def test_views_of_samples_are_those_of_the_loss_of_two_views(estimator):
    z1, z2 = draws(0, 6, 8), draws(1, 6, 8)
    wrapped = pml.SelfSupervisedLoss(NTXentLoss(estimator, 0.3))
    assert_same(wrapped(z1, z2), ContrastiveLoss(estimator, 0.3)(z1, z2), [z1, z2])


def test_a_memory_gives_the_same_losses_as_with_their_own():
    ours, theirs = (
        pml.CrossBatchMemory(loss, 8, memory_size=20)
        for loss in (NTXentLoss(Uncorrected(), 0.3), pml.NTXentLoss(0.3))
    )
    for update in range(4):
        embeddings = draws(update, 12, 8).float()
        torch.testing.assert_close(ours(embeddings, LABELS), theirs(embeddings, LABELS))


def test_without_a_positive_pair_the_loss_is_0_with_a_gradient():
    embeddings = draws(0, 3, 4)
    value = LabelledLoss(Debiased(0.1))(embeddings, torch.arange(3))
    assert value.item() == 0
    (gradient,) = torch.autograd.grad(value, embeddings)
    assert torch.equal(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("estimator", [Oracle(), Sigmoid()], ids=["Oracle", "Sigmoid"])
def test_an_estimator_that_needs_more_is_refused(estimator):
    with pytest.raises(ValueError, match="needs more than embeddings and labels"):
        LabelledLoss(estimator)


def test_unknown_labels_are_no_class_and_eta_is_passed_by_name():
    embeddings = draws(0, 6, 4)
    eta = torch.linspace(0, 0.3, 6, dtype=torch.float64)
    loss = LabelledLoss(Debiased(), 0.5)
    unknown, alone = (
        loss(embeddings, torch.tensor(labels), class_probability=eta)
        for labels in ([-1, -1, 0, 0, 1, 1], [2, 3, 0, 0, 1, 1])
    )
    assert_same(unknown, alone, [embeddings])
    assert 0 <= loss.share_at_bound <= 1
    given = LabelledLoss(Debiased(eta), 0.5)(embeddings, torch.tensor([-1, -1, 0, 0, 1, 1]))
    torch.testing.assert_close(given, unknown)
    plain = LabelledLoss(Uncorrected(), 0.5)
    with pytest.raises(ValueError, match=r"class_probability.*Uncorrected"):
        plain(embeddings, LABELS[:6], class_probability=eta)
    ignored = plain(embeddings, LABELS[:6], class_probability=eta, unused="ignore")
    torch.testing.assert_close(ignored, plain(embeddings, LABELS[:6]))


def test_unknown_labels_are_no_class_of_a_miner_or_a_memory():
    """Both are called with the labels that the loss gets, so that −1 is a class to them."""
    labels = torch.tensor([0, 0, 1, 1, -1, -1, -1, 2])
    alone = torch.tensor([0, 0, 1, 1, 4, 5, 6, 2])
    embeddings, loss = draws(0, 8, 8), LabelledLoss(Debiased(0.1), 0.5)
    mined = loss(embeddings, labels, get_all_pairs_indices(labels))
    assert_same(mined, loss(embeddings, alone), [embeddings])
    memories = [pml.CrossBatchMemory(NTXentLoss(Debiased(0.1), 0.5), 8, 16) for _ in range(2)]
    for update in range(3):
        inputs = draws(update, 8, 8).float()
        never_again = torch.where(labels < 0, alone + 10 * (update + 1), labels)
        torch.testing.assert_close(memories[0](inputs, labels), memories[1](inputs, never_again))


def test_every_call_logs_and_remembers():
    """Also those that return the terms."""
    text, image = (torch.nn.functional.normalize(draws(seed, 4, 3), dim=1) for seed in (0, 1))
    loss = CrossModalLoss(Quantile(0.3))
    terms = loss.of_features(text, image, 5.0, hard_negatives=image[:2])
    removed, logits = terms.removed[0], terms.logits[0]
    valid = ~logits.isneginf()
    expected = (removed & valid).sum(1) / valid.sum(1)
    torch.testing.assert_close(terms.share_removed()[:4].double(), expected.double())
    assert loss.share_of_hard_removed.item() == terms.removed_hard.nanmean().item()
    assert loss.share_at_bound == 0
