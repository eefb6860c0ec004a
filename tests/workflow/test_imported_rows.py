"""Rows that are imported into a fresh copy of the project: what Snakemake plans, trains and draws there."""

import pandas as pd
import pytest

from tests.projects import Project, new_project
from tests.studies import tiny_study
from trueneg.cli.main import main

QUICK = {"compare", "draw_tiny", "page", "all"}


@pytest.fixture
def fresh(tmp_path) -> Project:
    return new_project(tmp_path / "fresh")


def bring(project: Project, fresh: Project) -> None:
    """Export the rows of a project, and import them into another one."""
    folder = str(fresh.path / "exported")
    assert main(["rows", "export", str(project.path / "study.yaml"), folder, "--results", str(project.path / "results")]) == 0
    assert main(["rows", "import", folder, "--results", str(fresh.path / "results")]) == 0


def test_imported_rows_need_neither_data_nor_training(finished_project, fresh):
    fresh.configure(tiny=tiny_study())
    bring(finished_project, fresh)
    assert set(fresh.planned()) == QUICK


def test_an_unpacked_archive_without_git_plans_a_study_with_a_protocol(fresh):
    (fresh.path / "protocol.md").write_text("DCL - CL\n")
    fresh.configure(tiny=tiny_study(protocol="protocol.md"))
    assert fresh.planned("rows")["train"] == 3


@pytest.mark.long
def test_imported_rows_are_drawn_and_a_study_that_grows_trains_only_what_is_new(finished_project, fresh):
    fresh.configure(tiny=tiny_study())
    bring(finished_project, fresh)
    fresh.run()
    assert fresh.models() == {}
    drawn = [project.path / "results/tiny/tables/accuracy.csv" for project in (finished_project, fresh)]
    assert drawn[0].read_text() == drawn[1].read_text()
    assert fresh.planned() == {}
    assert "6 of 6 runs" not in (fresh.path / "results/index.html").read_text()  # no mark: nothing is stale
    fresh.configure(tiny=tiny_study(seeds=3))
    fresh.run("rows")
    rows = pd.read_parquet(fresh.path / "results/tiny/artefacts/rows.parquet")
    earlier = pd.read_parquet(finished_project.path / "results/tiny/artefacts/rows.parquet")
    assert set(rows["seed"]) == {0, 1, 2}
    assert set(fresh.models()) == set(rows["run"]) - set(earlier["run"])
    assert len(rows.merge(earlier)) == len(earlier)
    assert fresh.planned("rows") == {}


@pytest.mark.long
def test_changed_settings_do_not_use_imported_rows(finished_project, fresh):
    bring(finished_project, fresh)
    fresh.configure(tiny=tiny_study(training=tiny_study()["training"] | {"epochs": 2}))
    done = fresh.snakemake("rows")
    assert done.returncode != 0
    assert "training.epochs" in done.stdout + done.stderr
