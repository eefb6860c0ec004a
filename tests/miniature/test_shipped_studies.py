"""Every section of every shipped configuration runs in miniature with Snakemake, from its source to
the page.
"""

import pytest

from tests.miniature.harness import Miniatures, sections


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Miniatures:
    return Miniatures(tmp_path_factory.mktemp("studies"))


@pytest.mark.studies
@pytest.mark.parametrize("section", sections(), ids=str)
def test_a_shipped_section_runs_from_its_source_to_the_page(section, finished):
    if problems := finished.problems(section):
        pytest.fail("\n".join([*problems, finished.logs(section)]), pytrace=False)
