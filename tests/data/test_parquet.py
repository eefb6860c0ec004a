"""Own images in parquet files in the layout of dataset hubs, whole and damaged."""

import contextlib
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from trueneg.data.images import pixels
from trueneg.data.images.labels import refuse_ambiguous
from trueneg.data.images.loading import load_source
from trueneg.errors import UserError

IMAGE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def random_images(count, shape=(4, 5, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8)


def encoded(pixels, kind="PNG", **options) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **options)
    return stream.getvalue()


def write(path, contents, labels, column="img", metadata=None, **options):
    images = pa.array([{"bytes": content, "path": None} for content in contents], IMAGE)
    table = pa.table({column: images, "label": pa.array(labels)}).replace_schema_metadata(metadata)
    pq.write_table(table, path, **options)


def load(path, **options):
    return load_source("parquet", path=path, **options)


@pytest.mark.parametrize("column", ["img", "image"])
def test_lossless_images_are_read_unchanged(tmp_path, column):
    images = random_images(7)
    write(tmp_path / "train.parquet", map(encoded, images[:5]), [0, 1, 2, 1, 0], column)
    write(tmp_path / "test.parquet", map(encoded, images[5:]), [2, 1], column)
    source = load(tmp_path)
    assert np.array_equal(source.images, images.transpose(0, 3, 1, 2))
    assert source.labels.tolist() == [0, 1, 2, 1, 0, 2, 1]
    assert source.is_test.tolist() == [False] * 5 + [True] * 2
    assert source.class_names == ("0", "1", "2")


def test_images_keep_their_order_across_threads_batches_row_groups_and_shards(tmp_path, monkeypatch):
    monkeypatch.setattr(pixels, "IMAGES_PER_BATCH", 300)
    images = random_images(1500, (2, 2, 3))
    labels = np.arange(1500) % 10
    for shard in range(3):
        part = slice(500 * shard, 500 * (shard + 1))
        path = tmp_path / f"train-0000{shard}-of-00003.parquet"
        write(path, map(encoded, images[part]), labels[part], row_group_size=170)
    source = load(tmp_path)
    assert np.array_equal(source.images, images.transpose(0, 3, 1, 2))
    assert np.array_equal(source.labels, labels)
    assert not source.is_test.any()


def test_jpeg_decodes_as_pillow_does(tmp_path):
    content = encoded(random_images(1, (16, 16, 3))[0], "JPEG", quality=75)
    write(tmp_path / "train.parquet", [content], [0])
    expected = np.asarray(Image.open(io.BytesIO(content)).convert("RGB")).transpose(2, 0, 1)
    assert np.array_equal(load(tmp_path).images[0], expected)


def test_files_may_name_the_image_column_differently(tmp_path):
    images = random_images(3)
    write(tmp_path / "train.parquet", map(encoded, images[:2]), [0, 1], "img")
    write(tmp_path / "test.parquet", map(encoded, images[2:]), [1], "image")
    assert np.array_equal(load(tmp_path).images.transpose(0, 2, 3, 1), images)


def test_the_first_image_determines_greyscale_or_rgb(tmp_path):
    grey, colour = random_images(1, (4, 4))[0], random_images(1, (4, 4, 3))[0]
    write(tmp_path / "train.parquet", [encoded(grey), encoded(colour)], [0, 0])
    assert np.array_equal(load(tmp_path).images[0], grey[None])
    assert load(tmp_path).images.shape == (2, 1, 4, 4)
    write(tmp_path / "train.parquet", [encoded(colour), encoded(grey)], [0, 0])
    assert np.array_equal(load(tmp_path).images[1], np.stack([grey] * 3))


def test_images_of_several_sizes_need_a_resolution(tmp_path):
    contents = [encoded(np.full((6, 6 + extra, 3), 50 * extra, np.uint8)) for extra in range(3)]
    write(tmp_path / "train.parquet", contents, [0, 0, 0])
    message = r"train.parquet, row 1 .* is 7 × 6 pixels; expected 6 × 6 .* dataset.resolution"
    with pytest.raises(UserError, match=message):
        load(tmp_path)
    source = load(tmp_path, resolution=3)
    assert source.images.shape == (3, 3, 3, 3)
    assert [np.unique(image).tolist() for image in source.images] == [[0], [50], [100]]


def test_sizes_are_compared_across_files(tmp_path):
    write(tmp_path / "train.parquet", [encoded(random_images(1, (4, 4, 3))[0])], [0])
    write(tmp_path / "test.parquet", [encoded(random_images(1, (4, 5, 3))[0])], [0])
    with pytest.raises(UserError, match=r"test.parquet, row 0 .* is 5 × 4 pixels; expected 4 × 4"):
        load(tmp_path)


def test_class_names_come_from_the_metadata_of_the_hub(tmp_path):
    features = {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    contents = list(map(encoded, random_images(2)))
    write(tmp_path / "train.parquet", contents, [0, 0], metadata=metadata)
    assert load(tmp_path).class_names == ("cat", "dog")
    write(tmp_path / "train.parquet", contents, [0, 2], metadata=metadata)
    with pytest.raises(UserError, match=r"the label in row 1 .* is 2; expected 0 to 1"):
        load(tmp_path)


@pytest.mark.parametrize("metadata", [{"huggingface": "no JSON"}, {"huggingface": "[1]"}, {"other": "x"}])
def test_metadata_without_class_names_is_ignored(tmp_path, metadata):
    write(tmp_path / "train.parquet", map(encoded, random_images(2)), [0, 1], metadata=metadata)
    assert load(tmp_path).class_names == ("0", "1")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, -1], r"the label in row 1 .* is -1; expected 0 or more"),
        ([None, 0], r"the label in row 0 .* is nan; expected 0 or more"),
        ([0, 2], "labels go up to 2, but no image has label 1"),
        ([1, 1], "labels go up to 1, but no image has label 0"),
        (["cat", None], r"the label in row 1 .* is None; expected the name of a class"),
        (["cat", " "], r"the label in row 1 .* is ' '; expected the name of a class"),
        (["cat", "d\nog"], r"the label in row 1 .* is 'd\\nog'; expected the name of a class"),
        ([0.0, 1.0], "label: double; expected .* label: int64"),
    ],
)
def test_wrong_labels_are_reported(tmp_path, labels, message):
    write(tmp_path / "train.parquet", map(encoded, random_images(2)), labels)
    with pytest.raises(UserError, match=message):
        load(tmp_path)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_labels_may_be_class_names_which_are_numbered_in_sorted_order(tmp_path, kind):
    images = list(map(encoded, random_images(5)))
    write(tmp_path / "train.parquet", images[:3], pa.array(["dog", "Bär", "dog"]).cast(kind))
    write(tmp_path / "test.parquet", images[3:], pa.array(["cat", "Ba\u0308r"]).cast(kind))  # the same name, written differently
    source = load(tmp_path)
    assert source.class_names == ("Bär", "cat", "dog")
    assert source.labels.tolist() == [2, 0, 2, 1, 0]
    assert source.labels.dtype == np.int64


def test_class_names_that_are_numbers_are_sorted_by_value(tmp_path):
    write(tmp_path / "train.parquet", map(encoded, random_images(3)), ["10", "9", "2"])
    assert load(tmp_path).class_names == ("2", "9", "10")


def test_class_names_follow_the_metadata_of_the_hub(tmp_path):
    features = {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    contents = list(map(encoded, random_images(2)))
    write(tmp_path / "train.parquet", contents, ["cat", "dog"], metadata=metadata)
    assert load(tmp_path).labels.tolist() == [1, 0]
    write(tmp_path / "train.parquet", contents, ["cat", "cow"], metadata=metadata)
    with pytest.raises(UserError, match=r"the label in row 1 .* is 'cow'; expected .*: dog, cat"):
        load(tmp_path)


def test_files_with_numbers_and_files_with_names_do_not_mix(tmp_path):
    write(tmp_path / "train.parquet", map(encoded, random_images(2)), ["cat", "dog"])
    write(tmp_path / "test.parquet", map(encoded, random_images(2)), [0, 1])
    with pytest.raises(UserError, match="label is a number in some files and a name in others"):
        load(tmp_path)


def test_a_number_that_names_one_class_and_counts_another_is_ambiguous():
    refuse_ambiguous([0, 1, "2", "cat"], ("0", "1", "2"))
    refuse_ambiguous([5, 0], ("cat", "dog"))
    for names in (("1", "2", "3"), ("001", "002", "003"), ("2", "1", "0")):
        with pytest.raises(UserError, match=r"rare_classes contains 2, but the class named 0*2 is number [01]"):
            refuse_ambiguous([2], names)


def test_labels_may_have_any_integer_type(tmp_path):
    write(tmp_path / "train.parquet", map(encoded, random_images(2)), np.array([1, 0], np.uint8))
    assert load(tmp_path).labels.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"photo": pa.array([b""]), "label": [0]},
            "has the columns photo: binary, label: int64; expected img or",
        ),
        ({"img": pa.array([None], IMAGE)}, "expected img or image: .* and label: int64"),
        ({"img": pa.array([b"x"]), "label": [0]}, "img: binary, label: int64; expected .*struct<bytes: binary"),
        ({"image": pa.array([{"path": "x.png"}]), "label": [0]}, "image: struct<path: string>, label: int64; expected"),
    ],
)
def test_wrong_columns_are_reported(tmp_path, table, message):
    pq.write_table(pa.table(table), tmp_path / "train.parquet")
    with pytest.raises(UserError, match=message):
        load(tmp_path)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (None, "has no readable content"),
        (b"", "is neither a PNG nor a JPEG image"),
        (b"GIF89a" + bytes(100), "is neither a PNG nor a JPEG image"),
        (encoded(random_images(1)[0])[:-40], "is damaged"),
        (encoded(random_images(1)[0], "JPEG")[:-40], "is damaged"),
        (encoded(random_images(1, (4, 5))[0].astype(np.uint16)), "has pixels of mode I(;16)?; expected 8 bits"),
    ],
)
@pytest.mark.parametrize("row", [0, 700])
def test_an_unusable_image_is_reported_with_its_row(tmp_path, broken, message, row):
    contents = [encoded(random_images(1)[0])] * 1000
    contents[row] = contents[900] = broken  # the first of the two is reported
    write(tmp_path / "train.parquet", contents, [0] * 1000)
    with pytest.raises(UserError, match=rf"train.parquet, row {row} \(the first is 0\).* {message}"):
        load(tmp_path)


def test_missing_files_are_reported(tmp_path):
    with pytest.raises(UserError, match=r"dataset.path is missing; source parquet expects a folder with train\*"):
        load(None)
    with pytest.raises(UserError, match=r"no train\*.parquet \(found no such folder\)"):
        load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"\(found an empty folder\)"):
        load(tmp_path)
    for name in "abcdefg":
        (tmp_path / name).touch()
    with pytest.raises(UserError, match=r"\(found a, b, c, d, e and 2 more\)"):
        load(tmp_path)
    with pytest.raises(UserError, match="is a file; expected a folder"):
        load(tmp_path / "a")
    with pytest.raises(UserError, match="source parquet reads your own files"):
        load(tmp_path, download=True)


def test_missing_shards_and_empty_tables_are_reported(tmp_path):
    write(tmp_path / "train-00001-of-00003.parquet", [], pa.array([], pa.int64()))
    with pytest.raises(UserError, match="1 of the 3 files of the train split"):
        load(tmp_path)
    (tmp_path / "train-00001-of-00003.parquet").rename(tmp_path / "train.parquet")
    with pytest.raises(UserError, match=r"train.parquet has 0 of 1 images in the train split"):
        load(tmp_path)


def test_a_damaged_page_is_reported_with_what_could_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr("trueneg.data.image_files.ROWS_AT_ONCE", 50)
    path = tmp_path / "train.parquet"
    contents = [encoded(image) for image in random_images(400)]
    write(path, contents, [0] * 400, row_group_size=100, compression="none", write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[content.index(contents[250]) + 20] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"train.parquet: the images from row 200 on .* cannot be read"):
        load(tmp_path)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_truncated_file_is_reported(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("truncated")
    write(folder / "train.parquet", map(encoded, random_images(20)), [0] * 20)
    whole = (folder / "train.parquet").read_bytes()
    (folder / "train.parquet").write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(UserError, match=r"train.parquet: cannot be read as a parquet file"):
        load(folder)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_flipped_bit_never_ends_in_a_traceback(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("flipped")
    images = random_images(20)
    write(folder / "train.parquet", map(encoded, images), [0] * 20, write_page_checksum=True)
    content = bytearray((folder / "train.parquet").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    (folder / "train.parquet").write_bytes(content)
    with contextlib.suppress(UserError):
        assert np.array_equal(load(folder).images, images.transpose(0, 3, 1, 2))
