"""Small image files for tests, each with different content."""

import io
from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, width: int = 40, height: int = 30, mode: str = "RGB") -> Image.Image:
    """Draw smooth colours with noise: JPEG changes them little, and resizing visibly."""
    generator = np.random.default_rng(seed)
    coarse = Image.fromarray(generator.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    noisy = np.asarray(coarse, np.int16) + generator.integers(-20, 20, (height, width, 3))
    return Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).convert(mode)


def encoded(image: Image.Image, form: str = "PNG", **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


def write_picture(path: Path, seed: int, **how) -> Path:
    """Write a PNG or JPEG file, depending on the suffix, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(picture(seed, **how), "PNG" if path.suffix == ".png" else "JPEG"))
    return path
