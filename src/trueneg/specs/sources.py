"""Names of the image sources: the modules of :mod:`trueneg.data.images.sources`, listed without importing them."""

import pkgutil
from pathlib import Path

UNLABELLED = {"stl10": 100_000}  # number of unlabelled images; other sources have none
WITHOUT_TEST_IMAGES = ("digits",)  # sources without official test images; own images may have some
TEST_REQUIRED = ("image_folder",)  # sources for which a study without test images states the share to hold out
IMAGE_SOURCES = tuple(name for _, name, _ in pkgutil.iter_modules([str(Path(__file__).parents[1] / "data/images/sources")]))
