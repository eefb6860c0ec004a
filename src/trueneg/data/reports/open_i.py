"""Read the 3,955 reports of the Indiana University collection (Open-I) that ship with the
torchxrayvision wheel.
"""

import gzip
import importlib.util
import re
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from pandas import DataFrame

from trueneg.data.reports import Reports
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.io.reading import reading
from trueneg.specs.sections import Section

ARCHIVE = "NLMCXR_reports.tgz"
CHUNK = 2**20
SECTIONS = ("FINDINGS", "IMPRESSION")


def find_archive(path: str | Path | None = None) -> Path:
    """Find the archive of the reports at the given path, or inside the installed torchxrayvision
    (which is not imported).

    Args:
        path: the archive, the wheel's folder, or a folder that contains the archive; None: the
            installed package.

    Raises:
        UserError: if the archive is not found.
    """
    if path is None:
        package = importlib.util.find_spec("torchxrayvision")
        if package is None or package.origin is None:
            raise UserError(
                "reports.path is not set, and torchxrayvision, whose wheel contains the Open-I"
                " reports, is not installed. Install it (pip install torchxrayvision), or set"
                " reports.path to the archive."
            )
        path = Path(package.origin).parent
    path = Path(path)
    for candidate in (
        path,
        path / ARCHIVE,
        path / "data" / ARCHIVE,
        path / "torchxrayvision" / "data" / ARCHIVE,
    ):
        if candidate.is_file():
            return candidate
    raise UserError(
        f"{path}: {ARCHIVE} not found; expected the archive or a folder that contains it."
    )


def user_files(settings: Section) -> UserFiles:
    """Return the archive if ``path`` is set; no files if the installed package's archive is
    used.
    """
    return UserFiles() if settings["path"] is None else UserFiles([find_archive(settings["path"])])


def read_reports(settings: Section) -> Reports:
    """Read the reports inside torchxrayvision's wheel; findings and impression are fields of their
    XML.
    """
    for name, report in read_archive(find_archive(settings["path"])):
        yield name, name, "invalid XML" if report is None else section_text(report)


def read_archive(path: str | Path) -> Iterator[tuple[str, ElementTree.Element | None]]:
    """Read the XML of each report in numerical order, without unpacking the archive to disk.

    Yields:
        The report's id (``CXR12``) and its root element, or None if it is not valid XML.

    Raises:
        UserError: if the archive is damaged.
    """
    contents = {}
    with (
        reading(
            path, "the archive of reports", "Reinstall torchxrayvision, or get the whole archive."
        ),
        gzip.open(path) as stream,
        tarfile.open(fileobj=stream, mode="r:") as archive,
    ):
        for member in archive:
            if (
                member.isfile()
                and member.name.endswith(".xml")
                and (file := archive.extractfile(member))
            ):
                contents["CXR" + Path(member.name).stem] = file.read()
        # At a damaged header, tarfile ends as after the last file; the stream's end has a checksum.
        while stream.read(CHUNK):
            pass
    if not contents:
        raise UserError(f"{path} contains no XML files; expected the reports of Open-I.")
    for name in sorted(contents, key=lambda name: (len(name), name)):
        try:
            yield name, ElementTree.fromstring(contents[name])
        except ElementTree.ParseError:
            yield name, None


def section_text(report: ElementTree.Element) -> dict[str, str]:
    """Return the non-empty sections by lower-case name."""
    texts = {
        node.get("Label"): "".join(node.itertext()).strip() for node in report.iter("AbstractText")
    }
    return {name.lower(): texts[name] for name in SECTIONS if texts.get(name)}


def image_codes(path: str | Path | None = None) -> DataFrame:
    """Read the experts' MeSH codes of each report.

    Args:
        path: as for :func:`find_archive`.

    Returns:
        One row per code: ``report``, ``code`` (``Opacity/lung/base/left``: the heading, then its
            qualifiers). A report without findings has the single code ``normal``.
    """
    rows = []
    for name, report in read_archive(find_archive(path)):
        if report is not None:
            codes = (" ".join("".join(node.itertext()).split()) for node in report.iter("major"))
            rows += [(name, re.sub(r"\s*/\s*", "/", code)) for code in codes if code]
    return DataFrame(rows, columns=["report", "code"]).drop_duplicates(ignore_index=True)
