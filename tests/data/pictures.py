"""Small image files for tests, each of its own content."""

import io
from pathlib import Path

import numpy as np
from PIL import Image


def picture(seed: int, width: int = 40, height: int = 30, mode: str = "RGB") -> Image.Image:
    """Smooth colours with noise, so that JPEG changes little and resizing tells."""
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
    """A JPEG or PNG file, by the path's suffix; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(encoded(picture(seed, **how), "PNG" if path.suffix == ".png" else "JPEG"))
    return path
