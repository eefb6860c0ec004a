"""Phrases, region scores and retrieval, compared with loops, bilinear sampling and sorting with
ties.
"""

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings

from tests.evaluation.test_retrieval import sorted_rank
from tests.textures import FINDINGS, texture_boxes, texture_source
from trueneg.errors import UserError
from trueneg.evaluation.pairs.grounding import CORNERS, boxed_phrases
from trueneg.evaluation.pairs.region_retrieval import phrase_region_scores, region_retrieval
from trueneg.evaluation.retrieval import Metric

SOURCE = texture_source(patients=30)
CROP = 24
WINDOW = (CROP, CROP)


def test_phrases_are_sentences_with_the_boxes_of_their_class_in_the_crop():
    boxes = texture_boxes(SOURCE)
    # A second box for some, of which the crop (pixels 4 to 28) holds all, a quarter, and too
    # little.
    more = [
        boxes[boxes["class"] == 2].assign(x0=x0, x1=x0 + 8, y0=10, y1=12) for x0 in (10, 26, 27)
    ]
    boxes = pd.concat([boxes, *more], ignore_index=True)
    indices = np.array([17, 3, 4, 25, 0])
    found = boxed_phrases(SOURCE, indices, boxes, WINDOW)
    expected = []
    for place, image in enumerate(indices):
        own = SOURCE.sentences[SOURCE.sentences["report"] == SOURCE.reports[image]].sort_values(
            "index"
        )
        for sentence in own.itertuples():
            if sentence[4] >= len(FINDINGS):  # its class: a denial, or the weather
                continue
            half = (0, 0, 12, CROP) if sentence[4] % 2 == 0 else (12, 0, CROP, CROP)
            second = [(6, 6, 14, 8), (22, 6, 24, 8)] if sentence[4] == 2 else []
            expected += [
                (place, sentence.index, sentence.sentence, sentence[4], *box)
                for box in (half, *second)
            ]
    columns = ["image", "index", "sentence", "class", *CORNERS]
    assert sorted(found[columns].itertuples(index=False, name=None)) == sorted(expected)
    keys = found[["image", "index"]].drop_duplicates()
    assert (found["class"] == 2).any()
    assert found["phrase"].drop_duplicates().tolist() == list(range(len(keys)))
    assert (found.groupby(["image", "index"])["phrase"].nunique() == 1).all()


def test_images_without_boxes_have_no_phrases():
    assert boxed_phrases(SOURCE, np.arange(5), texture_boxes(SOURCE).iloc[:0], WINDOW).empty


def bilinear(grid, y, x):
    """Between the centres of the cells of grid (D, h, w); beyond the outermost ones, their
    value.
    """
    h, w = grid.shape[1:]
    y, x = np.clip(y - 0.5, 0, h - 1), np.clip(x - 0.5, 0, w - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    v, u = y - top, x - left
    upper = (1 - u) * grid[:, top, left] + u * grid[:, top, right]
    return (1 - v) * upper + v * ((1 - u) * grid[:, bottom, left] + u * grid[:, bottom, right])


def box_by_hand(grid, box, crop):
    """The mean over 7 × 7 cells of RoIAlign, each of 2 × 2 points."""
    x0, y0, x1, y1 = box
    shares = (np.arange(14) + 0.5) / 14
    ys, xs = (
        (y0 + shares * (y1 - y0)) * grid.shape[1] / crop[0],
        (x0 + shares * (x1 - x0)) * grid.shape[2] / crop[1],
    )
    return np.mean([bilinear(grid, y, x) for y in ys for x in xs], axis=0)


@st.composite
def worlds(draw):
    """Phrases of few different sentences on some of the images; those of one image and class share
    their boxes.
    """
    seed, images, crop = (
        draw(st.integers(0, 1000)),
        draw(st.integers(1, 4)),
        (draw(st.integers(8, 30)), draw(st.integers(8, 30))),
    )
    generator = np.random.default_rng(seed)
    rows = []
    for image in range(images):
        boxes = {}
        for index in range(generator.integers(0 if image else 1, 4)):
            number = int(generator.integers(2))
            for box in boxes.setdefault(
                number, [_box(generator, crop) for _ in range(generator.integers(1, 3))]
            ):
                rows.append(
                    (image, index, f"Sentence {number} {generator.integers(2)}.", number, *box)
                )
    table = pd.DataFrame(rows, columns=["image", "index", "sentence", "class", *CORNERS])
    table["sentence"] = table.groupby(["image", "index"])["sentence"].transform("first")
    table.insert(0, "phrase", table.groupby(["image", "index"]).ngroup())
    table["region"] = table.groupby(["image", "class"]).ngroup()
    grids = torch.from_numpy(generator.standard_normal((images, 3, *generator.integers(1, 5, 2))))
    texts = torch.from_numpy(generator.standard_normal((table["sentence"].nunique(), 3)))
    return table, grids, texts, crop


def _box(generator, crop):
    height, width = crop
    x0, y0 = generator.uniform(0, width - 2), generator.uniform(0, height - 2)
    return x0, y0, generator.uniform(x0 + 1, width), generator.uniform(y0 + 1, height)


@settings(deadline=None, max_examples=25)
@given(worlds())
def test_scores_are_cosines_with_the_mean_bilinear_sample_of_the_boxes(world):
    phrases, grids, texts, crop = world
    found = phrase_region_scores(texts, grids, phrases, crop)
    different = phrases["sentence"].unique().tolist()
    said, regions = [], []
    for _, own in phrases.groupby("phrase"):
        said.append(texts[different.index(own["sentence"].iloc[0])].numpy())
        grid = grids[int(own["image"].iloc[0])].numpy()
        regions.append(
            np.mean([box_by_hand(grid, box, crop) for box in own[CORNERS].to_numpy()], axis=0)
        )
    expected = [[y @ x / np.linalg.norm(y) / np.linalg.norm(x) for x in regions] for y in said]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@settings(deadline=None, max_examples=40)
@given(worlds())
def test_equal_sentences_and_equal_regions_tie_exactly(world):
    phrases, grids, texts, crop = world
    found = phrase_region_scores(texts.float(), grids.float(), phrases, crop)
    said = phrases.drop_duplicates("phrase").reset_index(drop=True)
    for _, same in said.groupby("sentence"):
        assert (found[same.index] == found[same.index[0]]).all()
    for _, same in said.groupby(["image", "class"]):
        assert (found[:, same.index] == found[:, same.index[:1]]).all()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 9), st.integers(0, 1000))
def test_retrieval_matches_sorting_for_each_relevance_criterion(count, seed):
    generator = np.random.default_rng(seed)
    sentences, classes = generator.integers(3, size=count), generator.integers(2, size=count)
    scores = generator.integers(4, size=(count, count)) / 4  # ties are the rule
    phrases = pd.DataFrame(
        {"phrase": range(count), "sentence": sentences.astype(str), "class": classes}
    )
    # two boxes each
    by_labels = region_retrieval(
        scores, pd.concat([phrases, phrases]).sort_values("phrase"), ks=(1, 2)
    )
    relevances = {
        "pair": (np.eye(count), "against"),
        "pair or tie": (np.eye(count), "for"),
        "sentence": (np.equal.outer(sentences, sentences), "against"),
        "truth": (np.equal.outer(classes, classes), "against"),
    }
    assert list(by_labels) == list(relevances)
    for labels, (relevant, ties) in relevances.items():
        expected = {}
        for direction, table in (("text to image", scores), ("image to text", scores.T)):
            ranks = [
                sorted_rank(table[q].tolist(), relevant[q].tolist(), ties) for q in range(count)
            ]
            expected |= {
                Metric("R", direction, k): np.mean([rank <= k for rank in ranks]) for k in (1, 2)
            }
            expected[Metric("MedR", direction)] = np.median(ranks)
        for name in ("R", "MedR"):
            expected[Metric(name)] = np.mean(
                [value for metric, value in expected.items() if metric.metric == name]
            )
        assert by_labels[labels] == pytest.approx(expected)


def test_unknown_classes_fall_back_to_findings():
    phrases = pd.DataFrame(
        {
            "phrase": [0, 1, 2],
            "sentence": list("abc"),
            "class": -1,
            "finding": ["edema", "mass", "edema"],
        }
    )
    scores = np.array([[0.0, 0.5, 1.0], [0.0, 1.0, 0.5], [0.5, 1.0, 0.0]])
    found = region_retrieval(scores, phrases, ks=(1,))
    assert "truth" not in found
    assert found["pair"][Metric("R", "text to image", 1)] == pytest.approx(1 / 3)
    assert found["finding"][Metric("R", "text to image", 1)] == pytest.approx(2 / 3)


def own_boxes(rows):
    """Phrases that have boxes of their own: image, sentence, finding, corners."""
    table = pd.DataFrame(rows, columns=["image", "sentence", "finding", *CORNERS])
    return table.assign(report=SOURCE.reports[table["image"]], **{"class": -1})


def test_phrases_with_their_own_boxes_need_no_report_sentence():
    """Two boxes of one phrase, the same sentence of another finding, another image; boxes beyond
    the image are judged whole.
    """
    boxes = own_boxes(
        [
            (4, "Here.", "mass", 4, 4, 8, 8),
            (0, "Here.", "mass", 10, 10, 20, 20),
            (4, "Here.", "edema", 4, 4, 8, 8),
            (4, "Here.", "mass", 12, 4, 20, 8),
            (7, "There.", "mass", 4, 4, 8, 8),  # another part's image
            (0, "Beyond.", "mass", -16, 4, 14, 8),  # a third of it lies in the crop
            (0, "Too far.", "mass", -40, 4, 14, 8),  # 10 of 54 columns
        ]
    )
    found = boxed_phrases(SOURCE, np.array([9, 4, 0]), boxes, WINDOW)
    assert (found["class"] == -1).all()
    assert found["region"].tolist() == found["phrase"].tolist() == [0, 0, 1, 2, 3]
    rows = found[["image", "sentence", "finding", *CORNERS]].to_numpy().tolist()
    assert rows == [
        [1, "Here.", "mass", 0, 0, 4, 4],
        [1, "Here.", "mass", 8, 0, 16, 4],
        [1, "Here.", "edema", 0, 0, 4, 4],
        [2, "Here.", "mass", 6, 6, 16, 16],
        [2, "Beyond.", "mass", 0, 0, 10, 4],
    ]
    assert boxed_phrases(SOURCE, np.arange(5), boxes.iloc[:0], WINDOW).empty


def test_phrases_with_their_own_boxes_have_their_own_regions():
    """Equal boxes tie, others of the same image and unknown class do not."""
    half = CROP // 2 + 4
    boxes = own_boxes(
        [
            (0, "A.", "x", 4, 4, half, 28),
            (0, "B.", "x", half, 4, 28, 28),
            (0, "C.", "x", 4, 4, half, 28),
        ]
    )
    phrases = boxed_phrases(SOURCE, np.array([0]), boxes, WINDOW)
    torch.manual_seed(0)
    scores = phrase_region_scores(torch.randn(3, 4), torch.randn(1, 4, 3, 3), phrases, (CROP, CROP))
    np.testing.assert_allclose(scores[:, 0], scores[:, 2], rtol=1e-6)
    assert (np.abs(scores[:, 0] - scores[:, 1]) > 1e-3).all()


@pytest.mark.parametrize("change", [{"report": "R999"}, {"image": 10_000}, {"image": -1}])
def test_boxes_of_another_source_raise_an_error(change):
    boxes = own_boxes([(0, "A.", "x", 4, 4, 8, 8)]).assign(**change)
    with pytest.raises(UserError, match=r"textures: the boxes .* other reports"):
        boxed_phrases(SOURCE, np.array([0]), boxes, WINDOW)
