"""Published image datasets, read from parquet files or from the official binary archive, which can
be downloaded.
"""

import logging
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy import ndarray

from trueneg.data.decoding import resize_images
from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.labels import checked_labels
from trueneg.data.images.pixels import decoded_source
from trueneg.data.images.sources.parquet import listed, parquet_files
from trueneg.data.mistakes import DAMAGE
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OfficialArchive:
    """A published dataset of RGB images.

    Args:
        name: name of the source.
        class_names: names of the classes, in the order of the labels.
        rows: number of images in the splits ``train`` and ``test``.
        url: URL of the official .tar.gz archive.
        md5: hexadecimal MD5 of the archive.
        unpacked: name of the folder in the archive.
        binary_files: number and type of the records of each file in this folder, training images
            first. A record has the field ``label``, the field ``image`` (colour planes), or both.
        first_label: label of the first class in the binary files.
        column_major: whether the planes are stored in column-major order.
        unlabelled_files: number and type of the records of each file of unlabelled images; these
            files are read only on request.
    """

    name: str
    class_names: tuple[str, ...]
    rows: dict[str, int]
    url: str
    md5: str
    unpacked: str
    binary_files: Mapping[str, tuple[int, np.dtype]]
    first_label: int = 0
    column_major: bool = False
    unlabelled_files: Mapping[str, tuple[int, np.dtype]] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        """Describe the contents of the folder."""
        return f"train*.parquet and test*.parquet, or {self.unpacked}"

    def load(
        self,
        path: str | Path | None,
        *,
        resolution: int | None = None,
        download: bool = False,
        unlabelled: int = 0,
    ) -> ImageSource:
        """Read the parquet files or the official binary version, whichever the folder contains.

        Args:
            path: folder that contains train*.parquet and test*.parquet, the unpacked folder, or the
                files of the unpacked folder.
            resolution: side in pixels of the square to resize to; None keeps the original size.
            download: whether to download the official binary version if the folder contains neither
                version.
            unlabelled: number of unlabelled images to append: the first ones of the binary version,
                which is then required.

        Raises:
            UserError: if files are missing, damaged, have an unexpected layout, or cannot be
                downloaded.
        """
        folder = required_path(path, self.name, self.layout)
        if parquet_files(folder) and not unlabelled:
            encoded = listed(folder, self.class_names, self.rows)
            return decoded_source(
                self.name, encoded, place=folder, mode="RGB", resolution=resolution
            )
        binary = self._binary_folder(folder)
        if binary is None and download:
            fetch_archive(self.url, self.md5, folder, self.unpacked)
            binary = self._binary_folder(folder)
        if binary is None:
            raise UserError(
                f"{folder}: found {contents(folder)}; expected"
                f" {self.unpacked if unlabelled else self.layout}. Set dataset.download: true to"
                " download the binary version, or copy the files there."
            )
        images, labels = self._read_binary(binary, resolution, unlabelled)
        is_test = (np.arange(len(labels)) >= self.rows["train"]) & (labels >= 0)
        return ImageSource(self.name, images, labels, is_test, self.class_names)

    def _read_binary(
        self, folder: Path, resolution: int | None, unlabelled: int
    ) -> tuple[ndarray, ndarray]:
        images = []
        labels = []
        for name, (count, kind) in self._files(unlabelled).items():
            records = binary_records(folder / name, count, kind)
            if name in self.unlabelled_files:
                records = records[:unlabelled]
                labels.append(np.full(len(records), -1))
            if "label" in (kind.names or ()):
                last = self.first_label + len(self.class_names) - 1
                labels.append(
                    checked_labels(folder / name, records["label"], self.first_label, last)
                )
            if "image" in (kind.names or ()):
                planes = records["image"].swapaxes(2, 3) if self.column_major else records["image"]
                images.append(resize_images(planes, resolution))
        return np.concatenate(images), np.concatenate(labels)

    def user_files(self, settings: Section) -> UserFiles:
        """Return the parquet files, or the files of the binary version, in the folder ``path``."""
        folder = required_path(settings["path"], self.name, self.layout)
        binary = self._binary_folder(folder)
        unlabelled = settings.get("unlabelled") or 0
        parquet = [] if unlabelled else parquet_files(folder)
        return UserFiles(parquet or [binary / name for name in self._files(unlabelled) if binary])

    def _files(self, unlabelled: int) -> dict[str, tuple[int, np.dtype]]:
        return {**self.binary_files, **(self.unlabelled_files if unlabelled else {})}

    def _binary_folder(self, folder: Path) -> Path | None:
        for place in (folder, folder / self.unpacked):
            if any((place / name).is_file() for name in self.binary_files):
                return place
        return None


def binary_records(file: Path, count: int, kind: np.dtype) -> ndarray:
    """Memory-map the records of one file of the archive.

    Raises:
        UserError: if the file is missing, or its size differs from that of `count` records.
    """
    if not file.is_file():
        raise UserError(
            f"{file} is missing; expected all files of the archive. Unpack the archive again."
        )
    size = file.stat().st_size
    expected = count * kind.itemsize
    if size != expected:
        raise UserError(
            f"{file} is {size:,} bytes long ({size // kind.itemsize:,} of {count:,} images);"
            f" expected {expected:,}; unpack or download the archive again."
        )
    return np.memmap(file, kind, "r")


def fetch_archive(url: str, md5: str, folder: Path, unpacked: str) -> None:
    """Unpack a .tar.gz archive to `folder`/`unpacked`; download it first unless it is already in
    the folder.

    Raises:
        UserError: if the archive cannot be downloaded, has the wrong checksum, or cannot be
            unpacked.
    """
    # imports torch, which is not needed for reading
    from torchvision.datasets.utils import download_url

    name = url.rsplit("/", 1)[1]
    logger.info(f"{folder}: downloading {url}")
    try:
        download_url(url, folder, md5=md5)
        # Unpack to a temporary folder and move it, so that a killed process does not leave a
        # partial dataset.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as aside:
            with tarfile.open(folder / name) as archive:
                _unpack(archive, Path(aside).resolve())
            os.replace(Path(aside) / unpacked, folder / unpacked)
    except (*DAMAGE, RuntimeError, tarfile.TarError) as error:  # RuntimeError: wrong checksum
        raise UserError(
            f"{folder}: {url} could not be downloaded and unpacked ({error}). Copy {name} or the"
            f" dataset's parquet files to {folder} yourself, then run the same command again."
        ) from error


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack the regular files of an archive, but no links or devices; Python before 3.11.4 has no
    filters for this.

    Raises:
        TarError: if a file would be outside the folder.
    """
    for member in archive:
        path = (folder / member.name).resolve()
        if not path.is_relative_to(folder):
            raise tarfile.TarError(f"{member.name} would be outside the folder")
        if (content := archive.extractfile(member) if member.isfile() else None) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with content, path.open("wb") as file:
                shutil.copyfileobj(content, file)
