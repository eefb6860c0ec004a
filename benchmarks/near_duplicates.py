"""Measure which changed copies of images and texts are found as near duplicates, and how many other
samples are mistaken for them.

    python benchmarks/near_duplicates.py images PLACE [--resolution 64] [--others 10000]
    python benchmarks/near_duplicates.py texts TABLE COLUMN [LABEL] [--others 10000]
    python benchmarks/near_duplicates.py time [--samples 50000]

PLACE is a folder of images, or a parquet file with encoded images. Each of 1,000 samples is
compared with its changed copies, and with all others. Among the others may be real near duplicates;
LABEL is the column of a label that near duplicates usually share.
"""

import argparse
import io
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy import ndarray
from PIL import Image, ImageEnhance

from trueneg.data.decoding import decode_resized
from trueneg.data.near_duplicates import Looks, looks_of_images, looks_of_texts, near_duplicates

CHANGED = 1000


def encoded(image: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def cropped(image: Image.Image, share: float) -> bytes:
    """Cut a share of the width and height off each side."""
    width, height = image.size
    left, top = round(share * width), round(share * height)
    return encoded(image.crop((left, top, width - left, height - top)))


IMAGE_CHANGES: dict[str, Callable[[Image.Image], bytes]] = {
    "JPEG, quality 75": lambda image: encoded(image, "JPEG", quality=75),
    "JPEG, quality 50": lambda image: encoded(image, "JPEG", quality=50),
    "JPEG, quality 20": lambda image: encoded(image, "JPEG", quality=20),
    "half the size": lambda image: encoded(image.resize((image.width // 2, image.height // 2))),
    "1 % cut off each side": lambda image: cropped(image, 0.01),
    "2 % cut off each side": lambda image: cropped(image, 0.02),
    "5 % cut off each side": lambda image: cropped(image, 0.05),
    "brighter by 30 %": lambda image: encoded(ImageEnhance.Brightness(image).enhance(1.3)),
    "darker by 30 %": lambda image: encoded(ImageEnhance.Brightness(image).enhance(0.7)),
    "contrast reduced by 30 %": lambda image: encoded(ImageEnhance.Contrast(image).enhance(0.7)),
    "mirrored": lambda image: encoded(image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)),
}


def text_changes(texts: Sequence[str]) -> dict[str, Callable[[str], str]]:
    draws = np.random.default_rng(0)
    vocabulary = sorted({word for text in texts for word in text.split()})

    def with_word(text: str, *replacement: str) -> str:
        words = text.split()
        place = draws.integers(len(words))
        return " ".join([*words[:place], *replacement, *words[place + 1 :]]) or text

    def with_typo(text: str) -> str:
        place = draws.integers(max(1, len(text) - 1))
        return text[:place] + text[place : place + 2][::-1] + text[place + 2 :]

    return {
        "other punctuation and case": lambda text: re.sub(r"[?.!,;]", "", text).upper() + " !",
        "two letters exchanged": with_typo,
        "one word left out": with_word,
        "one word replaced": lambda text: with_word(text, draws.choice(vocabulary)),
    }


def report(name: str, looks: Looks, changes: dict[str, Looks], labels: ndarray | None) -> None:
    """Print the share of changed copies that are found, and of samples for which another one is."""
    first = looks.vectors[:CHANGED]
    print(f"| changed {name} | found (%) |\n|---|--:|")
    for change, changed in changes.items():
        cosine = (first[: len(changed.vectors)] * changed.vectors).sum(1)
        print(f"| {change} | {100 * (cosine >= looks.least).mean():.1f} |")
    cosine = first @ looks.vectors.T
    cosine[np.arange(len(first)), np.arange(len(first))] = -1
    is_near = cosine.max(1) >= looks.least
    print(f"| none: another one of {len(looks.vectors):,} | {100 * is_near.mean():.1f} |")
    if labels is not None:
        is_other = is_near & (labels[: len(first)] != labels[cosine.argmax(1)])
        print(f"| none: another one with another label | {100 * is_other.mean():.1f} |")


def contents(place: Path, count: int) -> list[bytes]:
    """Read encoded images in random order."""
    draws = np.random.default_rng(0)
    if place.is_dir():
        files = sorted(path for path in place.rglob("*") if path.suffix in (".jpg", ".png"))
        return [files[row].read_bytes() for row in draws.permutation(len(files))[:count]]
    table = pq.read_table(place)
    column = next(name for name in ("img", "image") if name in table.column_names)
    cells = table.column(column).take(draws.permutation(len(table))[:count]).to_pylist()
    return [cell["bytes"] if isinstance(cell, dict) else cell for cell in cells]


def images(place: Path, resolution: int, others: int) -> None:
    def looks(listed: Sequence[bytes]) -> Looks:
        pixels = np.stack([decode_resized(each, "RGB", resolution) for each in listed])
        return looks_of_images(pixels, np.empty(0, str))

    listed = contents(place, others)
    opened = [Image.open(io.BytesIO(each)).convert("RGB") for each in listed[:CHANGED]]
    changes = {name: looks(list(map(change, opened))) for name, change in IMAGE_CHANGES.items()}
    report("image", looks(listed), changes, None)


def texts(table: Path, column: str, label: str | None, others: int) -> None:
    rows = pd.read_csv(table).dropna(subset=[column]).drop_duplicates(column)
    rows = rows.sample(min(others, len(rows)), random_state=0)
    listed = rows[column].tolist()
    changes = {
        name: looks_of_texts(list(map(change, listed[:CHANGED])), np.empty((0, 1), np.int64))
        for name, change in text_changes(listed).items()
    }
    labels = None if label is None else rows[label].to_numpy(object)
    report("text", looks_of_texts(listed, np.empty((0, 1), np.int64)), changes, labels)


def seconds(samples: int) -> None:
    draws = np.random.default_rng(0)
    count = samples // 5
    subset: Any = SimpleNamespace(seed=0, test=np.arange(count), train=np.arange(count, samples))
    owner: Any = SimpleNamespace(restricted=False)
    names = np.arange(samples).astype(str)
    words = np.array([f"word{number}" for number in range(2000)])
    made: dict[str, Callable[[], Looks]] = {
        "images of 32 × 32 pixels": lambda: looks_of_images(
            draws.integers(0, 256, (samples, 3, 32, 32), np.uint8), names
        ),
        "texts of 12 words": lambda: looks_of_texts(
            [" ".join(row) for row in words[draws.integers(0, 2000, (samples, 12))]],
            np.arange(samples)[:, None],
        ),
    }
    print(f"| {samples:,} | vectors (s) | comparison (s) |\n|---|--:|--:|")
    for name, make in made.items():
        began = time.perf_counter()
        looks = make()
        between = time.perf_counter()
        near_duplicates(owner, looks, subset)
        ended = time.perf_counter()
        print(f"| {name} | {between - began:.1f} | {ended - between:.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parts = parser.add_subparsers(required=True)
    of_images = parts.add_parser("images")
    of_images.add_argument("place", type=Path)
    of_images.add_argument("--resolution", type=int, default=64)
    of_texts = parts.add_parser("texts")
    of_texts.add_argument("table", type=Path)
    of_texts.add_argument("column")
    of_texts.add_argument("label", nargs="?")
    for part in (of_images, of_texts):
        part.add_argument("--others", type=int, default=10_000)
    of_time = parts.add_parser("time")
    of_time.add_argument("--samples", type=int, default=50_000)
    for part, run in ((of_images, images), (of_texts, texts), (of_time, seconds)):
        part.set_defaults(run=run)
    arguments = vars(parser.parse_args())
    arguments.pop("run")(**arguments)


if __name__ == "__main__":
    main()
