"""A section that fails is reported with the reason; the others are not stopped."""

import pytest

from tests.miniature.fixtures import write_fixtures
from tests.miniature.harness import Group, shipped
from tests.miniature.overrides import miniatures
from tests.projects import new_project


@pytest.mark.studies
def test_a_section_whose_data_are_missing_fails_alone(tmp_path):
    files = ("config/studies/own_data.yaml", "config/studies/cifar10_small.yaml")
    texts, images = (miniatures(shipped()[file], file) for file in files)
    group = Group(new_project(tmp_path / "project"), {"my_text": texts["my_text"], **images})
    write_fixtures(group.project.path, texts["my_text"])
    group.run()
    assert group.problems("my_text") == []
    assert {failure.rule for failure in group.failures} == {"source"}
    assert "results/cifar10_small/tables/accuracy.csv is missing or empty" in group.problems(
        "cifar10_small"
    )
    assert "data/cifar10" in group.logs("cifar10_small")
