"""Image sources: validation, checksum, file, and resizing."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.data.decoding import resize_images
from trueneg.data.images.image_source import ImageSource, read_source, write_source
from trueneg.errors import UserError
from trueneg.io.files import atomic_write

quick = settings(deadline=None, max_examples=60)


def arrays(count=5, channels=3, height=4, width=6):
    generator = np.random.default_rng(count)
    return {
        "images": generator.integers(0, 256, (count, channels, height, width), np.uint8),
        "labels": generator.integers(0, 3, count),
        "is_test": generator.random(count) < 0.5,
    }


def source_from(content) -> ImageSource:
    return ImageSource("made", **content, class_names=("a", "b", "c"))


@quick
@given(st.sampled_from(["images", "labels", "is_test"]), st.data())
def test_one_flipped_bit_changes_the_checksum(name, data):
    content = arrays()
    before = source_from(content).checksum
    flat = content[name].reshape(-1)
    position = data.draw(st.integers(0, len(flat) - 1))
    if name == "images":
        flat[position] ^= 1 << data.draw(st.integers(0, 7))
    elif name == "labels":
        flat[position] = (flat[position] + data.draw(st.integers(1, 2))) % 3
    else:
        flat[position] = not flat[position]
    assert source_from(content).checksum != before


def test_the_checksum_depends_only_on_content_and_shape():
    content = arrays()
    before = source_from(content).checksum
    strided = content | {"images": np.asfortranarray(content["images"])}
    assert source_from(strided).checksum == before
    reshaped = content | {"images": content["images"].reshape(5, 3, 6, 4)}
    assert source_from(reshaped).checksum != before


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("images", np.zeros((5, 3, 4, 6), np.float32), "images are float32"),
        ("images", np.zeros((5, 4, 6), np.uint8), "expected uint8 with 4 axes"),
        ("labels", np.zeros(4, np.int64), "1 axes and 5 rows"),
        ("labels", np.zeros(5, np.int32), "expected int64"),
        ("is_test", np.zeros(5, np.int64), "expected bool"),
    ],
)
def test_wrong_arrays_are_refused(name, array, message):
    with pytest.raises(ValueError, match=message):
        source_from(arrays() | {name: array})


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 6), st.sampled_from([1, 3]))
def test_a_source_is_read_as_it_was_written(tmp_path_factory, count, channels):
    source = source_from(arrays(count, channels))
    path = tmp_path_factory.mktemp("source") / "deeper" / "source.npz"
    write_source(source, path)
    back = read_source(path)
    assert (back.name, back.class_names, back.checksum) == (
        source.name,
        source.class_names,
        source.checksum,
    )
    for name in ("images", "labels", "is_test"):
        assert np.array_equal(getattr(back, name), getattr(source, name))
        assert getattr(back, name).dtype == getattr(source, name).dtype
    assert [entry.name for entry in path.parent.iterdir()] == ["source.npz"]


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_a_damaged_file_is_reported_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "source.npz"
    source = source_from(arrays())
    write_source(source, path)
    content = bytearray(path.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:position]
    else:
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    # Bytes without meaning, such as dates in the archive, may change.
    with contextlib.suppress(UserError):
        assert read_source(path).checksum == source.checksum


def test_another_checksum_is_reported(tmp_path):
    source = source_from(arrays())
    names = {"name": "made", "class_names": source.class_names, "checksum": "0" * 64}
    np.savez(tmp_path / "source.npz", **names, **arrays())
    with pytest.raises(UserError, match=f"checksum {source.checksum[:6]}…; expected 000000…"):
        read_source(tmp_path / "source.npz")


def test_pickled_and_missing_files_are_reported(tmp_path):
    np.savez(tmp_path / "pickled.npz", name=np.array([{}], dtype=object))
    with pytest.raises(UserError, match="cannot be read as a decoded image source"):
        read_source(tmp_path / "pickled.npz")
    with pytest.raises(UserError, match="does not exist"):
        read_source(tmp_path / "none.npz")


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path):
    (tmp_path / "file").write_text("old")
    with contextlib.suppress(KeyboardInterrupt), atomic_write(tmp_path / "file") as temporary:
        temporary.write_text("half of the new content")
        raise KeyboardInterrupt  # not an Exception
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("file", "old")]


@quick
@given(st.sampled_from([1, 3]), st.integers(1, 4), st.integers(1, 6), st.integers(0, 300))
def test_shrinking_by_a_whole_factor_averages_areas(channels, factor, resolution, count):
    side = factor * resolution
    images = np.random.default_rng(count).integers(0, 256, (count, channels, side, side), np.uint8)
    blocks = images.reshape(count, channels, resolution, factor, resolution, factor)
    actual = resize_images(images, resolution)
    assert actual.shape == (count, channels, resolution, resolution)
    # Pillow rounds after each of its two passes.
    assert (abs(actual - blocks.mean((3, 5))) <= 1.01).all()


@quick
@given(st.integers(1, 40), st.integers(0, 255))
def test_a_uniform_image_stays_uniform_at_any_size(resolution, level):
    images = np.full((2, 3, 7, 9), level, np.uint8)
    assert (resize_images(images, resolution) == level).all()


def test_no_resolution_leaves_images_as_they_are():
    images = arrays()["images"]
    assert resize_images(images, None) is images
