"""The augmentation of images that are paired with sentences equals torchvision."""

import math

import pytest
import scipy.stats
import torch

from tests.textures import CONVIRT
from trueneg.training.radiograph_augmentation import RadiographAugmentation


@pytest.mark.parametrize("channels", [1, 3])
def test_augmentation_equals_torchvision_on_each_image(channels):
    from torchvision.transforms.v2 import functional as reference

    images = torch.randint(
        256, (6, channels, 20, 16), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    augmentation = RadiographAugmentation(
        [0.4] * channels, [0.2] * channels, crop=0.75, brightness=0.5, contrast=0.5
    )
    parameters = augmentation.draw(6, (20, 16), torch.Generator().manual_seed(1))
    found = augmentation(images, parameters)
    for image, (top, left, brightness, contrast), ours in zip(
        images, parameters.tolist(), found, strict=True
    ):
        pixels = reference.crop(image, int(top), int(left), 15, 12).float() / 255
        pixels = reference.adjust_contrast(
            reference.adjust_brightness(pixels, brightness), contrast
        )
        torch.testing.assert_close(ours, (pixels - 0.4) / 0.2, atol=1e-3, rtol=1e-3)
    centre = reference.center_crop(images, [15, 12]).float() / 255
    torch.testing.assert_close(augmentation.normalise(images), (centre - 0.4) / 0.2)
    whole = RadiographAugmentation([0.4] * channels, [0.2] * channels, crop=0.75, evaluated="whole")
    torch.testing.assert_close(whole.normalise(images), (images.float() / 255 - 0.4) / 0.2)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("left_out", [None, "crop_area", "rotation"])
def test_the_augmentation_of_convirt_equals_torchvision_on_each_image(channels, left_out):
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as reference

    settings = {name: value for name, value in CONVIRT.items() if name != left_out}
    images = torch.randint(
        256, (8, channels, 40, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8
    )
    augmentation = RadiographAugmentation([0.4] * channels, [0.2] * channels, crop=0.75, **settings)
    parameters = augmentation.draw(8, (40, 32), torch.Generator().manual_seed(1))
    augmented = augmentation(images, parameters)
    assert len(set(parameters[:, 6].tolist())) == 2
    for image, row, ours in zip(images, parameters.tolist(), augmented, strict=True):
        (
            top,
            left,
            brightness,
            contrast,
            height,
            width,
            flip,
            angle,
            _,
            log_scale,
            right,
            down,
            sigma,
        ) = row
        box = [int(top), int(left), int(height), int(width)]
        pixels = reference.resized_crop(image.float() / 255, *box, [30, 24], antialias=True)
        pixels = reference.horizontal_flip(pixels) if flip else pixels
        how = {
            "translate": [24 * right, 30 * down],
            "scale": math.exp(log_scale),
            "shear": [0.0, 0.0],
        }
        pixels = reference.affine(
            pixels, math.degrees(angle), interpolation=InterpolationMode.BILINEAR, **how
        )
        pixels = reference.adjust_contrast(
            reference.adjust_brightness(pixels, brightness), contrast
        )
        pixels = reference.gaussian_blur(pixels, [19, 19], [sigma, sigma])
        torch.testing.assert_close(ours, (pixels - 0.4) / 0.2, atol=2e-3, rtol=1e-3)


def test_the_draws_of_convirt_are_uniform_in_its_ranges():
    augmentation = RadiographAugmentation([0.4], [0.2], crop=0.875, **CONVIRT)
    drawn = augmentation.draw(4000, (256, 256), torch.Generator().manual_seed(0)).double()
    area, ratio = drawn[:, 4] * drawn[:, 5] / 256**2, drawn[:, 5] / drawn[:, 4]
    assert 0.595 < area.min() < 0.605
    assert area.max() <= 1
    assert ratio.min() == pytest.approx(3 / 4, abs=0.02)
    assert ratio.max() == pytest.approx(4 / 3, abs=0.02)
    assert (drawn[:, 0] + drawn[:, 4]).max() <= 256
    assert (drawn[:, 1] + drawn[:, 5]).max() <= 256
    assert drawn[:, 6].mean() == pytest.approx(0.5, abs=0.03)
    assert not drawn[:, 8].any()
    expected = [
        (2, 0.6, 1.4),
        (3, 0.6, 1.4),
        (7, -20, 20),
        (9, 0.95, 1.05),
        (10, -0.1, 0.1),
        (11, -0.1, 0.1),
        (12, 0.1, 3.0),
    ]
    for column, lowest, highest in expected:
        values = {7: drawn[:, 7].rad2deg(), 9: drawn[:, 9].exp()}.get(column, drawn[:, column])
        assert (
            scipy.stats.kstest(
                values.numpy(), scipy.stats.uniform(lowest, highest - lowest).cdf
            ).pvalue
            > 1e-3
        )
    pairs = torch.corrcoef(drawn[:, [2, 3, 6, 7, 9, 10, 11, 12]].T) - torch.eye(8)
    assert pairs.abs().max() < 0.06


def test_further_steps_leave_the_first_draws_of_a_seed_unchanged():
    plain, blurred = (RadiographAugmentation([0.4], [0.2], blur=blur) for blur in (0.0, 2.0))
    few, many = (
        augmentation.draw(9, (32, 32), torch.Generator().manual_seed(5))
        for augmentation in (plain, blurred)
    )
    torch.testing.assert_close(many[:, :4], few, rtol=0, atol=0)


def test_crop_positions_are_uniform_and_independent():
    augmentation = RadiographAugmentation([0.5], [0.2], crop=0.9)
    drawn = augmentation.draw(3000, (20, 20), torch.Generator().manual_seed(0))
    for column in (0, 1):
        places, counts = drawn[:, column].unique(return_counts=True)
        assert places.tolist() == [0, 1, 2]
        assert counts.min() > 900
    assert len(drawn.unique(dim=0)) == 3000
    assert (drawn[:, 2:] - 1).abs().max() <= 0.2
