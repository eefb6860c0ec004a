"""Names of the image sources: the modules of :mod:`trueneg.data.images.sources`, listed without importing them."""

import pkgutil
import re
from pathlib import Path

UNLABELLED = {"stl10": 100_000}  # number of unlabelled images; other sources have none
WITHOUT_TEST_IMAGES = ("digits",)  # sources without official test images; users' own images may have some
OWN = ("image_folder", "parquet")  # the user's own images: without test images, their studies must state the share to hold out
IMAGE_SOURCES = tuple(name for _, name, _ in pkgutil.iter_modules([str(Path(__file__).parents[1] / "data/images/sources")]))


def data_name(source: str, path: str | Path | None) -> str:
    """Return the name of images: the source, or the folder of the user's own images.

    Example:
        >>> data_name("cifar10", "data/cifar10"), data_name("parquet", "data/my flowers/")
        ('cifar10', 'my-flowers')
    """
    name = Path(path or "").name if source in OWN else source
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or source
