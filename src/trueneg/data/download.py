"""Fetch an official archive, compare its checksum and unpack it."""

import logging
import os
import tarfile
import tempfile
import zlib
from pathlib import Path

from trueneg.errors import UserError

logger = logging.getLogger(__name__)


def fetch_archive(url: str, md5: str, folder: Path, unpacked: str) -> None:
    """Make `folder`/`unpacked` from a .tar.gz archive, which is not fetched if it lies in the folder already.

    Args:
        url: where the archive is.
        md5: of the archive, in hexadecimal.
        folder: where to put the archive; made if need be.
        unpacked: name of the folder that the archive holds.

    Raises:
        UserError: if the archive cannot be fetched, is not the expected one, or cannot be unpacked.
    """
    from torchvision.datasets.utils import download_url  # imports torch, which reading needs not

    name = url.rsplit("/", 1)[1]
    remedy = f"Put {name} or the data set's parquet files into {folder} by other means, and start again"
    logger.info("%s: fetching %s", folder, url)
    try:
        download_url(url, folder, md5=md5)
    except (OSError, RuntimeError) as error:  # no network; another checksum
        raise UserError(f"{folder}: {url} could not be fetched ({error}). {remedy}.") from error
    try:
        # Unpacked aside and moved, so that a process that dies leaves no half a data set behind.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".unpacking-") as aside:
            with tarfile.open(folder / name) as archive:
                _unpack(archive, aside)
            os.replace(Path(aside) / unpacked, folder / unpacked)
    except (OSError, tarfile.TarError, EOFError, zlib.error, KeyError, ValueError) as error:  # KeyError: a link to nothing
        raise UserError(f"{folder / name}: could not be unpacked ({error}). {remedy}.") from error


def _unpack(archive: tarfile.TarFile, folder: str) -> None:
    """Nothing but files and folders, and none outside the folder."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    # Python before 3.11.4 knows no filters.
    inside = Path(folder).resolve()
    for member in archive.getmembers():
        if not (member.isfile() or member.isdir()) or not (inside / member.name).resolve().is_relative_to(inside):
            raise tarfile.TarError(f"{member.name!r} is no file or folder inside of it")
    archive.extractall(folder)
