"""Flickr8k: both layouts give the same source, official splits and ratings; errors name the file
and the line or row.
"""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.data.official_layouts import photograph_table
from tests.data.pictures import encoded, picture
from trueneg.data.draw import draw_subsets
from trueneg.data.image_cache import decode_square
from trueneg.data.pairs.flickr8k import SOURCE, WITHOUT_IMAGE, read_ratings
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.pair_splits import official_subset
from trueneg.data.pairs.registry import prepare_pairs, write_captions
from trueneg.data.samples import SPLITS, read_subsets
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.kinds.pairs import ImageTextStudy

SPLIT_OF = {
    f"{100 + number}_a.jpg": split
    for number, split in enumerate(["train"] * 5 + ["validation"] * 2 + ["test"] * 2)
}
NAMES = [*SPLIT_OF, "200_b.jpg"]  # the last is in no split
RATINGS = [
    ("107_a.jpg", "100_a.jpg", 2, 1, 1, 2),
    ("107_a.jpg", "107_a.jpg", 2, 4, 4, 3),
    ("200_b.jpg", "108_a.jpg", 2, 1, 2, 1),
]


def captions_of(name):
    return [f"Caption {number} of {name} ." for number in range(5)]


def content_of(name):
    return encoded(picture(NAMES.index(name), 50, 40), "JPEG")


def write_ratings(path):
    path.write_text(
        "".join(
            f"{image}\t{other}#{number}\t{a}\t{b}\t{c}\n"
            for image, other, number, a, b, c in RATINGS
        )
    )


def write_official(folder):
    (folder / "Flicker8k_Dataset").mkdir(parents=True)
    for name in NAMES:
        (folder / "Flicker8k_Dataset" / name).write_bytes(content_of(name))
    ids = [
        (name, number, caption)
        for name in (*NAMES, WITHOUT_IMAGE)
        for number, caption in enumerate(captions_of(name))
    ]
    # As in the real file, the captions of an image need not be in the order of their ids.
    lines = [
        f"{name}#{number}\t{caption.replace(' ', '  ', 1)}\n"
        for name, number, caption in reversed(ids)
    ]
    (folder / "Flickr8k.token.txt").write_text("".join(lines))
    for split, part in (("train", "train"), ("validation", "dev"), ("test", "test")):
        names = [name for name in SPLIT_OF if SPLIT_OF[name] == split]
        (folder / f"Flickr_8k.{part}Images.txt").write_text("\n".join(names) + "\n")
    write_ratings(folder / "ExpertAnnotations.txt")


def parquet_table():
    splits = [SPLIT_OF.get(name, "unassigned") for name in NAMES]
    return photograph_table(
        {name: content_of(name) for name in NAMES}, list(map(captions_of, NAMES)), splits
    )


def write_as_parquet(folder):
    folder.mkdir(parents=True)
    table = parquet_table()
    pq.write_table(table.slice(0, 6), folder / "flickr8k-0.parquet", row_group_size=4)
    pq.write_table(table.slice(6), folder / "flickr8k-1.parquet")
    write_ratings(folder / "ExpertAnnotations.txt")


WRITERS = {"official": write_official, "parquet": write_as_parquet}


@pytest.fixture(params=WRITERS)
def data(request, tmp_path):
    folder = tmp_path / "data"
    WRITERS[request.param](folder)
    return folder


@pytest.fixture
def official(tmp_path):
    write_official(tmp_path / "data")
    return tmp_path / "data"


def prepare(folder, out, *, eta=None, **changes):
    settings = {"source": "flickr8k", "path": folder, "images": None, "resolution": 16} | changes
    out.mkdir(exist_ok=True)
    write_captions(
        settings,
        sentences=out / "sentences.parquet",
        unique=out / "unique.parquet",
        cache=out / "split",
    )
    text = {"sentences": out / "sentences.parquet"} | ({} if eta is None else {"eta": eta})
    prepare_pairs(settings, text, out / "pairs.npz", cache=out / "cache", threads=1)
    return read_pairs(out / "pairs.npz")


def test_a_photograph_has_its_five_captions_in_order(data, tmp_path):
    source = prepare(data, tmp_path / "out")
    assert source.reports.tolist() == NAMES
    assert source.patients.tolist() == NAMES
    for name, pixels in zip(NAMES, source.images, strict=True):
        np.testing.assert_array_equal(pixels, decode_square(content_of(name), "RGB", 16))
        captions = source.sentences[source.sentences["report"] == name]
        assert captions["index"].tolist() == [0, 1, 2, 3, 4]
        assert captions["sentence"].tolist() == captions_of(name)
    assert (source.sentences["class"] == -1).all()
    assert source.shown.shape == source.labels.shape == (10, 0)


def test_both_layouts_are_the_same_source(tmp_path):
    checksums = []
    for name, write in WRITERS.items():
        write(tmp_path / name)
        checksums.append(prepare(tmp_path / name, tmp_path / f"{name} out").checksum)
    assert checksums[0] == checksums[1]


def test_captions_are_written_for_the_text_steps(data, tmp_path):
    tables = {name: tmp_path / f"{name}.parquet" for name in ("sentences", "unique")}
    write_captions({"source": "flickr8k", "path": data}, **tables, cache=tmp_path / "split")
    table, restricted = privacy.read_table(tmp_path / "sentences.parquet")
    assert not restricted
    assert table.columns.tolist() == ["report", "patient", "index", "sentence", "marked"]
    assert len(table) == 50
    counts = privacy.read_table(tmp_path / "unique.parquet")[0]
    assert counts["count"].sum() == 50
    eta = table[["report", "index"]].assign(eta=np.linspace(0, 0.2, 50))
    privacy.write_table(
        eta.sample(frac=1, random_state=0), tmp_path / "eta.parquet", restricted=False
    )
    source = prepare(data, tmp_path / "out", eta=tmp_path / "eta.parquet")
    np.testing.assert_array_equal(source.sentences["eta"], np.linspace(0, 0.2, 50))


def test_the_official_splits_become_the_subsets_of_every_seed(data, tmp_path):
    out = tmp_path / "out"
    source = prepare(data, out)
    draw_subsets(
        ImageTextStudy,
        out / "pairs.npz",
        {},
        [0, 3],
        tmp_path / "subsets.parquet",
        out / "pairs-splits.parquet",
    )
    subsets = read_subsets(tmp_path / "subsets.parquet")
    assert set(subsets) == {0, 3}
    for subset in subsets.values():
        for split in SPLITS:
            assert source.reports[getattr(subset, split)].tolist() == [
                name for name in SPLIT_OF if SPLIT_OF[name] == split
            ]


def test_ratings_name_images_and_captions_of_the_source(data, tmp_path):
    prepare(data, tmp_path / "out")
    ratings = privacy.read_table(tmp_path / "out" / "pairs-ratings.parquet")[0]
    assert ratings.columns.tolist() == [
        "image",
        "report",
        "index",
        "rating 1",
        "rating 2",
        "rating 3",
    ]
    assert ratings.to_numpy().tolist() == [list(row) for row in RATINGS]
    assert ratings["rating 1"].dtype == np.int64


def test_the_number_of_photographs_can_be_limited(data, tmp_path):
    source = prepare(data, tmp_path / "out", images=9)
    assert source.reports.tolist() == NAMES[:9]
    ratings = privacy.read_table(tmp_path / "out" / "pairs-ratings.parquet")[0]
    assert len(ratings) == 2  # the third is of the photograph that is left out
    with pytest.raises(
        UserError, match=r"dataset\.images is 11; expected at most 10, the number of photographs"
    ):
        prepare(data, tmp_path / "out", images=11)


def test_too_few_photographs_for_the_splits_are_refused(data, tmp_path):
    out = tmp_path / "out"
    prepare(data, out, images=6)
    with pytest.raises(UserError, match="no image is in the official test split"):
        draw_subsets(
            ImageTextStudy,
            out / "pairs.npz",
            {},
            [0],
            tmp_path / "subsets.parquet",
            out / "pairs-splits.parquet",
        )


def test_official_splits_that_share_patients_are_refused(data, tmp_path):
    source = prepare(data, tmp_path / "out")
    splits = privacy.read_table(tmp_path / "out" / "pairs-splits.parquet")[0]
    shared = np.where(np.isin(source.patients, ["100_a.jpg", "107_a.jpg"]), "one", source.patients)
    with pytest.raises(
        UserError, match="1 of 2 test samples have the same patients as samples of train"
    ):
        official_subset(dataclasses.replace(source, patients=shared), splits, seed=0)


def test_captions_of_other_files_are_refused(data, tmp_path):
    prepare(data, tmp_path)
    table, sentences = (
        privacy.read_table(tmp_path / "sentences.parquet")[0],
        tmp_path / "sentences.parquet",
    )
    privacy.write_table(table.iloc[5:], sentences, restricted=False)
    settings = {"source": "flickr8k", "path": data, "images": None, "resolution": 16}
    with pytest.raises(
        UserError, match="1 images have reports without sentences; the first is image 0"
    ):
        prepare_pairs(
            settings,
            {"sentences": sentences},
            tmp_path / "pairs.npz",
            cache=tmp_path / "cache",
            threads=1,
        )


def add_line(path, line):
    path.write_text(path.read_text() + line + "\n")


@pytest.mark.parametrize(
    ("file", "line", "message"),
    [
        (
            "Flickr8k.token.txt",
            "100_a.jpg#7\tA dog .",
            r"token\.txt: line 56 is not an image's name, #, 0 to 4, a tab",
        ),
        ("Flickr8k.token.txt", "300_c.jpg#0\t ", r"token\.txt: line 56 is not an image's name"),
        ("Flickr8k.token.txt", "100_a.jpg#1\tA dog .", r"line 56: caption's id repeats"),
        (
            "Flickr8k.token.txt",
            "300_c.jpg#0\tA dog .",
            r"300_c\.jpg: captions is \['A dog \.'\]; expected 5 texts",
        ),
        (
            "Flickr_8k.testImages.txt",
            "100_a.jpg",
            r"testImages\.txt: line 3: image is '100_a\.jpg'; .* in no other split",
        ),
        (
            "Flickr_8k.devImages.txt",
            "300_c.jpg",
            r"token\.txt: no captions for 300_c\.jpg, which is in the validation split",
        ),
    ],
)
def test_invalid_lines_are_named(official, file, line, message):
    add_line(official / file, line)
    with pytest.raises(UserError, match=message):
        SOURCE.read(official)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "100_a.jpg\t101_a.jpg#2\t1\t2\t5",
            r"ExpertAnnotations\.txt: line 4 is not an image, a caption's id and three ratings",
        ),
        ("100_a.jpg\t101_a.jpg#2\t1\t2", r"line 4 is not an image"),
        ("107_a.jpg\t100_a.jpg#2\t1\t1\t1", "line 4 .*pair.* earlier line"),
    ],
)
def test_invalid_ratings_are_named(data, line, message):
    add_line(data / "ExpertAnnotations.txt", line)
    with pytest.raises(UserError, match=message):
        read_ratings(data)


def test_ratings_of_unknown_images_are_refused(data, tmp_path):
    add_line(data / "ExpertAnnotations.txt", "300_c.jpg\t100_a.jpg#2\t1\t1\t1")
    with pytest.raises(
        UserError, match=r"rates 1 images that are missing from the folder, such as 300_c\.jpg"
    ):
        prepare(data, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Flickr_8k.devImages.txt",
            r"devImages\.txt is missing; .*validation images \(found .*Flickr8k_text\.zip",
        ),
        (
            "ExpertAnnotations.txt",
            r"ExpertAnnotations\.txt is missing; .*ratings \(found .*Flickr8k_text\.zip",
        ),
        (
            "Flicker8k_Dataset/103_a.jpg",
            r"103_a\.jpg is missing; expected an image.*Flickr8k_Dataset\.zip",
        ),
        ("Flickr8k.token.txt", r"token\.txt is missing; .*captions \(found .*Flickr8k_text\.zip"),
    ],
)
def test_missing_files_are_named(official, tmp_path, name, message):
    (official / name).unlink()
    with pytest.raises(UserError, match=message):
        prepare(official, tmp_path / "out")


def test_the_texts_may_be_in_their_own_folder(official, tmp_path):
    expected = prepare(official, tmp_path / "out").checksum
    (official / "Flickr8k_text").mkdir()
    for path in official.glob("*.txt"):
        path.rename(official / "Flickr8k_text" / path.name)
    assert prepare(official, tmp_path / "again").checksum == expected


def replaced(table, name, row, value):
    values = table.column(name).to_pylist()
    values[row] = value
    return table.set_column(
        table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type)
    )


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("captions", ["One."] * 4, r"row 3 \(the first is 0\): captions is .*; expected 5 texts"),
        (
            "captions",
            ["One.", " ", "Two.", "Three.", "Four."],
            r"row 3 .*: captions is .*; expected 5 texts",
        ),
        (
            "split",
            "dev",
            r"row 3 .*: split is 'dev'; expected one of train, validation, test, unassigned",
        ),
        (
            "image",
            {"bytes": b"", "path": None},
            r"row 3 .*: image is (nan|None); expected the name",
        ),
        ("image", {"bytes": b"", "path": "101_a.jpg"}, r"row 3 .*: image repeats"),
    ],
)
def test_invalid_rows_are_named(tmp_path, column, value, message):
    pq.write_table(replaced(parquet_table(), column, 3, value), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=message):
        SOURCE.read(tmp_path)


def test_parquet_files_with_other_columns_or_damage_are_rejected(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(parquet_table().drop_columns("split"), path)
    with pytest.raises(
        UserError, match=r"a\.parquet: .* columns image: struct.*split: string \(KeyError: .*split"
    ):
        SOURCE.read(tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UserError, match=r"a\.parquet: cannot be read as a parquet file"):
        SOURCE.read(tmp_path)


@pytest.mark.skipif(
    "TRUENEG_FLICKR8K" not in os.environ, reason="TRUENEG_FLICKR8K names no folder of Flickr8k"
)
def test_the_real_collection(tmp_path):
    folder = Path(os.environ["TRUENEG_FLICKR8K"])
    (photographs, _), ratings = SOURCE.read(folder), read_ratings(folder)
    assert len(photographs) == 8_091
    counts = photographs["split"].value_counts()
    assert counts.to_dict() == {
        "train": 6_000,
        "validation": 1_000,
        "test": 1_000,
        "unassigned": 91,
    }
    assert len(ratings) == 5_822
    assert set(ratings["image"]) == set(photographs.loc[photographs["split"] == "test", "image"])
    same, rated = (
        ratings["image"] == ratings["report"],
        [f"rating {number}" for number in (1, 2, 3)],
    )
    # A caption describes its own image better; otherwise, captions would be numbered wrongly.
    assert (
        ratings.loc[same, rated].to_numpy().mean()
        > 3
        > 2
        > ratings.loc[~same, rated].to_numpy().mean()
    )
    source = prepare(folder, tmp_path / "out", images=100, resolution=32)
    assert source.images.shape == (100, 3, 32, 32)
    assert source.images.std() > 40
    assert len(source.sentences) == 500
