"""Read the reports of MIMIC-CXR, which are restricted."""

from collections.abc import Mapping
from pathlib import Path

from trueneg.data.images.folder import Part, missing_parts
from trueneg.data.reports import Reports
from trueneg.data.reports.sections import parse_sections
from trueneg.specs.sections import Section

REPORTS = Part(
    tuple(f"{root}p1?/p*/s*.txt" for root in ("mimic-cxr-reports/files/", "files/", "")),
    "the reports",
    "Unpack mimic-cxr-reports.zip of MIMIC-CXR 2.0.0 or 2.1.0 from PhysioNet"
    " (https://physionet.org/content/mimic-cxr/).",
)


def missing_files(settings: Section) -> list[str]:
    """Report whether the reports are missing from the folder ``path``."""
    return missing_parts(Path(settings["path"]).expanduser(), (REPORTS,))


def read_reports(settings: Section) -> Reports:
    """Read MIMIC-CXR reports (restricted) from the official folder layout,
    …/files/p10/p10000032/s50414267.txt.

    Raises:
        UserError: if the folder contains no reports.
    """
    root = REPORTS.required(Path(settings["path"]).expanduser()).parents[2]
    files = sorted(root.glob("p[0-9][0-9]/p*/s*.txt"))
    for file in files:
        content: Mapping[str, str] | str
        try:
            content = parse_sections(file.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, OSError) as error:
            content = "not UTF-8" if isinstance(error, UnicodeDecodeError) else "cannot be opened"
        yield file.stem, file.parent.name, content
