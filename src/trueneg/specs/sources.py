"""Names of the image sources: the modules of :mod:`trueneg.data.images.sources`, listed without
importing them.
"""

import pkgutil
import re
from pathlib import Path

UNLABELLED = {"stl10": 100_000}  # number of unlabelled images; other sources have none
# sources without official test images; users' own images may have some
WITHOUT_TEST_IMAGES = ("digits",)
# the user's own images: without test images, their studies must state the share to hold out
OWN = ("image_folder", "parquet")
# What sentences call a user's table, whose label is the source.
DESCRIBED = {"image_table": "the table's images and texts", "text_table": "the table's texts"}
IMAGE_SOURCES = tuple(
    name
    for _, name, _ in pkgutil.iter_modules([str(Path(__file__).parents[1] / "data/images/sources")])
)


def described(dataset: str) -> str:
    """Return what a sentence calls a data set: its label, or a phrase for the user's own table.

    Example:
        >>> described("cifar10"), described("text_table")
        ('cifar10', "the table's texts")
    """
    return DESCRIBED.get(dataset, dataset)


def data_name(source: str, path: str | Path | None) -> str:
    """Return the name of images: the source, or the folder of the user's own images.

    Example:
        >>> data_name("cifar10", "data/cifar10"), data_name("parquet", "data/my flowers/")
        ('cifar10', 'my-flowers')
    """
    name = Path(path or "").name if source in OWN else source
    return re.sub(r"[^\w.+-]+", "-", name).strip("-.") or source
