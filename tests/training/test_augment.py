"""Augmentations equal torchvision on each image given the same parameters, and have the same
distributions.
"""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import v2 as transforms
from torchvision.transforms.v2 import functional as reference

from trueneg.errors import UserError
from trueneg.training.augment import (
    Augmentation,
    ColorAugmentation,
    DigitAugmentation,
    affine_map,
    build_augmentation,
    draw_boxes,
    jitter_colors,
    resized_crop,
)

MEAN, STD = [0.49, 0.48, 0.45], [0.25, 0.24, 0.26]
OPERATIONS = ("brightness", "contrast", "saturation", "hue")
COLOR_COLUMNS = [
    "top",
    "left",
    "height",
    "width",
    "flip",
    *OPERATIONS,
    *(f"{name}_turn" for name in OPERATIONS),
    "greyscale",
]
DIGIT_COLUMNS = ["rotation", "shear", "log_scale", "right", "down", "brightness", "contrast"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_images(count: int, channels: int = 3, side: int = 32, seed: int = 0) -> Tensor:
    """Return noise, smooth colours, and images with black, white, grey and pure colours, where hue
    is singular.
    """
    noise = torch.randint(
        0, 256, (count, channels, side, side), generator=generator(seed), dtype=torch.uint8
    )
    coarse = torch.rand(count, channels, 4, 4, generator=generator(seed + 1)) * 255
    smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear").byte()
    corners = torch.randint(0, 3, noise.shape, generator=generator(seed + 2)) * 127
    kind = (torch.arange(count) % 3).view(-1, 1, 1, 1)
    return torch.where(kind == 0, noise, torch.where(kind == 1, smooth, corners.byte()))


def jittered_by_torchvision(image: Tensor, values: dict[str, float]) -> Tensor:
    for operation in sorted(OPERATIONS, key=lambda operation: values[f"{operation}_turn"]):
        image = getattr(reference, f"adjust_{operation}")(image, values[operation])
    return image


def color_by_torchvision(image: Tensor, row: Tensor, side: int | None = None) -> Tensor:
    values = dict(zip([*COLOR_COLUMNS, "blur"], [*row.tolist(), 0.0][:15], strict=True))
    box = [int(values[edge]) for edge in ("top", "left", "height", "width")]
    size = list(image.shape[1:]) if side is None else [side, side]
    image = reference.resized_crop(image.float() / 255, *box, size=size, antialias=True)
    if values["flip"]:
        image = reference.horizontal_flip(image)
    image = jittered_by_torchvision(image, values)
    if values["greyscale"]:
        image = reference.rgb_to_grayscale(image, num_output_channels=3)
    if values["blur"]:
        image = reference.gaussian_blur(image, [3, 3], [values["blur"]] * 2)
    return reference.normalize(image, MEAN, STD)


def test_color_augmentation_equals_torchvision_in_all_jitter_orders():
    augmentation = ColorAugmentation(MEAN, STD)
    images = random_images(600)
    parameters = augmentation.draw(600, (32, 32), generator())
    turns = parameters[:, 9:13].int().tolist()
    assert len({tuple(row) for row in turns}) == 24
    expected = torch.stack(
        [color_by_torchvision(*pair) for pair in zip(images, parameters, strict=True)]
    )
    actual = torch.cat(
        [augmentation(*pair) for pair in zip(images.split(250), parameters.split(250), strict=True)]
    )
    # after the division by std; 5e-6 in pixels
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize(
    ("image_side", "size", "blur"), [(96, 32, 0.0), (96, 32, 0.5), (32, None, 0.5), (96, 128, 0.0)]
)
def test_views_are_cropped_to_their_size_and_blurred_as_by_torchvision(image_side, size, blur):
    augmentation = build_augmentation({"name": "color", "size": size, "blur": blur}, MEAN, STD)
    images = random_images(40, side=image_side)
    parameters = augmentation.draw(40, (image_side, image_side), generator())
    actual = augmentation(images, parameters)
    assert actual.shape == (40, 3, size or image_side, size or image_side)
    expected = torch.stack(
        [color_by_torchvision(*pair, size) for pair in zip(images, parameters, strict=True)]
    )
    torch.testing.assert_close(actual, expected, rtol=0, atol=2e-5)
    assert augmentation.normalise(images).shape == images.shape


def test_blur_has_its_probability_and_range_and_changes_no_other_parameter():
    plain, blurred = (
        ColorAugmentation(MEAN, STD, blur=blur).draw(4000, (8, 8), generator(2))
        for blur in (0.0, 0.5)
    )
    assert torch.equal(plain, blurred[:, :14])
    sigma = blurred[:, 14]
    assert stats.binomtest(int((sigma > 0).sum()), 4000, 0.5).pvalue > 1e-3
    assert stats.kstest(sigma[sigma > 0].numpy(), stats.uniform(0.1, 1.9).cdf).pvalue > 1e-3


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_crops_equal_torchvision_at_borders_and_with_thin_boxes(data):
    height, width = data.draw(st.integers(2, 24)), data.draw(st.integers(2, 24))
    size = data.draw(st.sampled_from([(height, width), (8, 8), (5, 17), (1, 1)]))
    extent = st.sampled_from(["one", "whole", "any"])

    def side(length: int) -> tuple[int, int]:
        """Draw start and length of a side: one pixel, the whole image, or any length; often at a
        border.
        """
        extents = {"one": st.just(1), "whole": st.just(length), "any": st.integers(1, length)}
        inside = data.draw(extents[data.draw(extent)])
        last = length - inside
        return data.draw(st.one_of(st.just(0), st.just(last), st.integers(0, last))), inside

    sides = [(side(height), side(width)) for _ in range(4)]
    boxes = torch.tensor(
        [[top, left, tall, wide] for (top, tall), (left, wide) in sides], dtype=torch.float32
    )
    flip = (
        torch.tensor(data.draw(st.lists(st.booleans(), min_size=4, max_size=4)))
        .float()
        .unsqueeze(1)
    )
    images = torch.rand(4, 2, height, width, generator=generator(data.draw(st.integers(0, 99))))
    actual = resized_crop(images, boxes, flip, size)
    for image, box, mirrored, result in zip(
        images, boxes.int().tolist(), flip, actual, strict=True
    ):
        expected = reference.resized_crop(image, *box, size=list(size), antialias=True)
        expected = expected.flip(-1) if mirrored else expected
        torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def test_a_crop_of_the_whole_image_returns_it_and_a_flip_mirrors_it():
    images = torch.rand(2, 3, 9, 7, generator=generator())
    boxes = torch.tensor([[0.0, 0.0, 9.0, 7.0]] * 2)
    result = resized_crop(images, boxes, torch.tensor([[0.0], [1.0]]))
    torch.testing.assert_close(
        result, torch.stack([images[0], images[1].flip(-1)]), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("turns", list(itertools.permutations(range(4))))
def test_jitter_equals_torchvision_in_every_order_at_extreme_factors(turns):
    images = random_images(24, side=8).float() / 255
    factors = torch.rand(24, 3, generator=generator(1)) * 3
    factors[:3] = torch.eye(3)  # all grey, all average, all black
    hue = torch.rand(24, 1, generator=generator(2)) - 0.5
    hue[0], hue[1], hue[2] = -0.5, 0.5, 0.0
    actual = jitter_colors(
        images, factors, hue, torch.tensor([turns], dtype=torch.float32).expand(24, 4)
    )
    for number, image in enumerate(images):
        values = dict(zip(OPERATIONS, [*factors[number].tolist(), hue[number].item()], strict=True))
        values |= {
            f"{operation}_turn": turn for operation, turn in zip(OPERATIONS, turns, strict=True)
        }
        torch.testing.assert_close(
            actual[number], jittered_by_torchvision(image, values), rtol=0, atol=2e-5
        )


def test_jitter_does_not_change_its_input():
    images = torch.rand(2, 3, 4, 4, generator=generator())
    before = images.clone()
    jitter_colors(
        images, torch.full((2, 3), 0.5), torch.full((2, 1), 0.1), torch.arange(4.0).expand(2, 4)
    )
    torch.testing.assert_close(images, before, rtol=0, atol=0)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**20),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    scale=st.sampled_from([(0.08, 1.0), (0.2, 1.0), (1e-4, 1e-3), (1.0, 1.0)]),
)
def test_boxes_lie_inside_the_image_on_whole_pixels(seed, size, scale):
    boxes = draw_boxes(200, size, scale, (3 / 4, 4 / 3), generator(seed))
    top, left, height, width = boxes.unbind(1)
    assert torch.equal(boxes, boxes.round())
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (height >= 1).all()
    assert (width >= 1).all()
    assert (top + height <= size[0]).all()
    assert (left + width <= size[1]).all()


@pytest.mark.parametrize(
    ("size", "scale"),
    [
        ((32, 32), (0.08, 1.0)),
        ((6, 8), (0.08, 1.0)),
        ((20, 60), (0.5, 1.0)),
        ((30, 40), (0.9, 1.0)),
    ],
)
def test_boxes_have_the_distribution_of_torchvision(size, scale):
    count = 3000
    ours = draw_boxes(count, size, scale, (3 / 4, 4 / 3), generator(1))
    crop = transforms.RandomResizedCrop(size, scale=scale, antialias=True)
    image = torch.empty(1, *size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        drawn = [crop.make_params([image]) for _ in range(count)]
    theirs = torch.tensor([[box["top"], box["left"], box["height"], box["width"]] for box in drawn])
    for column, name in enumerate(("top", "left", "height", "width")):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3, name
    for boxes in ((0, 1), (2, 3), (0, 2)):  # sums detect a wrong dependence
        a, b = boxes
        assert stats.ks_2samp(ours[:, a] + ours[:, b], theirs[:, a] + theirs[:, b]).pvalue > 1e-3, (
            boxes
        )
    area, their_area = ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3]
    assert stats.ks_2samp(area, their_area).pvalue > 1e-3


def test_if_no_box_fits_the_largest_centred_box_is_used_as_in_torchvision():
    for size in [(10, 90), (90, 10), (11, 8), (7, 7)]:
        ours = draw_boxes(5, size, (3.0, 4.0), (3 / 4, 4 / 3), generator())  # areas that never fit
        crop = transforms.RandomResizedCrop(size, scale=(3.0, 4.0), antialias=True)
        box = crop.make_params([torch.empty(1, *size)])
        expected = [box["top"], box["left"], box["height"], box["width"]]
        assert ours.tolist() == [expected] * 5


def test_jitter_has_the_distribution_of_torchvision():
    count = 12000
    columns = COLOR_COLUMNS
    drawn = ColorAugmentation(MEAN, STD).draw(count, (32, 32), generator(3))
    drawn = dict(zip(columns, drawn.unbind(1), strict=True))
    for name, probability in [("flip", 0.5), ("greyscale", 0.2)]:
        assert stats.binomtest(int(drawn[name].sum()), count, probability).pvalue > 1e-3, name
    on = drawn["brightness"] != 1
    assert stats.binomtest(int(on.sum()), count, 0.8).pvalue > 1e-3
    for name in OPERATIONS:
        off = 0.0 if name == "hue" else 1.0
        assert (drawn[name][~on] == off).all(), name
    jitter = transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        theirs = [jitter.make_params([]) for _ in range(4000)]
    for name in OPERATIONS:
        values = [draw[f"{name}_factor"] for draw in theirs]
        assert stats.ks_2samp(drawn[name][on].numpy(), values).pvalue > 1e-3, name
    turns = torch.stack([drawn[f"{name}_turn"] for name in OPERATIONS], dim=1).int().tolist()
    orders = dict.fromkeys(itertools.permutations(range(4)), 0)
    for row in turns:
        orders[tuple(row)] += 1
    assert stats.chisquare(list(orders.values())).pvalue > 1e-3


def test_parameters_are_independent_of_each_other():
    drawn = ColorAugmentation(MEAN, STD).draw(20000, (32, 32), generator(5))
    on = drawn[drawn[:, 5] != 1]
    flip, factors, hue, greyscale = on[:, 4:5], on[:, 5:8], on[:, 8:9], on[:, 13:]
    correlation = torch.corrcoef(
        torch.cat([on[:, 2:3], flip, factors, hue, on[:, 9:10], greyscale], dim=1).T
    )
    off_diagonal = correlation - torch.eye(len(correlation))
    assert off_diagonal.abs().max() < 4.5 / math.sqrt(len(on))


@pytest.mark.parametrize(
    "augmentation", [ColorAugmentation(MEAN, STD), DigitAugmentation(MEAN, STD)]
)
def test_images_of_a_batch_are_augmented_independently(augmentation):
    images = random_images(1, side=8).expand(16, 3, 8, 8)
    parameters = augmentation.draw(16, (8, 8), generator())
    together = augmentation(images, parameters)
    assert len({tuple(image.flatten().tolist()) for image in together}) == 16
    alone = torch.cat([augmentation(images[:1], row.unsqueeze(0)) for row in parameters])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["color", "digits", "none"])
def test_draws_depend_only_on_the_generator_and_images_are_not_modified(name):
    augmentation = build_augmentation({"name": name}, MEAN, STD)
    torch.manual_seed(0)
    first = augmentation.draw(50, (8, 8), generator(7))
    torch.manual_seed(1)
    assert torch.equal(first, augmentation.draw(50, (8, 8), generator(7)))
    assert first.dtype == torch.float32
    assert len(first) == 50
    images = random_images(50, side=8)
    before = images.clone()
    result = augmentation(images, first)
    assert result.shape == images.shape
    assert result.dtype == torch.float32
    assert result.isfinite().all()
    assert torch.equal(images, before)


@pytest.mark.parametrize("name", ["color", "digits", "none"])
def test_normalise_equals_its_formula(name):
    augmentation = build_augmentation({"name": name}, MEAN, STD)
    images = random_images(6, side=8)
    expected = (images / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    torch.testing.assert_close(augmentation.normalise(images), expected)


def test_the_jitter_is_drawn_within_its_range():
    drawn = ColorAugmentation(MEAN, STD).draw(4000, (8, 8), generator())
    factors, hue = drawn[:, 5:8], drawn[:, 8]
    assert 0.6 <= factors.min() < 0.601
    assert 1.399 < factors.max() <= 1.4
    assert 0.0995 < hue.abs().max() <= 0.1


def test_affine_map_equals_torchvision():
    generator_ = generator(6)
    images = torch.rand(200, 2, 9, 12, generator=generator_)
    spread = torch.tensor([math.pi, 1.0, 0.7, 0.5, 0.5])
    parameters = spread * (2 * torch.rand(200, 5, generator=generator_) - 1)
    actual = affine_map(images, parameters)
    for image, row, result in zip(images, parameters.tolist(), actual, strict=True):
        rotation, shear, log_scale, right, down = row
        expected = reference.affine(
            image,
            angle=math.degrees(rotation),
            translate=[right * 12, down * 9],
            scale=math.exp(log_scale),
            shear=[math.degrees(shear), 0.0],
            interpolation=InterpolationMode.BILINEAR,
        )
        torch.testing.assert_close(result, expected, rtol=0, atol=2e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_digit_augmentation_equals_torchvision_plus_noise(channels):
    augmentation = DigitAugmentation(MEAN[:channels], STD[:channels])
    images = random_images(60, channels, side=8)
    parameters = augmentation.draw(60, (8, 8), generator(8))
    actual = augmentation(images, parameters)
    for image, row, result in zip(images, parameters, actual, strict=True):
        values = dict(zip(DIGIT_COLUMNS, row[:7].tolist(), strict=True))
        expected = affine_map(image.unsqueeze(0) / 255, row[:5].unsqueeze(0))[0]
        expected = reference.adjust_brightness(expected, values["brightness"])
        expected = reference.adjust_contrast(expected, values["contrast"])
        expected = (expected + row[7:].view(1, 8, 8)).clamp(0, 1)
        expected = reference.normalize(expected, MEAN[:channels], STD[:channels])
        torch.testing.assert_close(result, expected, rtol=0, atol=2e-5)


def test_digits_are_drawn_within_their_ranges():
    drawn = DigitAugmentation([0.3], [0.4]).draw(4000, (8, 8), generator(9))
    limits = [math.radians(15), math.radians(10), 0.15, 0.1, 0.1, 0.3, 0.3]
    for column, limit in enumerate(limits):
        values = drawn[:, column] - (1 if column >= 5 else 0)
        assert stats.kstest(values.numpy(), stats.uniform(-limit, 2 * limit).cdf).pvalue > 1e-3, (
            column
        )
    level = drawn[:, 7:].std(dim=1)
    assert level.max() < 0.1 * 1.5
    assert abs(level.mean().item() - 0.05) < 0.0025


def test_autocast_does_not_round_the_crops():
    augmentation = ColorAugmentation(MEAN, STD)
    images, parameters = random_images(8), augmentation.draw(8, (32, 32), generator())
    expected = augmentation(images, parameters)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(augmentation(images, parameters), expected, rtol=0, atol=0)


def test_the_augmentation_can_be_traced_without_data_dependence():
    """A trace recorded on one batch gives the correct result on another."""
    augmentation = ColorAugmentation(MEAN, STD)
    images, parameters = random_images(8, side=8), augmentation.draw(16, (8, 8), generator())
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(augmentation)(images, parameters[:8])
    others = random_images(8, side=8, seed=5)
    torch.testing.assert_close(traced(others, parameters[8:]), augmentation(others, parameters[8:]))


def test_the_base_class_only_normalises():
    augmentation = Augmentation(MEAN, STD)
    images = random_images(4, side=8)
    parameters = augmentation.draw(4, (8, 8), generator())
    assert parameters.shape == (4, 0)
    assert torch.equal(augmentation(images, parameters), augmentation.normalise(images))


def test_colour_jitter_needs_colour_images():
    with pytest.raises(UserError, match=r"name is color, .*3 channels.* 1"):
        build_augmentation({"name": "color"}, [0.3], [0.4])
