"""What docs/extend.md shows works as it stands there."""

import sys

import pandas as pd
import pytest

from tests.docs.followed import follow, run_in, write_files
from tests.projects import new_project

OWN_SOURCE = """
from trueneg.config.reading import read_configuration

studies = read_configuration(["shapes.yaml"]).studies
assert studies["captions"].reports.path == "data/shapes"
assert studies["shapes"].dataset.source == "caption_files"
"""


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def test_the_source_of_pairs_is_known_to_library_configuration_and_check(project):
    write_files("docs/extend.md", project)
    assert "2 passed" in run_in(
        project, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/data/test_caption_files.py"]
    )
    run_in(project, [sys.executable, "-c", OWN_SOURCE])
    check = [sys.executable, "-m", "trueneg", "check", "shapes.yaml"]
    assert "data/shapes: your images" in run_in(project, check)
    run_in(project, [sys.executable, "draw_shapes.py"])
    assert "data/shapes: your images" not in run_in(project, check)


@pytest.mark.long
def test_the_source_of_pairs_becomes_a_study(project):
    follow("docs/extend.md", project)
    rows = pd.read_parquet(project.path / "results/shapes/artefacts/rows.parquet")
    assert set(rows["objective"]) == {"CL", "DCL-LM"}
    assert (project.path / "results/index.html").is_file()
