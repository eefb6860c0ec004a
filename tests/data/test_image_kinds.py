"""Every kind of image file becomes the same upright pixels in each reader, compared with numpy;
damage is never silent.
"""

import io
import itertools
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.data.image_layouts import write_parquet
from tests.data.pictures import encoded, picture
from tests.data.test_leakage import shared_with
from trueneg.data.decoding import UnreadableImageError, decode_upright, inspect_image
from trueneg.data.draw import draw_subsets
from trueneg.data.identical_images import describe_identical
from trueneg.data.image_cache import LONGEST, cache_images, decode_square
from trueneg.data.image_files import ImageFiles, ParquetImages, check_images
from trueneg.data.images.loading import load_source
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.data.pairs.registry import prepare_pairs, write_captions
from trueneg.data.samples import read_subsets
from trueneg.errors import UserError
from trueneg.specs.kinds.pairs import ImageTextStudy

SIDE = 64
MODES = {
    "PNG": ("1", "L", "LA", "L+tRNS", "P", "P+tRNS", "RGB", "RGB+tRNS", "RGBA", "I;16"),
    "JPEG": ("L", "RGB", "RGB+progressive", "CMYK"),
    "WEBP": ("RGB", "RGBA"),
    "TIFF": ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "I;16B"),
    "BMP": ("1", "L", "P", "RGB"),
    "GIF": ("P", "P+tRNS"),
}
ORIENTED = ("PNG", "JPEG", "WEBP", "TIFF")
KINDS = [(form, mode, 1) for form, modes in MODES.items() for mode in modes]
KINDS += [
    (form, mode, orientation)
    for form, mode, _ in KINDS
    if form in ORIENTED
    for orientation in range(2, 9)
]
UPRIGHT = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: stored[::-1, ::-1].swapaxes(0, 1),
    8: lambda stored: np.rot90(stored, 1),
}


def on_white(colours, alpha):
    return np.rint((colours * (alpha / 255.0)[..., None]) + 255.0 - alpha[..., None])


def stored_image(mode, seed, width=SIDE, height=SIDE):
    """Return a pillow image of a mode, options to save it, and its colours (height, width, 3) as
    numpy computes them.
    """
    generator = np.random.default_rng(seed)
    rgb = np.asarray(picture(seed, width, height)).astype(int)
    grey = rgb[..., 1]
    greys, options = np.stack([grey] * 3, -1), {}
    alpha = generator.choice([0, 60, 255], (height, width))
    as_bytes = rgb.astype(np.uint8)
    name, _, transparent = mode.partition("+")
    if name == "1":
        bits = grey > 128
        image, colours = Image.fromarray(bits), np.stack([bits * 255] * 3, -1)
    elif name == "L":
        image, colours = Image.fromarray(grey.astype(np.uint8)), greys
        if transparent:
            options["transparency"] = int(grey[0, 0])
            colours = np.where((grey == grey[0, 0])[..., None], 255, greys)
    elif name == "LA":
        image = Image.merge(
            "LA", [Image.fromarray(plane.astype(np.uint8)) for plane in (grey, alpha)]
        )
        colours = on_white(greys, alpha)
    elif name == "P":
        palette, index = generator.integers(0, 256, (16, 3)), grey // 16
        image = Image.fromarray(index.astype(np.uint8), "P")
        image.putpalette(palette.astype(np.uint8).tobytes())
        colours = palette[index]
        if transparent:
            options["transparency"] = 5
            colours = np.where((index == 5)[..., None], 255, colours)
    elif name == "RGB":
        image, colours = Image.fromarray(as_bytes), rgb
        if transparent == "tRNS":
            options["transparency"] = tuple(rgb[0, 0].tolist())
            colours = np.where((rgb == rgb[0, 0]).all(-1)[..., None], 255, rgb)
    elif name == "RGBA":
        image, colours = (
            Image.fromarray(np.concatenate([as_bytes, alpha[..., None].astype(np.uint8)], -1)),
            on_white(rgb, alpha),
        )
    elif name == "CMYK":
        inks = np.concatenate([rgb, grey[..., None] // 2], -1)
        image = Image.fromarray(inks.astype(np.uint8), "CMYK")
        colours = np.rint((255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255)
    else:  # 16 bits
        levels = grey * 257 + generator.integers(-100, 100, grey.shape)
        levels = levels.clip(0, 65535)
        image = Image.fromarray(levels.astype("<u2"))
        scaled = np.rint(levels / 257)
        colours = np.stack([scaled] * 3, -1)
    return image, options, colours


def big_endian_tiff(levels):
    """Write an uncompressed 16-bit greyscale TIFF file in Motorola byte order, which pillow reads
    but does not write.
    """
    height, width = levels.shape
    tags = [
        (256, width),
        (257, height),
        (258, 16),
        (259, 1),
        (262, 1),
        (273, 0),
        (277, 1),
        (278, height),
        (279, levels.size * 2),
    ]
    start = 8 + 2 + 12 * len(tags) + 4
    entries = b"".join(
        struct.pack(">HHII", tag, 4, 1, start if tag == 273 else value) for tag, value in tags
    )
    return (
        b"MM\0*"
        + struct.pack(">IH", 8, len(tags))
        + entries
        + bytes(4)
        + levels.astype(">u2").tobytes()
    )


def encoded_kind(form, mode, orientation, seed, **size):
    """Return a file of a kind, and its upright colours (height, width, 3)."""
    image, options, colours = stored_image(mode.replace("I;16B", "I;16"), seed, **size)
    if form in ORIENTED and orientation > 1:
        exif = Image.Exif()
        exif[0x0112] = orientation
        options["exif"] = exif
    options |= {"progressive": True} if mode.endswith("progressive") else {}
    options |= {
        "JPEG": {"quality": 100, "subsampling": 0},
        "WEBP": {"lossless": True, "exact": True},
    }.get(form, {})
    if mode == "I;16B":
        return big_endian_tiff(np.asarray(image)), colours
    return encoded(image, form, **options), UPRIGHT[orientation](colours)


def luma(colours):
    return np.rint(colours @ [0.299, 0.587, 0.114])


def assert_pixels(actual, expected, form):
    """Compare pixels (channels, height, width) with the expected colours."""
    expected = expected.transpose(2, 0, 1) if len(actual) == 3 else luma(expected)[None]
    difference = np.abs(actual.astype(float) - expected)
    assert actual.shape == expected.shape
    assert difference.mean() < 3 if form == "JPEG" else difference.max() <= 1


@settings(deadline=None, max_examples=60)
@given(
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 1000),
    name=st.sampled_from(["a.png", "a.JPG", "A.TIF", "a.webp"]),
)
def test_all_readers_decode_the_same_pixels(tmp_path_factory, kind, seed, name):
    content, expected = encoded_kind(*kind, seed=seed)
    folder = tmp_path_factory.mktemp("kinds")
    for label in ("cat", "dog"):
        (folder / "own" / label).mkdir(parents=True)
        (folder / "own" / label / name).write_bytes(content)
    (folder / "hub").mkdir()
    write_parquet(folder / "hub/train.parquet", [content, content], [0, 1])
    by_folder, by_parquet = (
        load_source("image_folder", path=folder / "own"),
        load_source("parquet", path=folder / "hub"),
    )
    assert by_folder.images.shape[1] == (
        1 if kind[1].split("+")[0] in ("1", "L", "LA", "I;16", "I;16B") else 3
    )
    (folder / "no suffix").write_bytes(content)
    mode = "L" if by_folder.images.shape[1] == 1 else "RGB"
    cached = cache_images(
        ImageFiles((folder / "no suffix",)), folder / "cache", mode=mode, resolution=SIDE
    )
    for pixels in (by_folder.images[0], by_folder.images[1], by_parquet.images[0], cached[0]):
        assert_pixels(pixels, expected, kind[0])
        assert np.array_equal(pixels, cached[0])
    assert_pixels(np.asarray(decode_upright(content, "L"))[None], expected, kind[0])
    inspect_image(content)


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("form", ORIENTED)
def test_all_orientations_of_images_that_are_not_square(form, orientation):
    content, expected = encoded_kind(form, "RGB", orientation, seed=1, width=40, height=24)
    assert_pixels(np.asarray(decode_upright(content, "RGB")).transpose(2, 0, 1), expected, form)


def truncated(content, draw):
    return content[: draw(st.integers(0, len(content) - 1))]


def zeroed(content, draw):
    length = draw(st.integers(150, 400))
    start = len(content) // 2
    return content[:start] + bytes(length) + content[start + length :]


def zero_tail(content, draw):
    kept = draw(st.integers(len(content) // 3, len(content) - 100))
    return content[:kept] + bytes(len(content) - kept)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from(KINDS), st.sampled_from([truncated, zeroed, zero_tail]), st.data())
def test_damage_is_noticed_or_harmless_and_the_check_agrees_with_the_job(
    tmp_path_factory, kind, damage, data
):
    form = kind[0]
    content = encoded_kind(*kind, seed=data.draw(st.integers(0, 50)))[0]
    damaged, whole = damage(content, data.draw), np.asarray(decode_upright(content, "RGB"))
    file = tmp_path_factory.mktemp("damaged") / "1.png"
    file.write_bytes(damaged)
    images = ImageFiles((file,))

    def mistakes(decode):
        try:
            return check_images(images, file, False, decode=decode)[1]
        except UserError as error:
            return str(error)

    def decoded():
        return cache_images(images, file.parent / "cache", mode="RGB", resolution=SIDE)[
            0
        ].transpose(1, 2, 0)

    if listed := mistakes(decode=True):
        with pytest.raises(UserError, match=rf"^{file} (is|has) .*\. [A-Z].*\.$") as error:
            decoded()
        assert str(error.value) == listed
    else:
        pixels = decoded()
        assert not mistakes(decode=False)
        # Only PNG files have checksums; libjpeg decodes overwritten bytes to other pixels.
        is_partial = damage is truncated or (damage is zero_tail and form == "JPEG")
        assert np.array_equal(pixels, whole) or not (is_partial or form == "PNG")


def chunk(kind, content):
    return (
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
    )


def png(width, height, depth, colour_type, rows, *chunks):
    header = struct.pack(">IIBBBBB", width, height, depth, colour_type, 0, 0, 0)
    parts = [
        chunk(b"IHDR", header),
        *chunks,
        chunk(b"IDAT", zlib.compress(rows)),
        chunk(b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def tiff(image, **tags):
    return encoded(
        image, "TIFF", tiffinfo={int(tag.strip("t")): value for tag, value in tags.items()}
    )


def edited(image, tag, old, new):
    """Change the value of a tag in a TIFF file."""
    content, before, after = (
        encoded(image, "TIFF"),
        *(struct.pack("<HHIHH", tag, 3, 1, value, 0) for value in (old, new)),
    )
    assert content.count(before) == 1
    return content.replace(before, after)


def twelve_bits():
    return edited(Image.fromarray(np.zeros((1, 4), np.uint16)), 258, 16, 12)


FRAMES = [picture(seed, 8, 8) for seed in range(3)]
MORE = {"save_all": True, "append_images": FRAMES[1:]}
LONG_TEXT = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**21)))
UNUSUAL = "is in an unsupported variant .*raw, preview.* Convert it"
LEVELS_16 = Image.fromarray(np.array([[0, 2048, 4095, 1000]], np.uint16))
LEVELS_32 = Image.fromarray(np.array([[0, 70_000]], np.int32))


@pytest.mark.parametrize(
    ("content", "message", "kind"),
    [
        (
            b"",
            "is empty, damaged, or in an unsupported variant .*; expected a PNG.* undamaged copy",
            "damaged",
        ),
        (b"cat,dog\n1,2\n", "is in another format .*, or not an image", "in formats"),
        (b"\n<!DOCTYPE html><p>404", "not an image .*web page.* download it again", "in formats"),
        (
            b"\0\0\0\x20ftypheic\0\0\0\0",
            "is in another format .*HEIC.*expected a PNG.* Convert",
            "in formats",
        ),
        (encoded(Image.new("L", (9, 9)), "PPM"), "is in another format", "in formats"),
        (encoded(Image.new("F", (9, 9)), "TIFF"), UNUSUAL, "in formats"),
        (encoded(Image.new("LAB", (9, 9)), "TIFF"), UNUSUAL, "in formats"),
        (encoded(LEVELS_32, "TIFF"), UNUSUAL, "in formats"),
        (twelve_bits(), UNUSUAL, "in formats"),
        (edited(LEVELS_16, 262, 1, 0), UNUSUAL, "in formats"),
        (encoded(FRAMES[0], "TIFF", **MORE), "has 3 pages or frames; expected one", "in formats"),
        (encoded(FRAMES[0], "GIF", **MORE), "has 3 pages or frames", "in formats"),
        (encoded(FRAMES[0], "WEBP", **MORE), "has 3 pages or frames", "in formats"),
        (encoded(FRAMES[0], "PNG", **MORE), "has 3 pages or frames", "in formats"),
        (tiff(FRAMES[0], t254=1), UNUSUAL, "in formats"),
        (png(2, 1, 16, 2, bytes(13), chunk(b"tRNS", bytes(6))), UNUSUAL, "in formats"),
        (png(2, 1, 16, 0, bytes(5), chunk(b"tRNS", bytes(2))), UNUSUAL, "in formats"),
        (png(4, 1, 2, 0, b"\0\x1b", chunk(b"tRNS", b"\0\2")), UNUSUAL, "in formats"),
        (png(0, 3, 8, 0, bytes(3)), "is empty, damaged", "damaged"),
        (png(20_000, 20_000, 1, 0, b""), "has more than 178,956,970 pixels", "too large"),
        (png(2, 1, 8, 0, bytes(3), LONG_TEXT), "is damaged .*MAX_TEXT_CHUNK", "damaged"),
        (png(2, 1, 8, 0, bytes(3), chunk(b"eXIf", b"broken")), "damaged EXIF metadata", "damaged"),
        (
            png(2, 41, 8, 0, bytes(3 * 41)),
            "2 × 41 pixels; expected an aspect ratio of at most 20",
            "too narrow",
        ),
    ],
)
def test_each_kind_of_unusable_file_has_its_own_sentence(content, message, kind):
    readers = (
        lambda: decode_upright(content, "RGB", LONGEST),
        lambda: inspect_image(content, LONGEST),
    )
    for read in readers:
        with pytest.raises(UnreadableImageError) as raised:
            read()
        assert re.search(message, f"{raised.value}. {raised.value.remedy}")
        assert kind in raised.value.kind


def test_a_lack_of_memory_is_not_taken_for_damage(monkeypatch):
    def load(image):
        raise MemoryError

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", load)
    with pytest.raises(MemoryError):
        decode_upright(encoded(picture(0)), "RGB")


def pixels_of(content, mode="L"):
    return np.asarray(decode_upright(content, mode)).tolist()


def test_the_transparent_bit_is_white():
    assert pixels_of(png(8, 1, 1, 0, b"\0\x0f", chunk(b"tRNS", b"\0\0"))) == [[255] * 8]
    assert pixels_of(png(8, 1, 1, 0, b"\0\x0f", chunk(b"tRNS", b"\0\1"))) == [[0] * 4 + [255] * 4]


def test_the_first_picture_of_a_phones_file_is_read():
    content = encoded(FRAMES[0], "MPO", **MORE, quality=95)
    assert Image.open(io.BytesIO(content)).n_frames == 3
    expected = np.asarray(Image.open(io.BytesIO(encoded(FRAMES[0], "JPEG", quality=95))))
    assert np.array_equal(pixels_of(content, "RGB"), expected)


@pytest.mark.parametrize("stored", ["L", "RGB"])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_jpeg_pixels_are_those_of_measured_studies(stored, mode):
    """Radiographs of Open-I are colour JPEG files read as greyscale: the luma in the file, not that
    of rounded colours.
    """
    content = encoded(picture(3, mode=stored), "JPEG")
    image = Image.open(io.BytesIO(content))
    if mode == "RGB":
        expected = np.asarray(image.convert("RGB"))
    else:
        image.draft("YCbCr" if stored == "RGB" else "L", None)
        expected = np.asarray(image).reshape(30, 40, -1)[..., 0]
    assert np.array_equal(pixels_of(content, mode), expected)


DAMAGED = (b"", encoded(picture(0))[:-60], b"no image", encoded(Image.new("F", (40, 30)), "TIFF"))
SKIPPED = "4 of 44 images are skipped: 2 damaged, 2 in formats that cannot be read."


def write_own(folder, source, counts=(20, 20), damaged=DAMAGED, bad_label=1):
    """Write pictures of two classes, followed by damaged ones of one class."""
    pictures = [
        (encoded(picture(10 * label + number)), label)
        for label in (0, 1)
        for number in range(counts[label])
    ]
    contents = [*pictures, *((content, bad_label) for content in damaged)]
    folder.mkdir()
    if source == "parquet":
        write_parquet(
            folder / "train.parquet",
            [content for content, _ in contents],
            [label for _, label in contents],
        )
    else:
        for number, (content, label) in enumerate(contents):
            (folder / "ab"[label]).mkdir(exist_ok=True)
            (folder / "ab"[label] / f"{number:03d}.png").write_bytes(content)
    return folder


both_sources = pytest.mark.parametrize("source", ["image_folder", "parquet"])


@both_sources
def test_unusable_images_are_all_named_or_skipped_and_counted(tmp_path, caplog, source):
    folder = write_own(tmp_path / "own", source)
    with pytest.raises(UserError) as error:
        load_source(source, path=folder)
    assert [
        line.split(" (")[0].split(";")[0].split(" ", 1)[0] for line in str(error.value).split("\n")
    ] == [
        f"{folder}/b/{number:03d}.png" if source == "image_folder" else f"{folder}/train.parquet,"
        for number in range(40, 44)
    ]
    expected = load_source(source, path=write_own(tmp_path / "whole", source, damaged=()))
    caplog.clear()
    loaded = load_source(source, path=folder, skip_incomplete=4)
    assert (loaded.skipped, loaded.checksum, expected.skipped) == (SKIPPED, expected.checksum, "")
    assert SKIPPED in caplog.text
    assert "040" not in caplog.text.replace(str(folder), "")
    assert load_source(source, path=folder, skip_incomplete=True).checksum == expected.checksum
    with pytest.raises(
        UserError, match=re.escape(SKIPPED) + r" Expected at most 3 \(skip_incomplete: 3\)"
    ):
        load_source(source, path=folder, skip_incomplete=3)


@both_sources
def test_a_class_without_usable_images_and_another_size_are_not_skipped(tmp_path, source):
    folder = write_own(tmp_path / "class", source, counts=(40, 0))
    with pytest.raises(UserError, match=r"class: no training image of class [b1] is usable"):
        load_source(source, path=folder, skip_incomplete=True)
    folder = write_own(tmp_path / "size", source, damaged=[b"", encoded(picture(0, 41))])
    with pytest.raises(UserError, match="41 × 30 pixels; expected 40 × 30") as error:
        load_source(source, path=folder, skip_incomplete=True)
    assert len(str(error.value).split("\n")) == 1


def test_an_unreadable_first_image_does_not_determine_greyscale(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    contents = [b"", *(encoded(picture(number)) for number in range(20))]
    write_parquet(folder / "train.parquet", contents, [0] * 21)
    assert load_source("parquet", path=folder, skip_incomplete=1).images.shape == (20, 3, 30, 40)


def test_chosen_rows_are_read_across_gaps_and_batches(tmp_path):
    contents = [encoded(picture(number)) for number in range(200)]
    write_parquet(tmp_path / "train.parquet", contents, [0] * 200, row_group_size=30)
    rows = ParquetImages(
        tuple((tmp_path / "train.parquet", row) for row in range(200)),
        {tmp_path / "train.parquet": "img"},
    )
    chosen = [3, 4, 29, 65, 66, 130, 199]
    assert list(rows.part(chosen).read()) == [contents[row] for row in chosen]


@pytest.mark.parametrize("decode", [True, False])
def test_the_check_names_rows_or_counts_them(tmp_path, decode):
    file = write_own(tmp_path / "own", "parquet") / "train.parquet"
    rows = ParquetImages(tuple((file, row) for row in range(44)), {file: "img"})
    assert check_images(rows, "own", 4, decode=decode) == (list(range(40)), SKIPPED)
    assert check_images(rows.part(slice(40)), "own", False, decode=decode) == (list(range(40)), "")
    with pytest.raises(
        UserError, match=r"\Aown: 4 of 44 images are skipped: .* Expected at most 3"
    ):
        check_images(rows, "own", 3, decode=decode)
    with pytest.raises(UserError) as error:
        check_images(rows, "own", False, decode=decode)
    assert re.findall(r"row (\d+)", str(error.value)) == ["40", "41", "42", "43"]


def test_identical_images_and_those_of_one_colour_are_counted(tmp_path, caplog):
    images = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 4), np.uint8)
    assert describe_identical(images) == ""
    images[3] = images[1]
    images[4] = np.array([10, 20, 200])[:, None, None]
    assert re.search("1 of 5 .*same pixels.*; 1 have", describe_identical(images))
    black = np.zeros((5, 3, 4, 4), np.uint8)
    assert re.search("4 of 5 .*; 5 have", describe_identical(black))
    for name, label in itertools.product("12", ("cat", "dog")):
        (tmp_path / label).mkdir(exist_ok=True)
        (tmp_path / label / f"{name}.png").write_bytes(encoded(picture(int(name))))
    load_source("image_folder", path=tmp_path)
    assert "2 of 4 images have the same pixels" in caplog.text


def table_with(folder, damaged, **changes):
    """Write a table of 44 images, four of which may be damaged, and its sentences; return the
    settings.
    """
    (folder / "images").mkdir(exist_ok=True)
    rows = []
    for number in range(44):
        name = f"{number:02d}.jpg"
        content = (
            damaged[number // 11]
            if number % 11 == 5 and damaged
            else encoded(picture(number), "JPEG")
        )
        if not (folder / "images" / name).is_file():
            (folder / "images" / name).write_bytes(content)
        rows.append(
            {
                "image": name,
                "text": f"A picture of {number}.",
                "patient": f"p{number // 2}",
                "odd": number % 2,
            }
        )
    pd.DataFrame(rows).to_csv(folder / "table.csv", index=False)
    settings = {
        "source": "image_table",
        "path": str(folder / "images"),
        "table": str(folder / "table.csv"),
        "images": None,
    }
    settings |= {
        "image_column": "image",
        "text_column": "text",
        "patient_column": "patient",
        "label_columns": ["odd"],
    }
    return (
        settings
        | {"colour": False, "resolution": 16, "restricted": False, "split_sentences": False}
        | changes
    )


def prepare(folder, settings):
    write_captions(
        settings,
        sentences=folder / "sentences.parquet",
        unique=folder / "unique.parquet",
        cache=folder / "split",
    )
    text = {"sentences": folder / "sentences.parquet"}
    prepare_pairs(settings, text, folder / "pairs.npz", cache=folder / "cache", threads=1)
    return read_pairs(folder / "pairs.npz")


def test_unusable_images_of_pairs_are_skipped_with_their_sentences(tmp_path):
    settings = table_with(tmp_path, DAMAGED)
    with pytest.raises(UserError) as error:
        prepare(tmp_path, settings)
    assert [Path(line.split(" ", 1)[0]).name for line in str(error.value).split("\n")] == [
        "05.jpg",
        "16.jpg",
        "27.jpg",
        "38.jpg",
    ]
    with pytest.raises(UserError, match=r"4 of 44 images are skipped: .* Expected at most 3"):
        prepare(tmp_path, settings | {"skip_incomplete": 3})
    source = prepare(tmp_path, settings | {"skip_incomplete": True})
    assert source.skipped == SKIPPED
    used = [number for number in range(44) if number % 11 != 5]
    assert source.reports.tolist() == [f"{number:02d}.jpg" for number in used]
    assert source.patients.tolist() == [f"p{number // 2}" for number in used]
    assert source.labels[:, 0].tolist() == [number % 2 for number in used]
    assert source.sentences["sentence"].tolist() == [f"A picture of {number}." for number in used]
    for number, pixels in zip(used, source.images, strict=True):
        np.testing.assert_array_equal(
            pixels, decode_square(encoded(picture(number), "JPEG"), "L", 16)
        )

    with pytest.raises(UserError, match=r"05\.jpg is empty"):
        prepare(tmp_path, settings)


def test_a_large_image_below_the_limit_is_opened_without_a_warning():
    """In a process of its own, as pytest shows every warning."""
    code = (
        "import io; from PIL import Image; from trueneg.data.decoding import open_image;"
        "stream = io.BytesIO(); Image.new('1', (20_000, 8_900)).save(stream, 'PNG');"
        "print(open_image(stream.getvalue()).size)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(20000, 8900)\n"
    assert done.stderr == ""


@pytest.mark.parametrize("crossing", [0, 1, 4])
def test_views_of_one_report_in_two_splits_are_counted_and_left_out(tmp_path, caplog, crossing):
    """Of 22 reports with two images each, some have one in training and one in the test split."""
    settings = table_with(tmp_path, ())
    table = pd.read_csv(settings["table"])
    table["report id"] = table.pop("patient")
    table["split"] = ["test" if number < 12 else "train" for number in range(44)]
    table.loc[[12 + 2 * number for number in range(crossing)], "split"] = "test"
    table.to_csv(settings["table"], index=False)
    settings |= {"patient_column": "report id", "split_column": "split", "validation": 0.2}
    source = prepare(tmp_path, settings)
    splits = tmp_path / "pairs-splits.parquet"
    how = {"subsets": tmp_path / "subsets.parquet", "splits": splits}
    if crossing:
        with pytest.raises(UserError) as error:
            draw_subsets(ImageTextStudy, tmp_path / "pairs.npz", settings, [0], **how)
        assert shared_with(error.value) == {"patients": (crossing, 12 + crossing)}
    apart = settings | {"leakage": "leave_out"}
    draw_subsets(ImageTextStudy, tmp_path / "pairs.npz", apart, [0], **how)
    (subset,) = read_subsets(how["subsets"]).values()
    expected = {"patients": (crossing, 12 + crossing)} if crossing else {}
    assert shared_with(subset.leakage) == shared_with(caplog.text) == expected
    held = {source.patients[row] for row in subset.test}
    assert not held & {source.patients[row] for row in [*subset.train, *subset.validation]}
    assert len(subset.train) + len(subset.validation) == 32 - 2 * crossing
