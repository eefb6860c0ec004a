"""Published image sets: parquet files, or the official binary archive, which can be downloaded."""

import logging
import os
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.sources.parquet import parquet_files, read_folder
from trueneg.data.mistakes import DAMAGE
from trueneg.errors import UserError
from trueneg.io.files import UserFiles

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OfficialArchive:
    """A published set of RGB images.

    Args:
        name: of the source.
        class_names: in the order of the labels.
        rows: number of images of the splits ``train`` and ``test``.
        url: of the official .tar.gz archive.
        md5: of the archive, in hexadecimal.
        unpacked: the folder that the archive holds.
        binary_files: the files in this folder, those of the training images first.
        read: reads the folder, given a resolution, into images uint8 (n, 3, H, W) and labels int64 (n,).
    """

    name: str
    class_names: tuple[str, ...]
    rows: dict[str, int]
    url: str
    md5: str
    unpacked: str
    binary_files: tuple[str, ...]
    read: Callable[[Path, int | None], tuple[np.ndarray, np.ndarray]]

    def folder(self, path: str | Path | None) -> Path:
        """The folder that ``dataset.path`` names."""
        return required_path(path, self.name, f"train*.parquet and test*.parquet, or {self.unpacked}")

    def load(self, path: str | Path | None, *, resolution: int | None = None, download: bool = False) -> ImageSource:
        """Read the parquet files or the official binary version, whichever the folder holds.

        Args:
            path: folder with train*.parquet and test*.parquet, or with the unpacked folder or its files.
            resolution: side in pixels of the square to resize to; None: as the images are.
            download: fetch the official binary version where the folder holds neither.

        Raises:
            UserError: if files are missing, damaged or of another layout, or cannot be downloaded.
        """
        folder = self.folder(path)
        if parquet_files(folder):
            return read_folder(
                folder, self.name, resolution=resolution, mode="RGB", class_names=self.class_names, expected_rows=self.rows
            )
        if self._binary_folder(folder) is None and download:
            fetch_archive(self.url, self.md5, folder, self.unpacked)
        binary = self._binary_folder(folder)
        if binary is None:
            raise UserError(
                f"{folder}: found {contents(folder)}; expected train*.parquet and test*.parquet, or {self.unpacked}. "
                "Set dataset.download: true to fetch the binary version, or put parquet files there."
            )
        images, labels = self.read(binary, resolution)
        return ImageSource(self.name, images, labels, np.arange(len(labels)) >= self.rows["train"], self.class_names)

    def user_files(self, settings: Mapping[str, Any]) -> UserFiles:
        """The parquet files, or those of the binary version, in the folder ``path``."""
        folder = self.folder(settings["path"])
        binary = self._binary_folder(folder)
        return UserFiles(parquet_files(folder) or [binary / name for name in self.binary_files if binary])

    def _binary_folder(self, folder: Path) -> Path | None:
        places = (folder, folder / self.unpacked)
        return next((place for place in places if any((place / name).is_file() for name in self.binary_files)), None)


def binary_content(file: Path, expected: int, images: int) -> np.ndarray:
    """The bytes of one of the files of an archive.

    Raises:
        UserError: if the file is missing, or has other than the `expected` bytes of its `images`.
    """
    if not file.is_file():
        raise UserError(f"{file}: is missing, expected the files of the archive; unpack it again.")
    found = file.stat().st_size
    if found != expected:
        raise UserError(
            f"{file}: is {found:,} bytes long ({found * images // expected:,} of {images:,} images), expected {expected:,}; "
            "unpack or fetch the archive again."
        )
    return np.fromfile(file, np.uint8)


def fetch_archive(url: str, md5: str, folder: Path, unpacked: str) -> None:
    """Make `folder`/`unpacked` from a .tar.gz archive, which is not fetched if it lies in the folder already.

    Raises:
        UserError: if the archive cannot be fetched, has another checksum, or cannot be unpacked.
    """
    from torchvision.datasets.utils import download_url  # imports torch, which reading does not need

    name = url.rsplit("/", 1)[1]
    logger.info("%s: fetching %s", folder, url)
    try:
        download_url(url, folder, md5=md5)
        # Unpacked aside and moved, so that a process that dies leaves no half a data set behind.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as aside:
            with tarfile.open(folder / name) as archive:
                # Nothing outside the folder; Python before 3.11.4 has no filters, and the archive is the official one.
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(aside)
            os.replace(Path(aside) / unpacked, folder / unpacked)
    except (*DAMAGE, RuntimeError, tarfile.TarError) as error:  # RuntimeError: another checksum
        remedy = f"Put {name} or the data set's parquet files into {folder} by other means, and start again."
        raise UserError(f"{folder}: {url} could not be fetched and unpacked ({error}). {remedy}") from error
