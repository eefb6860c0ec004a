"""The cache of decoded images: its pixels equal those of torchvision, and it survives kills, damage
and unusable files.
"""

import io
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import CenterCrop, Compose, Resize

from tests.data import killed_cache
from tests.data.image_layouts import write_parquet
from tests.data.pictures import encoded, picture, write_picture
from tests.killed import kill_after
from trueneg.data import image_cache
from trueneg.data.image_cache import cache_images, decode_square
from trueneg.data.image_files import ImageFiles, ParquetImages
from trueneg.data.pairs.pair_source import PairSource, read_pairs, write_pairs
from trueneg.errors import UserError


@pytest.fixture
def files(tmp_path):
    """Ten images of different sizes, some JPEG, some PNG, some grey."""
    names = [f"{number}.{'png' if number % 3 else 'jpg'}" for number in range(10)]
    sizes = [
        {"width": 30 + 2 * number, "height": 45 - number, "mode": "L" if number == 4 else "RGB"}
        for number in range(10)
    ]
    paths = [
        write_picture(tmp_path / "images" / name, number, **sizes[number])
        for number, name in enumerate(names)
    ]
    return ImageFiles(tuple(paths))


@pytest.fixture
def small_pieces(monkeypatch):
    """Decode four grey images of 16 × 16 at once."""
    monkeypatch.setattr(image_cache, "PIECE_BYTES", killed_cache.PIECE_BYTES)


@pytest.fixture
def decoded(monkeypatch):
    """Count the images that are decoded."""
    counted, original = [], image_cache.decode_square
    monkeypatch.setattr(
        image_cache,
        "decode_square",
        lambda *given, **how: counted.append(1) or original(*given, **how),
    )
    return counted


def expected_pixels(path, mode, resolution):
    """Decode with pillow and resize with torchvision."""
    image = Compose([Resize(resolution), CenterCrop(resolution)])(Image.open(path).convert(mode))
    return np.asarray(image).reshape(resolution, resolution, -1).transpose(2, 0, 1)


def assert_holds(cache, paths, mode):
    for pixels, path in zip(cache, paths, strict=True):
        difference = np.abs(pixels.astype(int) - expected_pixels(path, mode, cache.shape[2]))
        # The file's luma is read directly; pillow computes it from rounded and clipped colours.
        assert difference.mean() <= (0.5 if mode == "L" and path.suffix == ".jpg" else 0)


@settings(max_examples=60, deadline=None)
@given(
    width=st.integers(5, 90),
    height=st.integers(5, 90),
    resolution=st.integers(1, 64),
    mode=st.sampled_from(["L", "RGB"]),
    fit=st.sampled_from(["crop", "stretch"]),
    stored=st.sampled_from(["L", "RGB", "P", "1"]),
)
def test_pixels_are_those_of_torchvision_on_pillow_images(
    width, height, resolution, mode, fit, stored
):
    image = (
        picture(width * height, width, height, "RGB")
        .convert("L" if stored == "1" else "RGB")
        .convert(stored)
    )
    pixels = decode_square(encoded(image), mode, resolution, fit)
    resized = Resize(resolution if fit == "crop" else (resolution, resolution))(image.convert(mode))
    expected = np.asarray(CenterCrop(resolution)(resized))
    np.testing.assert_array_equal(
        pixels, expected.reshape(resolution, resolution, -1).transpose(2, 0, 1)
    )


def test_a_grey_jpeg_file_is_decoded_as_by_pillow():
    content = encoded(picture(0, 60, 50, "L").convert("RGB"), "JPEG")
    expected = np.asarray(Image.open(io.BytesIO(content)).convert("L"))[:, 5:55]
    np.testing.assert_array_equal(decode_square(content, "L", 50)[0], expected)


def test_shrinking_averages_instead_of_skipping_pixels():
    """Columns of black and white become grey with antialiasing, and black or white without."""
    striped = np.zeros((64, 64), np.uint8)
    striped[:, ::2] = 254
    shrunk = decode_square(encoded(Image.fromarray(striped)), "L", 16)[0, 1:-1, 1:-1]
    assert np.abs(shrunk.astype(int) - 127).max() <= 1


def test_a_photograph_is_rotated_as_its_metadata_says():
    upright = picture(0, 40, 40)
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90°
    lying = encoded(upright.transpose(Image.Transpose.ROTATE_90), "PNG", exif=exif)
    np.testing.assert_array_equal(
        decode_square(lying, "RGB", 20), decode_square(encoded(upright), "RGB", 20)
    )


@pytest.mark.parametrize(("mode", "threads"), [("L", 1), ("RGB", 2)])
def test_a_cache_holds_every_image_in_order(files, small_pieces, tmp_path, mode, threads):
    cache = cache_images(files, tmp_path / "cache", mode=mode, resolution=16, threads=threads)
    assert (cache.dtype, cache.shape) == (np.uint8, (10, len(mode), 16, 16))
    assert not cache.flags.writeable
    assert_holds(cache, files.places, mode)


def test_a_killed_build_is_resumed(small_pieces, decoded, tmp_path):
    paths = [
        write_picture(tmp_path / "images" / f"{number:03d}.jpg", number) for number in range(60)
    ]
    kill_after("tests.data.killed_cache", tmp_path, "three", 1)
    done = json.loads((tmp_path / "cache" / "progress.json").read_text())["done"]
    assert done == 12
    cache = cache_images(ImageFiles(tuple(paths)), tmp_path / "cache", mode="L", resolution=16)
    assert len(decoded) == 60 - done
    assert_holds(cache, paths, "L")


def test_images_are_decoded_again_if_one_or_how_they_are_decoded_changed(
    files, small_pieces, decoded, tmp_path
):
    def number_of_decoded(**changes):
        decoded.clear()
        cache = cache_images(files, tmp_path / "cache", **{"mode": "L", "resolution": 16} | changes)
        assert_holds(cache, files.places, changes.get("mode", "L"))
        return len(decoded)

    assert [number_of_decoded(), number_of_decoded()] == [10, 0]
    write_picture(files.places[5], seed=77)
    changes = ({}, {"resolution": 8}, {"resolution": 8, "mode": "RGB"})
    assert [number_of_decoded(**change) for change in changes] == [10, 10, 10]
    (tmp_path / "cache" / "progress.json").write_text('{"done": 1')
    assert number_of_decoded() == 10


def test_missing_images_are_named_before_any_is_decoded(files, tmp_path):
    for number in (2, 7):
        files.places[number].unlink()
    with pytest.raises(UserError) as error:
        cache_images(files, tmp_path / "cache", mode="L", resolution=16)
    named = [line.split(" is missing")[0] for line in str(error.value).split("\n")]
    assert named == [str(files.places[number]) for number in (2, 7)]
    assert "is missing; expected an image. Copy the whole dataset" in str(error.value)
    assert not (tmp_path / "cache").exists()


def test_unusable_images_are_all_named_and_never_cached(files, small_pieces, tmp_path):
    whole = encoded(picture(0, 200, 150), "JPEG")
    files.places[2].write_bytes(whole[: len(whole) // 2])
    files.places[3].write_text("no image")
    files.places[6].write_bytes(encoded(Image.new("F", (20, 20)), "TIFF"))
    files.places[9].write_bytes(encoded(Image.new("L", (4, 400))))
    for _ in range(2):
        with pytest.raises(UserError) as error:
            cache_images(files, tmp_path / "cache", mode="RGB", resolution=16)
    lines = str(error.value).split("\n")
    expected = (
        r"is damaged \(.*truncated.*\)\. Replace the file",
        r"is in another format .*, or not an image .*; expected a PNG, JPEG",
        r"is in an unsupported variant .*\. Convert it",
        r"is 4 × 400 pixels; expected an aspect ratio of at most 20\.",
    )
    for line, number, what in zip(lines, (2, 3, 6, 9), expected, strict=True):
        assert re.search(f"{files.places[number].name} {what}", line), line


def test_images_without_access_are_named(files, tmp_path, monkeypatch):
    original, denied = Path.stat, files.places[3]

    def stat(path, **options):
        if path == denied:
            raise PermissionError(13, "Permission denied", str(path))
        return original(path, **options)

    monkeypatch.setattr(Path, "stat", stat)
    with pytest.raises(UserError, match=r"3\.jpg cannot be accessed"):
        cache_images(files, tmp_path / "cache", mode="RGB", resolution=16)


def test_a_disk_that_is_too_small_is_reported_before_decoding(files, tmp_path):
    with pytest.raises(
        UserError, match=r"disk has .* GiB free; expected .* GiB .*lower dataset\.resolution"
    ):
        cache_images(files, tmp_path / "cache", mode="RGB", resolution=5_000_000)


def test_memory_is_limited_to_a_piece(tmp_path, monkeypatch):
    monkeypatch.setattr(image_cache, "PIECE_BYTES", 256 * 1024)
    paths = [
        write_picture(tmp_path / f"{number}.jpg", number, width=128, height=128)
        for number in range(100)
    ]
    tracemalloc.start()
    try:
        cache = cache_images(
            ImageFiles(tuple(paths)), tmp_path / "cache", mode="RGB", resolution=128
        )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert cache.nbytes > 4.9e6
    assert peak < 1e6


def test_a_source_is_written_from_the_cache_and_read_without_it(files, tmp_path):
    pixels = cache_images(files, tmp_path / "cache", mode="L", resolution=16)
    names = np.array([path.name for path in files.places])
    sentences = pd.DataFrame({"report": names, "index": 0, "sentence": "Hello.", "class": -1})
    arrays = {
        "labels": np.zeros((10, 0), np.float32),
        "label_names": (),
        "shown": np.zeros((10, 0), bool),
    }
    source = PairSource("files", pixels, names, names, sentences, **arrays)
    write_pairs(source, tmp_path / "pairs.npz")
    np.testing.assert_array_equal(read_pairs(tmp_path / "pairs.npz").images, pixels)


def test_rows_are_read_across_row_groups_and_files(tmp_path, monkeypatch, small_pieces):
    monkeypatch.setattr("trueneg.data.image_files.ROWS_AT_ONCE", 3)
    contents = [encoded(picture(number, 20, 24)) for number in range(30)]
    files = (tmp_path / "a.parquet", tmp_path / "b.parquet")
    write_parquet(files[0], contents[:17], [0] * 17, "image", row_group_size=5)
    write_parquet(files[1], contents[17:], [0] * 13, "image")
    chosen = [*range(4, 17), *range(17, 29)]
    places = tuple(
        (files[0], number) if number < 17 else (files[1], number - 17) for number in chosen
    )
    images = ParquetImages(places, dict.fromkeys(files, "image"))
    for threads in (1, 2):
        cache = cache_images(
            images, tmp_path / f"cache{threads}", mode="L", resolution=16, threads=threads
        )
        for pixels, number in zip(cache, chosen, strict=True):
            np.testing.assert_array_equal(pixels, decode_square(contents[number], "L", 16))


def test_bad_rows_and_files_of_parquet_are_named(tmp_path):
    path = tmp_path / "a.parquet"
    contents = [encoded(picture(number)) for number in range(6)]
    write_parquet(path, [*contents[:4], None, contents[5][:100]], [0] * 6, "image")
    images = ParquetImages(tuple((path, row) for row in range(6)), {path: "image"})
    with pytest.raises(
        UserError,
        match=r"a\.parquet, row 4 \(the first is 0\) .*no readable content.*\n.*row 5 .*damaged",
    ):
        cache_images(images, tmp_path / "cache", mode="L", resolution=16)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(
        UserError, match=r"a\.parquet: the images from row 0 on .* cannot be read \(.*copy it again"
    ):
        cache_images(images, tmp_path / "cache", mode="L", resolution=16)
