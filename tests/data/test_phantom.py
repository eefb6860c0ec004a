"""The phantom's radiographs depend only on their reports, with correct boxes, sides, labels and
difficulty.
"""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from trueneg.data.phantom.anatomy import Chest, film
from trueneg.data.phantom.classes import CLASSES, FINDINGS
from trueneg.data.phantom.radiographs import (
    BOX_COLUMNS,
    CHEX5,
    chexpert_labels,
    phantom_images,
    positive_classes,
)
from trueneg.data.phantom.reports import phantom_reports
from trueneg.data.phantom.shapes import smooth_noise

SEVERITIES = ("small", "mild", "moderate", "severe", "large")  # in increasing order
quick = settings(deadline=None, max_examples=25)
numbers = st.integers(0, len(CLASSES) - 1)
# Classes of different findings, as in reports.
several = st.lists(
    numbers, min_size=1, max_size=2, unique_by=lambda number: CLASSES[number].finding
)


def image(report, present, resolution=64, seed=0, contrast=1.0):
    return phantom_images({report: present}, resolution, seed, contrast).images[0, 0].astype(int)


@quick
@given(
    st.dictionaries(
        st.text("abc0", min_size=1, max_size=4), several | st.just([]), min_size=2, max_size=5
    ),
    st.integers(0, 3),
    st.randoms(),
)
def test_images_do_not_depend_on_each_other(findings, seed, random):
    together = phantom_images(findings, 32, seed)
    shuffled = random.sample(list(findings), len(findings))
    for report in shuffled:
        alone = phantom_images({report: findings[report][::-1]}, 32, seed)
        assert np.array_equal(alone.images[0], together.images[list(findings).index(report)])
        boxes = together.boxes[together.boxes["report"] == report]
        assert alone.boxes.to_numpy().tolist() == boxes.to_numpy().tolist()


def test_each_report_and_seed_has_a_different_patient():
    pictures = [image(report, [], seed=seed) for report in "ab" for seed in (0, 1)]
    for first in range(4):
        for second in range(first):
            assert abs(pictures[first] - pictures[second]).mean() > 5


@quick
@given(several, st.integers(0, 1000), st.sampled_from([48, 112]))
def test_boxes_enclose_the_pixels_that_a_finding_changes(present, patient, resolution):
    drawn = phantom_images({f"{patient}": present}, resolution, 0)
    with_all = drawn.images[0, 0].astype(int)
    for number in present:
        without = image(f"{patient}", [other for other in present if other != number], resolution)
        change = abs(with_all - without)
        boxes = drawn.boxes[drawn.boxes["class"] == number]
        inside = np.zeros_like(change, dtype=bool)
        for x0, y0, x1, y1 in boxes[["x0", "y0", "x1", "y1"]].to_numpy().tolist():
            assert 0 <= x0 < x1 <= resolution
            assert 0 <= y0 < y1 <= resolution
            inside[y0:y1, x0:x1] = True
        # A box encloses changes above a fifth of the largest change; both images are rounded.
        assert inside[change > 0.2 * change.max() + 1.5].all()
        assert change[inside].mean() > change[~inside].mean()


def test_pixels_far_from_a_finding_do_not_change():
    [nodule] = [each.number for each in CLASSES if each.name == "small left upper nodule"]
    drawn = phantom_images({"a": [nodule]}, 112, 0)
    x0, y0, x1, y1 = drawn.boxes[["x0", "y0", "x1", "y1"]].to_numpy()[0]
    outside = np.ones((112, 112), dtype=bool)
    outside[max(y0 - 8, 0) : y1 + 8, max(x0 - 8, 0) : x1 + 8] = False
    assert (drawn.images[0, 0] == image("a", [], 112))[outside].all()


@pytest.mark.parametrize("shown", CLASSES, ids=lambda shown: shown.name)
def test_every_class_is_visible_only_on_its_side(shown):
    reports = {f"{patient}": [shown.number] for patient in range(4)}
    drawn = phantom_images(reports, 64, 3)
    assert drawn.boxes.columns.tolist() == BOX_COLUMNS
    assert set(drawn.boxes["name"]) == {shown.name}
    sides = ["right", "left"] if shown.side == "bilateral" else [shown.side]
    assert drawn.boxes["side"].tolist() == sides * len(reports)
    healthy = phantom_images(dict.fromkeys(reports, ()), 64, 3)
    change = abs(drawn.images[:, 0].astype(int) - healthy.images[:, 0]).mean(0)
    # The patient faces the reader.
    at_left, at_right = change[:, :32].sum(), change[:, 32:].sum()
    assert change.max() > 1.5
    if shown.side == "left":
        assert at_right > 10 * at_left
    elif shown.side == "right":
        assert at_left > 10 * at_right
    else:
        assert max(at_left, at_right) < 4 * min(at_left, at_right)


def test_the_heart_leans_to_the_patients_left():
    for patient in range(10):
        chest = Chest(np.random.default_rng(patient), 64)
        lower = chest.shadow[32:]
        assert (lower * chest.across[32:]).sum() / lower.sum() > 0.005


@pytest.mark.parametrize(
    "finding", [name for name in FINDINGS if name not in ("nodule", "granuloma")]
)
def test_more_severe_findings_change_more_pixels(finding):
    reports = [f"{patient}" for patient in range(16)]
    healthy = phantom_images(dict.fromkeys(reports, ()), 48, 0).images.astype(int)
    classes = sorted(
        (each for each in CLASSES if each.finding == finding),
        key=lambda each: SEVERITIES.index(each.severity),
    )
    for side in {each.side for each in classes}:
        same_place = [
            each.number for each in classes if (each.side, each.zone) == (side, classes[-1].zone)
        ]
        assert len(same_place) > 1
        drawn = [
            phantom_images(dict.fromkeys(reports, (number,)), 48, 0).images for number in same_place
        ]
        changes = [abs(images - healthy).mean() for images in drawn]
        assert changes == sorted(changes)
        assert changes[-1] > 1.15 * changes[0]


@quick
@given(numbers, st.integers(0, 100))
def test_higher_contrast_changes_pixels_more(number, patient):
    healthy = image(f"{patient}", [])
    faint, strong = (
        abs(image(f"{patient}", [number], contrast=contrast) - healthy).sum()
        for contrast in (0.3, 1.5)
    )
    assert faint < strong


@pytest.mark.parametrize("patient", range(4))
def test_patients_are_the_same_at_any_resolution(patient):
    chests = (Chest(np.random.default_rng(patient), resolution) for resolution in (112, 448))
    greys = [
        film(chest.patient, chest.tissue + chest.bones + chest.texture - chest.air)
        for chest in chests
    ]
    averaged = greys[1].reshape(112, 4, 112, 4).mean((1, 3))
    assert abs(averaged - greys[0]).mean() < 1
    assert abs(averaged - greys[0]).max() < 30


LARGE = [each for each in CLASSES if each.finding not in ("granuloma", "nodule")]


@pytest.mark.parametrize("shown", LARGE[::3], ids=lambda shown: shown.name)
def test_boxes_scale_with_the_resolution(shown):
    boxes = [
        phantom_images({"a": [shown.number]}, resolution, 0).boxes for resolution in (112, 224)
    ]
    coarse, fine = (table[["x0", "y0", "x1", "y1"]].to_numpy() for table in boxes)
    # Sharper lines can exceed the threshold a little farther out.
    assert abs(fine / 2 - coarse).max() <= 6


def test_smooth_noise_is_the_same_at_any_resolution():
    fields = [smooth_noise(np.random.default_rng(0), 9, resolution) for resolution in (50, 150)]
    assert np.abs(fields[1][1::3, 1::3] - fields[0]).max() < 1e-5
    many = np.stack([smooth_noise(np.random.default_rng(seed), 9, 50) for seed in range(200)])
    assert 0.95 < many.std() < 1.05


@pytest.mark.parametrize("seed", range(3))
def test_labels_match_the_sentences(seed):
    made = phantom_reports(40, seed)
    findings = positive_classes(made.reports["report"].tolist(), made.sentences)
    labels = chexpert_labels(findings)
    truth = made.sentences.merge(made.classes, on="class")
    for report, row in zip(made.reports["report"], labels, strict=True):
        said = truth[(truth["report"] == report) & (truth["kind"] == "positive")][
            "finding"
        ].tolist()
        assert row.tolist() == [float(name in said) for name in CHEX5]
    assert set(CHEX5) == {"cardiomegaly", "edema", "effusion", "pneumonia", "pneumothorax"}


def test_images_do_not_depend_on_the_number_of_processes():
    made = phantom_reports(150, seed=4)
    findings = positive_classes(made.reports["report"].tolist(), made.sentences)
    alone, together = (phantom_images(findings, 32, 4, processes=processes) for processes in (1, 3))
    assert np.array_equal(alone.images, together.images)
    pd.testing.assert_frame_equal(alone.boxes, together.boxes)


@pytest.mark.long
def test_a_linear_classifier_of_pixels_finds_some_findings_but_not_all():
    generator = np.random.default_rng(0)
    choices = [[each.number for each in CLASSES if each.finding == name] for name in CHEX5] + [
        []
    ] * 2
    findings = {}
    for patient in range(2000):
        members = choices[generator.integers(len(choices))]
        findings[f"{patient}"] = [int(generator.choice(members))] if members else []
    pixels = (
        phantom_images(findings, 64, 0)
        .images.reshape(2000, 32, 2, 32, 2)
        .mean((2, 4))
        .reshape(2000, -1)
    )
    for label in chexpert_labels(findings).T:
        model = make_pipeline(StandardScaler(), LogisticRegression(C=1e-3, max_iter=300))
        scores = cross_val_predict(model, pixels, label, cv=5, method="predict_proba")[:, 1]
        assert 0.55 < roc_auc_score(label, scores) < 0.9
