"""Aggregators and RoIAlign, compared with loops over regions and bilinear means, and their
properties.
"""

import math

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings
from torch.nn import functional
from torchvision.ops import roi_align

from trueneg.models.region_similarity import (
    RegionSimilarity,
    box_features,
    heatmaps,
    log_sum_exp,
)
from trueneg.models.towers.tower import Embedded


def cosine(a, b):
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def unit(vector):
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length for x in vector]


def lse_by_the_book(text, regions, sharpness):
    return (
        math.log(
            sum(math.exp(sharpness * cosine(text, region)) for region in regions) / len(regions)
        )
        / sharpness
    )


def nl_by_the_book(text, regions, scale):
    regions = [unit(region) for region in regions]
    critical = max(regions, key=lambda region: cosine(text, region))
    weights = [math.exp(scale * cosine(critical, region)) for region in regions]
    average = [
        sum(w * region[d] for w, region in zip(weights, regions, strict=True)) / sum(weights)
        for d in range(len(text))
    ]
    return cosine(average, text)


def embeddings(texts, images, dimensions, h, w, seed):
    generator = torch.Generator().manual_seed(seed)
    draw = {"generator": generator, "dtype": torch.float64}
    regions = torch.randn(images, dimensions, h, w, **draw) * torch.rand(
        images, 1, h, w, **draw
    ).add(0.1)
    return torch.randn(texts, dimensions, **draw), Embedded(
        torch.randn(images, dimensions, **draw), regions
    )


def regions_of(images, image):
    return images.regions[image].flatten(1).T.tolist()


shapes = {
    "texts": st.integers(1, 4),
    "images": st.integers(1, 4),
    "dimensions": st.integers(2, 5),
    "h": st.integers(1, 3),
    "w": st.integers(1, 4),
    "seed": st.integers(0, 10_000),
}
sharpnesses = st.sampled_from([0.1, 1.0, 5.0, 50.0])
scales = st.sampled_from([0.0, 0.3, 5.0, 50.0])


@settings(deadline=None, max_examples=50)
@given(sharpness=sharpnesses, scale=scales, **shapes)
def test_every_part_matches_its_equation(texts, images, dimensions, h, w, seed, sharpness, scale):
    texts, images = embeddings(texts, images, dimensions, h, w, seed)
    similarity = RegionSimilarity("global+lse+nl", lse_sharpness=sharpness, attention_scale=scale)
    parts = similarity.parts(texts, images)
    assert list(parts) == ["global", "lse", "nl"]
    for t, text in enumerate(texts.tolist()):
        for i in range(len(images.pooled)):
            regions = regions_of(images, i)
            assert parts["global"][t, i].item() == pytest.approx(
                cosine(text, images.pooled[i].tolist()), abs=1e-9
            )
            assert parts["lse"][t, i].item() == pytest.approx(
                lse_by_the_book(text, regions, sharpness), abs=1e-9
            )
            assert parts["nl"][t, i].item() == pytest.approx(
                nl_by_the_book(text, regions, scale), abs=1e-9
            )
    mean = (parts["global"] + parts["lse"] + parts["nl"]) / 3
    torch.testing.assert_close(similarity(texts, images), mean)


@settings(deadline=None, max_examples=50)
@given(**shapes)
def test_heatmaps_are_cosines_of_a_text_with_each_region_of_its_image(
    texts, images, dimensions, h, w, seed
):
    texts, images = embeddings(images, images, dimensions, h, w, seed)
    found = heatmaps(texts, images.regions)
    assert found.shape == (len(texts), h, w)
    for number, text in enumerate(texts.tolist()):
        expected = [cosine(text, region) for region in regions_of(images, number)]
        torch.testing.assert_close(
            found[number].flatten(), torch.tensor(expected, dtype=torch.float64)
        )


@settings(deadline=None, max_examples=80)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=300), st.floats(1e-3, 1e3))
def test_log_sum_exp_lies_between_the_mean_and_the_maximum(scores, sharpness):
    scores = torch.tensor(scores, dtype=torch.float64)
    found = log_sum_exp(scores, sharpness).item()
    assert scores.mean().item() - 1e-9 <= found <= scores.max().item() + 1e-9
    assert scores.min().item() - 1e-9 <= found


def test_log_sum_exp_approaches_the_mean_and_the_maximum():
    torch.manual_seed(0)
    scores = torch.rand(225, dtype=torch.float64) * 2 - 1
    assert log_sum_exp(scores, 1e-6).item() == pytest.approx(scores.mean().item(), abs=1e-5)
    assert log_sum_exp(scores, 1e5).item() == pytest.approx(scores.max().item(), abs=1e-4)
    found = [log_sum_exp(scores, r).item() for r in (0.1, 1.0, 5.0, 10.0, 100.0)]
    assert found == sorted(found)
    assert (torch.logsumexp(scores, 0) - math.log(225)).item() == pytest.approx(found[1])


@settings(deadline=None, max_examples=50)
@given(sharpness=sharpnesses, scale=scales, **shapes)
def test_the_order_of_the_regions_does_not_matter(
    texts, images, dimensions, h, w, seed, sharpness, scale
):
    texts, images = embeddings(texts, images, dimensions, h, w, seed)
    order = torch.randperm(h * w, generator=torch.Generator().manual_seed(seed))
    shuffled = Embedded(images.pooled, images.regions.flatten(2)[:, :, order].unflatten(2, (h, w)))
    similarity = RegionSimilarity("lse+nl", lse_sharpness=sharpness, attention_scale=scale)
    torch.testing.assert_close(similarity(texts, shuffled), similarity(texts, images))


@settings(deadline=None, max_examples=50)
@given(scale=scales, **shapes)
def test_scores_are_bounded_and_scale_invariant(texts, images, dimensions, h, w, seed, scale):
    texts, images = embeddings(texts, images, dimensions, h, w, seed)
    similarity = RegionSimilarity("global+lse+nl", lse_sharpness=3.0, attention_scale=scale)
    found = similarity(texts, images)
    assert found.abs().max() <= 1 + 1e-9
    longer = Embedded(
        5 * images.pooled, images.regions * torch.rand(h, w, dtype=torch.float64).add(0.5)
    )
    torch.testing.assert_close(similarity(0.1 * texts, longer), found)


def test_attention_interpolates_between_the_mean_and_the_critical_region():
    texts, images = embeddings(3, 2, 8, 3, 3, seed=1)
    mean = functional.normalize(images.regions, dim=1).mean((2, 3))
    expected = functional.cosine_similarity(texts[:, None], mean, dim=2)
    torch.testing.assert_close(RegionSimilarity("nl", attention_scale=0.0)(texts, images), expected)
    nearest = (
        functional.cosine_similarity(texts[:, None, :, None, None], images.regions, dim=2)
        .flatten(2)
        .amax(2)
    )
    torch.testing.assert_close(RegionSimilarity("nl", attention_scale=1e4)(texts, images), nearest)


def test_gradients_match_finite_differences():
    texts, images = embeddings(2, 3, 3, 2, 2, seed=3)
    similarity = RegionSimilarity("global+lse+nl", lse_sharpness=4.0, attention_scale=3.0)
    inputs = [tensor.requires_grad_() for tensor in (texts, images.pooled, images.regions)]
    assert torch.autograd.gradcheck(
        lambda y, pooled, regions: similarity(y, Embedded(pooled, regions)), inputs
    )


def test_half_precision_inputs_are_computed_in_float32():
    texts, images = embeddings(4, 4, 64, 5, 5, seed=4)
    texts, images = texts.bfloat16(), Embedded(*(part.bfloat16() for part in images))
    similarity = RegionSimilarity("global+lse+nl", lse_sharpness=5.0, attention_scale=5.0)
    expected = similarity(texts.double(), Embedded(*(part.double() for part in images)))
    with torch.autocast("cpu", torch.bfloat16):
        found = similarity(texts, images)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=1e-5)


def bilinear(grid, y, x):
    """Interpolate between the centres of a grid's cells; the outermost cells extend to the edge."""
    h, w = len(grid), len(grid[0])
    y, x = min(max(y - 0.5, 0), h - 1), min(max(x - 0.5, 0), w - 1)
    top, left = min(int(y), h - 1), min(int(x), w - 1)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    v, u = y - top, x - left
    upper = (1 - u) * grid[top][left] + u * grid[top][right]
    lower = (1 - u) * grid[bottom][left] + u * grid[bottom][right]
    return (1 - v) * upper + v * lower


@settings(deadline=None, max_examples=40)
@given(
    st.data(),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 1000),
)
def test_box_features_are_means_of_bilinear_samples_inside_the_box(
    data, h, w, output, samples, seed
):
    """On square and other crops: boxes are scaled by grid / crop in each direction."""
    crop = (data.draw(st.integers(8, 40)), data.draw(st.integers(8, 40)))
    x0, y0 = data.draw(st.integers(-5, crop[1] - 2)), data.draw(st.integers(-5, crop[0] - 2))
    box = [
        x0,
        y0,
        data.draw(st.integers(max(x0, 0) + 1, crop[1] + 5)),
        data.draw(st.integers(max(y0, 0) + 1, crop[0] + 5)),
    ]
    regions = torch.randn(
        1, 2, h, w, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    found = box_features(regions, [torch.tensor([box])], crop, output=output, samples=samples)
    left, top, right, bottom = max(x0, 0), max(y0, 0), min(box[2], crop[1]), min(box[3], crop[0])
    points = output * samples
    for channel in range(2):
        values = [
            bilinear(
                regions[0, channel].tolist(),
                (top + (row + 0.5) * (bottom - top) / points) * h / crop[0],
                (left + (column + 0.5) * (right - left) / points) * w / crop[1],
            )
            for row in range(points)
            for column in range(points)
        ]
        assert found[0, channel].item() == pytest.approx(sum(values) / len(values), abs=1e-9)


def test_box_features_match_torchvisions_roi_align():
    torch.manual_seed(0)
    regions = torch.randn(3, 4, 15, 15)
    boxes = [
        torch.tensor([[10.0, 20.0, 300.0, 200.0], [0, 0, 480, 480]]),
        torch.zeros(0, 4),
        torch.tensor([[-9.0, 400, 99, 500]]),
    ]
    found = box_features(regions, boxes, (480, 480))
    clipped = [own.clamp(0, 480) for own in boxes]
    expected = roi_align(
        regions, clipped, 7, spatial_scale=15 / 480, sampling_ratio=2, aligned=True
    ).mean((2, 3))
    assert found.shape == (3, 4)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        box_features(regions, [own.double().numpy() for own in boxes], (480, 480)), expected
    )


def test_the_feature_of_a_regions_own_box_is_the_region():
    regions = torch.arange(16.0).view(1, 1, 4, 4)
    box = torch.tensor([[64.0, 32.0, 96.0, 64.0]])  # column 2, row 1 of cells of 32 pixels
    assert box_features(regions, [box], (128, 128), output=1, samples=1).item() == 6
