"""Data of which a seventh is damaged, in every way that an image or a row can be, among unusual
images that must be read.
"""

import csv
import io
import struct
import unicodedata
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from tests.data.pictures import encoded, picture

CLASSES = ("fox", "hare", "owl", "toad")
EACH = 35  # images per class; five of them damaged
PAIRS = 140  # rows of the table; 20 of them damaged
NARROW = 7  # position of a damaged image that is too narrow for a pair only


def bomb() -> bytes:
    """A PNG file of a hundred bytes that claims to have ten billion pixels."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content))
            + kind
            + content
            + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(100)))
        + chunk(b"IEND", b"")
    )


def damaged_images() -> list[bytes]:
    """Ten images that cannot be used."""
    png, jpeg = encoded(picture(0)), encoded(picture(1), "JPEG")
    middle = len(png) // 2
    stream = io.BytesIO()
    Image.fromarray(np.full((30, 40), np.nan, np.float32)).save(stream, "TIFF")
    return [
        png[:-300],
        jpeg[: len(jpeg) // 2],
        b"",
        b"not an image",
        png[:middle] + bytes(50) + png[middle + 50 :],
        bomb(),
        b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(100),
        encoded(picture(2, width=2500, height=10)),
        stream.getvalue(),
        encoded(picture(3), "WEBP")[:-200],
    ]


def unusual_images(seed: int) -> list[bytes]:
    """Nine readable images of every kind that a camera, a scanner or a drawing program writes."""
    image = picture(seed)
    rotated = Image.Exif()
    rotated[0x0112] = 6
    transparent = image.convert("RGBA")
    transparent.putalpha(picture(seed + 1, mode="L"))
    deep = Image.fromarray(np.asarray(picture(seed, mode="L"), np.uint16) * 257)
    return [
        encoded(image, "JPEG", exif=rotated),
        encoded(transparent),
        encoded(image, "WEBP", lossless=True),
        encoded(image, "TIFF"),
        encoded(image, "BMP"),
        encoded(image.convert("CMYK"), "JPEG"),
        encoded(image.quantize(16)),
        encoded(deep),
        encoded(image.convert("1")),
    ]


def write_damaged_folder(folder: Path) -> int:
    """Write a folder per class, all files named .png or .jpg; return the number of damaged
    images.
    """
    damaged = [content for number, content in enumerate(damaged_images()) if number != NARROW]
    for label, name in enumerate(CLASSES):
        contents = [encoded(picture(100 * label + number)) for number in range(EACH - 14)]
        contents += unusual_images(100 * label + 50) + damaged[label % 2 * 4 :][:5]
        (folder / name).mkdir(parents=True)
        for number, content in enumerate(contents):
            (folder / name / f"{number}{'.jpg' if number % 2 else '.png'}").write_bytes(content)
    return 5 * len(CLASSES)


def write_damaged_table(images: Path, table: Path) -> dict[str, int]:
    """Write a table and its images; return the number of unusable rows by what is wrong with
    them.
    """
    images.mkdir(parents=True)
    usable = [encoded(picture(number)) for number in range(PAIRS - 20 - 9)] + unusual_images(500)
    rows = []
    for number, content in enumerate(usable):
        name = f"é{number}"
        (images / unicodedata.normalize("NFD", name)).write_bytes(content)
        rows.append(
            [
                unicodedata.normalize("NFC", name),
                TEXTS[number % len(TEXTS)],
                f"patient {number // 4}",
            ]
        )
    for number, content in enumerate(damaged_images()):
        (images / f"bad {number}.png").write_bytes(content)
        rows.append([f"bad {number}.png", "Seen from afar.", f"patient b{number}"])
    first = rows[0]
    rows += [["", "A text.", "p"], [" ", "A text.", "p"]]
    rows += [[rows[2][0], "", rows[2][2]], [rows[3][0], "12 / 34.", rows[3][2]]]
    rows += [[rows[5][0], "Another text.", ""]]
    rows += [["absent.png", "A text.", "p"], ["absent/../absent.png", "A text.", "p"]]
    rows += [
        first,
        [f"./{first[0]}", *first[1:]],
        [unicodedata.normalize("NFD", first[0]), *first[1:]],
    ]
    with table.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([["image", "text", "patient"], *rows])
    return {"image": 10, "no image": 2, "no text": 2, "no patient": 1, "absent": 2, "repeated": 3}


TEXTS = (
    "A fox runs. It is fast.",
    "一只狐狸。它很快。",
    "Лиса бежит. Она быстрая.",
    'An owl, "old".',
    "ثعلب يركض.",
)
