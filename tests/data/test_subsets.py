"""The splits of a seed, and their file."""

import contextlib
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.data.draw import draw_subsets
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.subsets import image_subset, make_subset
from trueneg.data.imbalance import class_probabilities
from trueneg.data.samples import read_subsets, write_subsets
from trueneg.errors import UserError
from trueneg.specs.kinds.images import ImageStudy

quick = settings(deadline=None, max_examples=40)
NAMES = ("ant", "bee", "cow", "dog")
PARTS = ("pool", "train", "validation", "test")


def source_of(per_class: int, official: int = 0) -> ImageSource:
    """Make `per_class` images of each of four classes; the first `official` of each are official
    test images.
    """
    labels = np.tile(np.arange(4), per_class)
    is_test = np.arange(len(labels)) < 4 * official
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 1, 2, 2), np.uint8)
    return ImageSource("animals", images, labels, is_test, NAMES)


@st.composite
def subsets(draw):
    source = source_of(draw(st.integers(6, 40)), official := draw(st.sampled_from([0, 3])))
    arguments = {
        "seed": draw(st.integers(0, 2**31 - 1)),
        "fraction": draw(st.floats(0.01, 1)),
        "rare_classes": draw(st.sampled_from([(), (0,), ("cow", "dog"), (1, "cow", "ant")])),
        "images_per_class": draw(st.none() | st.integers(1, 45)),
        "validation": draw(st.floats(0.05, 0.5)),
        "test": None if official else draw(st.none() | st.floats(0.05, 0.5)),
    }
    return source, arguments, make_subset(source, **arguments)


@quick
@given(subsets())
def test_the_splits_are_disjoint_and_stratified(drawn):
    source, arguments, subset = drawn
    together = np.concatenate([subset.pool, subset.validation, subset.test])
    assert len(set(together)) == len(together)
    assert set(subset.train) <= set(subset.pool)
    for split in PARTS:
        indices = getattr(subset, split)
        assert indices.dtype == np.int64
        assert (np.diff(indices) > 0).all()
        # Every class is in every split, with equal sizes except for the imbalance.
        counts = np.bincount(source.labels[indices], minlength=4)
        assert counts.min() >= 1
        if split != "train":
            assert len(set(counts)) == 1
    if arguments["images_per_class"] is None:
        assert len(together) == len(source.labels)


@quick
@given(subsets())
def test_the_official_test_images_are_the_test_split_and_nothing_else(drawn):
    source, arguments, subset = drawn
    if source.is_test.any():
        assert subset.test.tolist() == np.flatnonzero(source.is_test).tolist()
    else:
        share = 0.25 if arguments["test"] is None else arguments["test"]
        per_class = len(source.labels) // 4
        assert len(subset.test) == 4 * max(round(share * per_class), 1)


@quick
@given(subsets())
def test_training_images_of_a_class_are_capped_then_subsampled(drawn):
    source, arguments, subset = drawn
    available = len(subset.pool) // 4
    if arguments["images_per_class"] is not None:
        assert available <= arguments["images_per_class"]
    rare = {
        name if isinstance(name, int) else NAMES.index(name) for name in arguments["rare_classes"]
    }
    assert subset.rare_classes == sorted(rare)
    expected = [
        max(round(arguments["fraction"] * available), 1) if c in rare else available
        for c in range(4)
    ]
    assert np.bincount(source.labels[subset.train]).tolist() == expected
    assert (subset.eta_low, subset.eta_high) == class_probabilities(
        arguments["fraction"], 4, len(rare)
    )


@quick
@given(subsets(), st.floats(0.01, 1))
def test_another_fraction_changes_only_the_imbalance(drawn, fraction):
    source, arguments, subset = drawn
    other = make_subset(source, **(arguments | {"fraction": fraction}))
    for split in ("pool", "validation", "test"):
        assert np.array_equal(getattr(subset, split), getattr(other, split))
    smaller, larger = (subset, other) if arguments["fraction"] <= fraction else (other, subset)
    assert set(smaller.train) <= set(larger.train)


@quick
@given(subsets())
def test_a_seed_gives_the_same_subset_again(drawn):
    source, arguments, subset = drawn
    again = make_subset(source, **arguments)
    assert all(np.array_equal(getattr(subset, name), getattr(again, name)) for name in PARTS)


@quick
@given(subsets(), st.integers(1, 30))
def test_unlabelled_images_are_trained_on_and_change_nothing_else(drawn, count):
    source, arguments, subset = drawn
    images = np.concatenate([source.images, np.zeros((count, 1, 2, 2), np.uint8)])
    labels, is_test = (
        np.append(source.labels, np.full(count, -1)),
        np.append(source.is_test, np.zeros(count, bool)),
    )
    more = make_subset(ImageSource("animals", images, labels, is_test, NAMES), **arguments)
    for split in ("pool", "validation", "test"):
        assert np.array_equal(getattr(more, split), getattr(subset, split))
    assert more.train.tolist() == [*subset.train.tolist(), *range(len(source.labels), len(labels))]
    assert (more.train.dtype, more.eta_low) == (np.int64, subset.eta_low)


def test_seeds_give_different_splits():
    first, second = (
        make_subset(source_of(40), seed=seed, fraction=0.5, rare_classes=[0]) for seed in (0, 1)
    )
    for split in PARTS:
        assert not np.array_equal(getattr(first, split), getattr(second, split))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"rare_classes": ["wolf", 1, 9]},
            "rare_classes contains 'wolf', 9; expected classes of animals: ant, bee, cow, dog",
        ),
        ({"rare_classes": [0, 1, 2, 3]}, "rare_classes contains all classes of animals"),
        ({"test": 0.2}, "dataset.test is 0.2, but source animals has an official test split"),
    ],
)
def test_settings_that_do_not_fit_the_source_are_reported(arguments, message):
    with pytest.raises(UserError, match=message):
        make_subset(source_of(10, official=2), seed=0, **arguments)


def test_a_primary_measurement_of_an_unknown_class_is_refused_before_training(tmp_path):
    write_source(source_of(10), tmp_path / "source.npz")
    settings = {
        "source": "animals",
        "fraction": 0.5,
        "rare_classes": ["ant"],
        "images_per_class": None,
        "unlabelled": 0,
    }
    settings |= {"validation": 0.2, "test": 0.2}
    with pytest.raises(UserError, match=r"primary\.group is 'eel'; expected .* ant, bee, cow, dog"):
        draw_subsets(
            ImageStudy,
            tmp_path / "source.npz",
            settings,
            [0],
            tmp_path / "subsets.parquet",
            group="eel",
        )
    for group in (None, "rare", "cow"):
        draw_subsets(
            ImageStudy,
            tmp_path / "source.npz",
            settings,
            [0],
            tmp_path / "subsets.parquet",
            group=group,
        )
        assert read_subsets(tmp_path / "subsets.parquet")


def test_a_class_too_small_to_split_is_reported():
    with pytest.raises(
        UserError, match="class ant has 2 images outside the official splits; expected at least 3"
    ):
        make_subset(source_of(2), seed=0)


@settings(deadline=None, max_examples=15)
@given(subsets())
def test_subsets_are_read_as_they_were_written(tmp_path_factory, drawn):
    source, arguments, subset = drawn
    other = make_subset(source, **(arguments | {"seed": arguments["seed"] + 1}))
    path = tmp_path_factory.mktemp("subsets") / "subsets.parquet"
    write_subsets([subset, other], path)
    back = read_subsets(path)
    assert set(back) == {subset.seed, other.seed}
    for expected in (subset, other):
        actual = back[expected.seed]
        for name, value in vars(expected).items():
            assert np.array_equal(getattr(actual, name), value), name
            assert type(getattr(actual, name)) is type(value), name


def test_the_file_is_a_tidy_table_with_a_description(tmp_path):
    source = source_of(20)
    subset = make_subset(source, seed=3, fraction=0.5, rare_classes=["dog"])
    write_subsets([subset], tmp_path / "subsets.parquet")
    table = pq.read_table(tmp_path / "subsets.parquet")
    rows = table.to_pandas()
    assert list(rows.columns) == ["seed", "split", "index"]
    assert rows[rows.split == "train"]["index"].tolist() == subset.train.tolist()
    (described,) = json.loads(table.schema.metadata[b"subsets"])
    assert described["source_checksum"] == source.checksum
    assert (described["seed"], described["eta_low"], described["eta_high"]) == (
        3,
        subset.eta_low,
        subset.eta_high,
    )


@pytest.mark.parametrize("name", ["pair subsets", "text subsets"])
def test_files_of_exported_studies_are_read(tmp_path, name):
    """Each kind of study used to have its own name for the description."""
    written = make_subset(source_of(10), seed=0)
    write_subsets([written], tmp_path / "subsets.parquet")
    table = pq.read_table(tmp_path / "subsets.parquet")
    description = table.schema.metadata[b"subsets"]
    pq.write_table(table.replace_schema_metadata({name: description}), tmp_path / "old.parquet")
    read = read_subsets(tmp_path / "old.parquet")[0]
    assert all(np.array_equal(getattr(read, part), getattr(written, part)) for part in PARTS)


def test_without_validation_all_images_outside_the_test_split_are_trained_on(tmp_path):
    source = source_of(2, official=1)  # one training image of each class
    subset = make_subset(source, seed=0, validation=0)
    assert subset.train.tolist() == subset.pool.tolist() == np.flatnonzero(~source.is_test).tolist()
    write_subsets([subset, make_subset(source_of(10), seed=1)], tmp_path / "subsets.parquet")
    read = read_subsets(tmp_path / "subsets.parquet")
    assert (read[0].validation.tolist(), read[0].validation.dtype, len(read[1].validation)) == (
        [],
        np.int64,
        4,
    )
    assert all(np.array_equal(getattr(read[0], name), getattr(subset, name)) for name in PARTS)
    with pytest.raises(UserError, match=r"1 images.*at least 2"):
        make_subset(source, seed=0, validation=0.1)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_a_truncated_file_is_reported(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "subsets.parquet"
    subset = make_subset(source_of(10), seed=0)
    write_subsets([subset], path)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(UserError, match=r"subsets.parquet: cannot be read as a table .* Remove it"):
        read_subsets(path)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_flipped_bit_never_changes_indices(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "subsets.parquet"
    subset = make_subset(source_of(10), seed=0)
    write_subsets([subset], path)
    content = bytearray(path.read_bytes())
    footer = 8 + int.from_bytes(content[-8:-4], "little")
    content[data.draw(st.integers(0, len(content) - footer - 1))] ^= 1 << data.draw(
        st.integers(0, 7)
    )
    path.write_bytes(content)
    with contextlib.suppress(UserError):
        back = read_subsets(path)[0]
        assert all(np.array_equal(getattr(back, name), getattr(subset, name)) for name in PARTS)


def test_a_missing_file_or_another_table_is_reported(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        read_subsets(tmp_path / "none.parquet")
    write_subsets([make_subset(source_of(10), seed=0)], tmp_path / "subsets.parquet")
    table = pq.read_table(tmp_path / "subsets.parquet").replace_schema_metadata(None)
    pq.write_table(table, tmp_path / "plain.parquet")
    with pytest.raises(UserError, match="cannot be read as a table of subsets"):
        read_subsets(tmp_path / "plain.parquet")


def test_with_a_test_share_of_0_all_images_are_for_training():
    source = source_of(10, official=3)
    source.labels[::7] = -1  # unlabelled
    settings = {"source": "animals", "test": 0.0, "validation": 0.0}
    subset = image_subset(source, settings, seed=3)
    assert subset.train.tolist() == list(range(40))
    assert not len(subset.test)
    assert not len(subset.validation)
    assert (subset.eta_low, subset.eta_high) == (0.25, 0.25)
