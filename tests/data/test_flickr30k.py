"""Flickr30k: every layout gives the same source with Karpathy's or ReCo's splits; errors name the
file and the line or row.
"""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.data.official_layouts import (
    flickr30k_captions,
    flickr30k_splits,
    photograph_table,
    write_flickr30k,
)
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs.flickr30k import SOURCE, missing_files, select_splits
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.pair_splits import official_subset
from trueneg.data.pairs.registry import prepare_pairs, write_captions
from trueneg.data.samples import SPLITS
from trueneg.errors import UserError
from trueneg.io import privacy

SPLIT_OF = {
    name: {"val": "validation", "": "unassigned"}.get(split, split)
    for name, split in flickr30k_splits().items()
}
KARPATHY, TOKENS, KAGGLE = "dataset_flickr30k.json", "results_20130124.token", "results.csv"


def write_as_parquet(folder):
    write_flickr30k(folder / "official")
    contents = {
        name: (folder / "official" / "flickr30k-images" / name).read_bytes() for name in SPLIT_OF
    }
    table = photograph_table(
        contents, [flickr30k_captions(name) for name in SPLIT_OF], list(SPLIT_OF.values())
    )
    pq.write_table(table, folder / "flickr30k.parquet")


WRITERS = {
    "official": write_flickr30k,
    "kaggle": lambda folder: write_flickr30k(
        folder, captions="kaggle", images="flickr30k_images/flickr30k_images"
    ),
    "parquet": write_as_parquet,
}


@pytest.fixture
def official(tmp_path):
    (tmp_path / "data").mkdir()
    write_flickr30k(tmp_path / "data")
    return tmp_path / "data"


def prepare(folder, out, **changes):
    settings = {
        "source": "flickr30k",
        "path": folder,
        "images": None,
        "resolution": 16,
        "split": "karpathy",
    } | changes
    out.mkdir(exist_ok=True)
    tables = {name: out / f"{name}.parquet" for name in ("sentences", "unique", "pairs-splits")}
    write_captions(
        settings, sentences=tables["sentences"], unique=tables["unique"], cache=out / "split"
    )
    prepare_pairs(
        settings,
        {"sentences": tables["sentences"]},
        out / "pairs.npz",
        cache=out / "cache",
        threads=1,
    )
    return read_pairs(out / "pairs.npz"), privacy.read_table(tables["pairs-splits"])[0]


@pytest.mark.parametrize("layout", WRITERS)
def test_every_layout_is_the_same_source(tmp_path, layout):
    (tmp_path / "data").mkdir()
    WRITERS[layout](tmp_path / "data")
    source, splits = prepare(tmp_path / "data", tmp_path / "out")
    assert source.name == "flickr30k"
    assert not source.restricted
    assert source.reports.tolist() == source.patients.tolist() == list(SPLIT_OF)
    for name, pixels in zip(SPLIT_OF, source.images, strict=True):
        (path,) = (tmp_path / "data").rglob(name)
        np.testing.assert_array_equal(pixels, decode_square(path.read_bytes(), "RGB", 16))
        captions = source.sentences[source.sentences["report"] == name]
        assert captions["sentence"].tolist() == flickr30k_captions(name)
        assert captions["index"].tolist() == [0, 1, 2, 3, 4]
    assert splits.set_index("report")["split"].to_dict() == SPLIT_OF


def test_captions_are_read_from_karpathys_file_if_there_are_no_others(tmp_path):
    write_flickr30k(tmp_path, captions="json", images="images")
    source, splits = prepare(tmp_path, tmp_path / "out")
    assert source.reports.tolist() == [
        name for name, split in SPLIT_OF.items() if split != "unassigned"
    ]
    assert splits["split"].tolist() == [
        split for split in SPLIT_OF.values() if split != "unassigned"
    ]
    with pytest.raises(
        UserError, match=r"all 10 photographs, .*results_20130124\.token.*dataset\.split"
    ):
        select_splits(SOURCE.read(tmp_path)[0], "reco", tmp_path)


@pytest.mark.parametrize("layout", ["official", "parquet"])
def test_recos_split_tests_on_karpathys_test_photographs_and_validates_on_unassigned_ones(
    tmp_path, layout
):
    (tmp_path / "data").mkdir()
    WRITERS[layout](tmp_path / "data")
    source, splits = prepare(tmp_path / "data", tmp_path / "out", split="reco")
    moved = {"validation": "train", "unassigned": "validation"}
    assert splits.set_index("report")["split"].to_dict() == {
        name: moved.get(split, split) for name, split in SPLIT_OF.items()
    }
    subset = official_subset(source, splits, seed=0)
    assert [len(getattr(subset, name)) for name in SPLITS] == [8, 2, 2]


def test_the_malformed_line_of_kaggles_file_is_read(tmp_path):
    write_flickr30k(tmp_path, captions="kaggle")
    renamed = {"1003.jpg": "2199200615.jpg"}
    (tmp_path / "flickr30k-images" / "1003.jpg").rename(
        tmp_path / "flickr30k-images" / renamed["1003.jpg"]
    )
    for name in (KAGGLE, KARPATHY):
        text = (tmp_path / name).read_text().replace("1003.jpg", renamed["1003.jpg"])
        (tmp_path / name).write_text(
            text.replace("2199200615.jpg| 4| Caption", "2199200615.jpg| 4   Caption")
        )
    assert "2199200615.jpg| 4   Caption 4 of 2199200615.jpg .\n" in (tmp_path / KAGGLE).read_text()
    captions = SOURCE.read(tmp_path)[0].set_index("image")["captions"]
    assert captions["2199200615.jpg"] == flickr30k_captions("2199200615.jpg")


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            TOKENS,
            "1001.jpg#2\t",
            "1001.jpg 2 ",
            r"results_20130124\.token: line 8 is not an image's name, #, 0 to 4, a tab",
        ),
        (TOKENS, "1001.jpg#2", "1001.jpg#1", r"line 8: caption's id repeats"),
        (
            TOKENS,
            "1001.jpg",
            "999.jpg",
            r"no captions for 1001\.jpg, which is in the train split",
        ),
        (
            KAGGLE,
            "1001.jpg| 2| ",
            "1001.jpg| 2 ",
            r"results\.csv: line 9 is not an image's name, \|, 0 to 4, \| and a caption",
        ),
        (
            KAGGLE,
            "1001.jpg| 2| Caption 2 of 1001.jpg .",
            "1001.jpg| 2| ",
            r"results\.csv: line 9 is not an image's name",
        ),
        (
            KARPATHY,
            '"train"',
            '"first"',
            r"image 0 \(the first is 0\): split is 'first'; expected .* train, validation, test",
        ),
        (KARPATHY, '"1001.jpg"', '"1000.jpg"', r"image 1 .*: image repeats"),
        (
            KARPATHY,
            '"filename"',
            '"file"',
            r"dataset_flickr30k\.json: .* Karpathy's splits \(KeyError: 'filename'",
        ),
        (
            KARPATHY,
            '"raw": "Caption 3 of 1004.jpg ."',
            '"raw": ""',
            r"image 4 .*: captions is .*; expected 5 texts",
        ),
    ],
)
def test_invalid_lines_and_rows_are_named(tmp_path, file, old, new, message):
    write_flickr30k(tmp_path, captions="kaggle" if file == KAGGLE else "token")
    text = (tmp_path / file).read_text()
    assert old in text
    everywhere = file == TOKENS and new == "999.jpg"
    (tmp_path / file).write_text(
        text.replace(old, new) if everywhere else text.replace(old, new, 1)
    )
    with pytest.raises(UserError, match=message) as error:
        SOURCE.read(tmp_path)
    page = (
        "cs.stanford.edu/people/karpathy"
        if file == KARPATHY
        else "the form at https://shannon.cs.illinois.edu"
    )
    assert page in str(error.value)


def test_missing_and_damaged_files_are_named(official, tmp_path):
    (official / "flickr30k-images" / "1004.jpg").unlink()
    with pytest.raises(
        UserError, match=r"1004\.jpg is missing; .* Request Flickr30k with the form"
    ):
        prepare(official, tmp_path / "out")
    (official / "flickr30k-images").rename(official / "photographs")
    with pytest.raises(
        UserError,
        match=r"flickr30k-images is missing; .*photographs \(found .*\)\. Request Flickr30k",
    ):
        SOURCE.read(official)
    (official / "photographs").rename(official / "images")
    whole = (official / KARPATHY).read_text()
    (official / KARPATHY).write_text(whole[:-100])
    with pytest.raises(
        UserError,
        match=r"dataset_flickr30k\.json: .* \(JSONDecodeError.*caption_datasets\.zip \(https://cs",
    ):
        SOURCE.read(official)
    (official / KARPATHY).write_text(json.dumps({"images": []}))
    with pytest.raises(UserError, match=r"dataset_flickr30k\.json .*no photographs"):
        SOURCE.read(official)
    (official / KARPATHY).unlink()
    with pytest.raises(
        UserError,
        match=r"dataset_flickr30k\.json is missing; .*\(found .*\)\. It is in caption_datasets",
    ):
        SOURCE.read(official)
    with pytest.raises(
        UserError,
        match=r"dataset\.path is missing; source flickr30k expects .*dataset_flickr30k\.json",
    ):
        SOURCE.read(None)


def test_missing_files_are_listed_with_their_origin(official, tmp_path):
    splits, images = missing_files({"path": tmp_path / "no"})
    assert splits.startswith("dataset_flickr30k.json (")
    assert "https://cs.stanford.edu/people/karpathy/deepimagesent/" in splits
    assert images.startswith("flickr30k-images (")
    assert "https://shannon.cs.illinois.edu/DenotationGraph/" in images
    assert missing_files({"path": official}) == []
