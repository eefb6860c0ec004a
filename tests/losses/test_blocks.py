"""Losses in chunks: gradients of all inputs, and consistent forward and backward passes."""

import pytest
import torch

from tests.losses.test_contrastive import draw
from trueneg.losses import ContrastiveLoss, CrossModalLoss, Debiased, RelaxedContrastiveLoss


def test_chunks_give_a_learned_class_probability_the_same_gradient():
    z1, z2, _ = draw(1, 7, 5)
    eta = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    expected = torch.autograd.grad(ContrastiveLoss(Debiased(eta))(z1, z2), eta)
    own = torch.autograd.grad(ContrastiveLoss(Debiased(eta), chunk_size=4)(z1, z2), eta)
    given = torch.autograd.grad(
        ContrastiveLoss(Debiased(), chunk_size=4)(z1, z2, class_probability=eta), eta
    )
    torch.testing.assert_close(own, expected)
    torch.testing.assert_close(given, expected)


@pytest.mark.parametrize("chunk_size", [None, 4])
def test_a_class_probability_per_sample_may_be_the_estimators_own(chunk_size):
    z1, z2, _ = draw(4, 7, 5)
    eta = 0.3 * torch.rand(7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    views, pairs = (
        loss(Debiased(), chunk_size=chunk_size) for loss in (ContrastiveLoss, CrossModalLoss)
    )
    expected = views(z1, z2, class_probability=eta)
    for own in (eta, eta.repeat(2)):
        assert torch.equal(ContrastiveLoss(Debiased(own), chunk_size=chunk_size)(z1, z2), expected)
    own = CrossModalLoss(Debiased(eta), chunk_size=chunk_size).of_features(z1, z2, 3.0).loss
    assert torch.equal(own, pairs.of_features(z1, z2, 3.0, class_probability=eta).loss)
    with pytest.raises(ValueError, match=r"class_probability has shape \(6,\); expected \(7,\)"):
        ContrastiveLoss(Debiased(eta[:6]), chunk_size=chunk_size)(z1, z2)


def test_chunks_keep_the_gradient_of_the_bound():
    text, image, _ = draw(2, 7, 5)
    scale = torch.tensor(9.0, dtype=torch.float64, requires_grad=True)
    gradients = []
    for chunk_size in (None, 3):
        loss = CrossModalLoss(Debiased(0.3), bound_gradient=True, chunk_size=chunk_size)
        terms = loss.of_features(0.5 * text, 0.5 * image, scale)
        gradients.append(torch.autograd.grad(terms.loss, [text, image, scale]))
        assert bool(terms.at_bound.any())
    torch.testing.assert_close(*gradients)


def test_chunks_are_recomputed_in_the_precision_of_the_forward_pass():
    z1, z2, _ = draw(3, 16, 8, torch.float32)
    loss = ContrastiveLoss(Debiased(0.1), temperature=0.05, chunk_size=8)
    outside = torch.autograd.grad(loss(z1, z2), z1)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(z1, z2)
    assert torch.equal(*torch.autograd.grad(value, z1), *outside)


def test_inputs_without_requires_grad_get_no_gradient():
    z1, z2, _ = draw(4, 9, 5)
    loss = ContrastiveLoss(Debiased(0.1), chunk_size=5)
    expected = torch.autograd.grad(loss(z1, z2), z1)
    torch.testing.assert_close(torch.autograd.grad(loss(z1, z2.detach()), z1), expected)
    assert not loss(z1.detach(), z2.detach()).requires_grad


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 50])
def test_a_loss_without_an_estimator_does_not_depend_on_the_chunk_size(chunk_size):
    u, v, _ = draw(5, 7, 5)
    whole, blocks = (
        RelaxedContrastiveLoss()(u, v),
        RelaxedContrastiveLoss(chunk_size=chunk_size)(u, v),
    )
    torch.testing.assert_close(blocks, whole, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad(blocks, [u, v])
    torch.testing.assert_close(found, torch.autograd.grad(whole, [u, v]), rtol=1e-12, atol=1e-12)
