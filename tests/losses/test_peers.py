"""Losses equal those of the libraries that they can replace."""

import pytest
import torch

from trueneg.losses import (
    ContrastiveLoss,
    CrossModalLoss,
    Debiased,
    OpenClipLoss,
    Oracle,
    Uncorrected,
)


def unit_pair(seed, count=12, dimensions=8):
    generator = torch.Generator().manual_seed(seed)
    pair = torch.nn.functional.normalize(
        torch.randn(2, count, dimensions, generator=generator), dim=-1
    )
    return [each.clone().requires_grad_() for each in pair]


def assert_same_loss_and_gradient(actual, expected, inputs):
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(
        torch.autograd.grad(actual, inputs),
        torch.autograd.grad(expected, inputs),
        rtol=1e-4,
        atol=1e-6,
    )


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_uncorrected_equals_lightlys_ntxent_loss(temperature):
    lightly = pytest.importorskip("lightly.loss", reason="compares with lightly's own loss")
    z1, z2 = (2.5 * each for each in unit_pair(1))
    ours = ContrastiveLoss(Uncorrected(), temperature)(z1, z2)
    assert_same_loss_and_gradient(ours, lightly.NTXentLoss(temperature)(z1, z2), [z1, z2])


@pytest.mark.parametrize("chunk_size", [None, 5])
def test_the_openclip_adapter_equals_clip_loss(chunk_size):
    open_clip = pytest.importorskip("open_clip", reason="compares with OpenCLIP's own loss")
    image, text = unit_pair(2)
    scale = torch.tensor(30.0, requires_grad=True)
    call = {
        "image_features": image,
        "text_features": text,
        "logit_scale": scale,
        "output_dict": True,
    }
    ours = OpenClipLoss(Uncorrected(), chunk_size=chunk_size)(**call)
    theirs = open_clip.ClipLoss()(**call)
    assert ours.keys() == theirs.keys()
    assert_same_loss_and_gradient(
        ours["contrastive_loss"], theirs["contrastive_loss"], [image, text, scale]
    )
    # a constant added to every logit cancels
    biased = OpenClipLoss(Uncorrected(), chunk_size=chunk_size)(**call, logit_bias=torch.ones(()))
    assert torch.equal(biased["contrastive_loss"], ours["contrastive_loss"])
    debiased = OpenClipLoss(Debiased(), chunk_size=chunk_size)
    assert torch.equal(
        debiased(image, text, scale, class_probability=0.0), ours["contrastive_loss"]
    )
    assert not torch.isclose(
        debiased(image, text, scale, class_probability=0.1), ours["contrastive_loss"]
    )


def test_the_openclip_adapter_takes_the_facts_of_cross_modal_losses():
    image, text = unit_pair(5)
    scale, labels = torch.tensor(30.0), torch.arange(12) % 5
    exclude = torch.rand(12, 36, generator=torch.Generator().manual_seed(0)) < 0.2
    known = {"labels": labels, "exclude": exclude, "hard_negatives": unit_pair(6)[0]}
    known |= {"queue": unit_pair(7)[0].detach(), "same_query": torch.arange(12) // 2}
    loss = OpenClipLoss(Oracle())
    expected = CrossModalLoss(Oracle()).of_features(text, image, scale, **known).loss
    assert torch.equal(loss(image, text, scale, **known), expected)
    for name in ("exclude", "same_query"):
        less = {key: value for key, value in known.items() if key != name}
        assert loss(image, text, scale, **less) != expected, name
    with pytest.raises(ValueError, match="labels is given, but Uncorrected"):
        OpenClipLoss(Uncorrected())(image, text, scale, labels=labels)
    plain = OpenClipLoss(Uncorrected())(image, text, scale)
    ignored = OpenClipLoss(Uncorrected())(image, text, scale, labels=labels, unused="ignore")
    assert torch.equal(ignored, plain)


def test_the_openclip_adapter_refuses_more_images_than_texts():
    image, text = unit_pair(4)
    with pytest.raises(ValueError, match="12 images and 8 texts; expected as many"):
        OpenClipLoss(Uncorrected())(image, text[:8], torch.tensor(30.0))


def test_the_openclip_adapter_refuses_features_that_are_not_normalised():
    image, text = unit_pair(4)
    loss = OpenClipLoss(Uncorrected())
    for call, name in (
        ((3 * image, text), "image_features"),
        ((image, text * float("nan")), "text_features"),
    ):
        with pytest.raises(ValueError, match=rf"^{name}: 12 of 12.*normalize"):
            loss(*call, torch.tensor(30.0))
    # rounded to 8 bits
    assert loss(image.bfloat16(), text.bfloat16(), torch.tensor(30.0)).isfinite()
