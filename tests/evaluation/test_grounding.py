"""Contrast-to-noise ratio and mean overlap against loops and scikit-learn; boxes and heatmaps
against torchvision and SciPy.
"""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis.extra.numpy import arrays
from scipy.ndimage import map_coordinates
from sklearn.metrics import jaccard_score
from torchvision.transforms import v2

from trueneg.evaluation.grounding import (
    THRESHOLDS,
    box_masks,
    boxes_in_crop,
    contrast_to_noise_ratio,
    intersection_over_union,
    mean_by_category,
    upsample,
)
from trueneg.evaluation.pairs.grounding import phrase_grounding


@st.composite
def maps_and_masks(draw, elements=None):
    # Cosines on a grid that includes the thresholds themselves: '>' and '≥' then differ.
    elements = elements or st.integers(-40, 40).map(lambda step: step / 40)
    shape = draw(st.tuples(st.integers(1, 6), st.integers(2, 6)))
    heatmap = draw(arrays(np.float64, shape, elements=elements))
    mask = draw(arrays(bool, shape))
    mask.flat[0], mask.flat[-1] = True, False
    return heatmap, mask


def cnr_by_the_book(heatmap, mask):
    inside = [h for h, m in zip(heatmap.ravel().tolist(), mask.ravel().tolist(), strict=True) if m]
    outside = [
        h for h, m in zip(heatmap.ravel().tolist(), mask.ravel().tolist(), strict=True) if not m
    ]
    mean = {part: sum(values) / len(values) for part, values in (("in", inside), ("out", outside))}
    variance_in = sum((h - mean["in"]) ** 2 for h in inside) / len(inside)
    variance_out = sum((h - mean["out"]) ** 2 for h in outside) / len(outside)
    return (mean["in"] - mean["out"]) / (variance_in + variance_out) ** 0.5


def spread(heatmap, mask):
    return max(np.ptp(heatmap[mask]), np.ptp(heatmap[~mask]))


@settings(deadline=None, max_examples=100)
@given(maps_and_masks())
def test_cnr_matches_the_equation_with_and_without_sign(pair):
    heatmap, mask = pair
    assume(spread(heatmap, mask) > 0)
    signed = contrast_to_noise_ratio(heatmap, mask, signed=True)
    assert signed == pytest.approx(cnr_by_the_book(heatmap, mask), rel=1e-9, abs=1e-12)
    assert contrast_to_noise_ratio(heatmap, mask) == abs(signed)
    assert contrast_to_noise_ratio(heatmap, ~mask, signed=True) == pytest.approx(
        -signed, rel=1e-9, abs=1e-12
    )


@settings(deadline=None, max_examples=100)
@given(maps_and_masks(), st.sampled_from([-3.0, -0.5, 0.01, 2.0, 14.0]), st.floats(-5, 5))
def test_cnr_does_not_depend_on_scale_and_shift(pair, scale, shift):
    heatmap, mask = pair
    assume(spread(heatmap, mask) > 0)
    before = contrast_to_noise_ratio(heatmap, mask, signed=True)
    after = contrast_to_noise_ratio(scale * heatmap + shift, mask, signed=True)
    assert after == pytest.approx(np.sign(scale) * before, rel=1e-6, abs=1e-6)


def test_cnr_of_constant_parts_is_zero_or_infinite():
    mask = np.zeros((7, 9), bool)
    mask[2:4, 3:6] = True
    flat = np.full(mask.shape, 0.1)
    assert contrast_to_noise_ratio(flat, mask) == 0
    assert contrast_to_noise_ratio(flat - 0.3 * mask, mask) == np.inf
    assert contrast_to_noise_ratio(flat - 0.3 * mask, mask, signed=True) == -np.inf


@settings(deadline=None, max_examples=60)
@given(
    maps_and_masks(),
    st.lists(st.integers(-8, 8).map(lambda step: step / 8), min_size=1, max_size=5)
    | st.just(THRESHOLDS),
)
def test_mean_overlap_matches_scikit_learn_for_any_thresholds(pair, thresholds):
    heatmap, mask = pair
    overlaps = [
        jaccard_score(mask.ravel(), heatmap.ravel() > threshold, zero_division=0)
        for threshold in thresholds
    ]
    assert intersection_over_union(heatmap, mask, thresholds) == pytest.approx(
        np.mean(overlaps), abs=1e-12
    )


def test_default_thresholds_match_the_paper():
    np.testing.assert_array_equal(THRESHOLDS, np.round(np.arange(-1, 1.025, 0.05), 2))
    heatmap, mask = np.random.default_rng(0).uniform(-1, 1, (6, 6)), np.eye(6, dtype=bool)
    assert intersection_over_union(heatmap, mask) == intersection_over_union(
        heatmap, mask, THRESHOLDS
    )


def test_mean_overlap_depends_on_the_scale_of_the_scores():
    """Only raw cosines are compared, because stretching a map raises its mean overlap."""
    y, x = np.mgrid[:48, :48]
    bump = 0.35 * np.exp(-((y - 20) ** 2 + (x - 28) ** 2) / 120)
    mask = box_masks([[18, 10, 38, 30]], (48, 48))[0]
    assert np.all(
        np.diff([intersection_over_union(scale * bump, mask) for scale in (0.5, 1, 2, 3)]) > 0.03
    )


def test_mean_overlap_of_empty_and_full_predictions():
    mask = np.zeros((4, 5), bool)
    mask[1, :3] = True
    # nothing exceeds even the lowest threshold
    assert intersection_over_union(np.full((4, 5), -1.0), mask) == 0
    # the box's share of the image
    assert intersection_over_union(np.full((4, 5), 1.5), mask) == pytest.approx(3 / 20)
    assert intersection_over_union(np.where(mask, 2.0, -2.0), mask) == 1


@settings(deadline=None, max_examples=60)
@given(maps_and_masks(), st.data())
def test_pixels_outside_the_crop_are_ignored(pair, data):
    heatmap, mask = pair
    assume(spread(heatmap, mask) > 0)
    # Two columns without a score on either side, in and out of the mask: as if the image ended
    # before them.
    padded = np.pad(heatmap, ((0, 0), (2, 2)), constant_values=np.nan)
    padded_mask = np.pad(mask, ((0, 0), (2, 2)), constant_values=data.draw(st.booleans()))
    assert contrast_to_noise_ratio(padded, padded_mask) == pytest.approx(
        contrast_to_noise_ratio(heatmap, mask)
    )
    assert intersection_over_union(padded, padded_mask) == pytest.approx(
        intersection_over_union(heatmap, mask)
    )


def test_phrases_whose_boxes_cover_all_or_no_pixels_are_left_out():
    pixels = np.random.default_rng(0).random((20, 20))
    boxes = pd.DataFrame({"finding": ["edema"]})
    corners = [[2, 3, 9, 8], [10.6, 10.6, 11.4, 11.4], [0, 0, 20, 20]]
    masks = box_masks(np.array(corners), (20, 20))
    assert [mask.sum() for mask in masks] == [35, 0, 400]
    found = phrase_grounding((boxes, pixels, mask) for mask in masks)
    assert found == phrase_grounding([(boxes, pixels, masks[0])])
    assert found["phrases"] == {"mean": 1.0}


def test_means_are_computed_over_boxes_and_over_categories():
    found = mean_by_category([4.0, 1.0, 1.0], ["b", "a", "a"])
    assert found == {"mean": 2.0, "macro": 2.5, "a": 1.0, "b": 4.0}


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 6),
    st.integers(1, 6),
    st.integers(1, 24),
    st.integers(1, 24),
    st.integers(0, 1000),
)
def test_upsampling_is_bilinear_between_cell_centres(h, w, height, width, seed):
    grid = np.random.default_rng(seed).uniform(-1, 1, (2, h, w))
    y = ((np.arange(height) + 0.5) * h / height - 0.5).clip(0, h - 1)
    x = ((np.arange(width) + 0.5) * w / width - 0.5).clip(0, w - 1)
    places = np.stack(np.meshgrid(y, x, indexing="ij"))
    expected = [map_coordinates(one, places, order=1, mode="nearest") for one in grid]
    found = upsample(grid, (height, width))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(found[1], upsample(torch.tensor(grid[1]), (height, width)))
    assert found.min() >= grid.min() - 1e-6
    assert found.max() <= grid.max() + 1e-6


def test_smoothing_spreads_a_peak_and_preserves_the_sum():
    grid = np.zeros((2, 15, 15))
    grid[:, 7, 7] = 1
    smooth = upsample(grid, (15, 15), smoothing=1.5)
    assert smooth.sum() == pytest.approx(2, rel=1e-4)
    assert smooth[0, 7, 8] / smooth[0, 7, 7] == pytest.approx(np.exp(-1 / (2 * 1.5**2)), rel=1e-3)
    np.testing.assert_allclose(
        upsample(np.full((4, 4), 0.3), (8, 8), smoothing=1.5), 0.3, rtol=1e-6
    )


@settings(deadline=None, max_examples=40)
@given(st.tuples(st.integers(20, 90), st.integers(20, 90)), st.data())
def test_the_mask_of_a_cropped_box_contains_its_cropped_pixels(image, data):
    crop = tuple(data.draw(st.integers(8, side)) for side in image)
    x0, y0 = data.draw(st.integers(0, image[1] - 2)), data.draw(st.integers(0, image[0] - 2))
    x1, y1 = data.draw(st.integers(x0 + 1, image[1])), data.draw(st.integers(y0 + 1, image[0]))
    pixels = torch.zeros(1, *image)
    pixels[:, y0:y1, x0:x1] = 1
    mask = box_masks(boxes_in_crop([[x0, y0, x1, y1]], image, crop), crop)[0]
    np.testing.assert_array_equal(v2.CenterCrop(crop)(pixels)[0].numpy(), mask)


@settings(deadline=None, max_examples=60)
@given(arrays(np.float64, (3, 4), elements=st.integers(0, 40).map(lambda quarter: quarter / 4)))
def test_masks_contain_pixels_whose_centres_lie_in_the_box(boxes):
    size = (6, 8)
    expected = np.array(
        [
            [[x0 <= x + 0.5 < x1 and y0 <= y + 0.5 < y1 for x in range(8)] for y in range(6)]
            for x0, y0, x1, y1 in boxes
        ]
    )
    assert np.array_equal(box_masks(boxes, size), expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: contrast_to_noise_ratio(np.zeros((2, 2)), np.zeros((2, 2))),
            r"mask .*float64.*bool",
        ),
        (
            lambda: contrast_to_noise_ratio(np.zeros((2, 3)), np.ones((2, 2), bool)),
            r"heatmap .*\(2, 3\).* mask .*\(2, 2\)",
        ),
        (
            lambda: contrast_to_noise_ratio(np.zeros((2, 2)), np.ones((2, 2), bool)),
            "covers all pixels",
        ),
        (
            lambda: contrast_to_noise_ratio(np.zeros((2, 2)), np.zeros((2, 2), bool)),
            "covers no pixel",
        ),
        (
            lambda: intersection_over_union(np.full((2, 2), np.nan), np.eye(2, dtype=bool)),
            "covers no pixel",
        ),
        (
            lambda: intersection_over_union(np.zeros((2, 2)), np.eye(2, dtype=bool), []),
            "thresholds is empty",
        ),
    ],
)
def test_invalid_arguments_raise_value_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_box_outside_the_crop_has_no_area_and_no_pixels():
    (box,) = boxes_in_crop([[0, 0, 20, 20]], (100, 100), (50, 50))
    assert (box[2] - box[0]) * (box[3] - box[1]) == 0
    assert not box_masks([box], (50, 50)).any()
