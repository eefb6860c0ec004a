"""The tables of published artefacts and shipped configurations are complete, and agree with the
files that they name.

That the configurations and targets of the commands exist is asserted in test_commands.py, as for
all pages.
"""

import re

import pytest

from tests.docs.pages import ROOT
from tests.projects import SHIPPED

PAGE = ROOT / "docs/artefacts.md"
FILES = [path.relative_to(ROOT).as_posix() for path in SHIPPED]
RAN = re.compile(r"(no|\d{4}-\d{2}-\d{2} \([0-9a-f]{7}\))(?:[,;] .+)?")


def tables():
    """The rows of the page's tables, by their column names."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE.read_text(encoding="utf-8"), re.M):
        names, _, *rows = (
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()
        )
        yield from (dict(zip(names, row, strict=True)) for row in rows)


def test_every_shipped_configuration_has_one_row():
    assert sorted(row["file"].strip("`") for row in tables() if "file" in row) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_configuration_says_first_whether_it_has_run(name):
    (stated,) = [row["has run"] for row in tables() if row.get("file") == f"`{name}`"]
    assert RAN.fullmatch(stated)
    assert (ROOT / name).read_text(encoding="utf-8").splitlines()[0] == f"# Has run: {stated}."


def test_every_artefact_says_whether_it_has_run():
    rows = [row for row in tables() if "artefact" in row]
    assert rows
    for row in rows:
        assert all(row.values()), row
        stated = re.sub(r", \[.*", "", row["reproduced at full size"])
        assert RAN.fullmatch(stated) or stated.startswith("yes"), row
