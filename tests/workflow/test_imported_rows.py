"""Rows that are imported into another copy of the project: what Snakemake plans, trains and draws
there.
"""

import pandas as pd
import pytest

from tests.projects import Project, new_project
from tests.studies import tiny_study
from trueneg.cli.main import main


@pytest.fixture
def fresh(tmp_path) -> Project:
    return new_project(tmp_path / "fresh")


def export_and_import(project: Project, other: Project) -> None:
    """Export the rows of a project, and import them into another one."""
    folder = str(other.path / "exported")
    assert (
        main(
            [
                "rows",
                "export",
                str(project.path / "study.yaml"),
                folder,
                "--results",
                str(project.path / "results"),
            ]
        )
        == 0
    )
    assert main(["rows", "import", folder, "--results", str(other.path / "results")]) == 0


def test_imported_rows_need_neither_data_nor_training(finished_project, fresh):
    fresh.configure(tiny=tiny_study())
    export_and_import(finished_project, fresh)
    assert set(fresh.planned()) == {"compare", "draw_tiny", "page", "all"}


@pytest.mark.long
def test_imported_rows_are_drawn_and_a_study_with_more_seeds_trains_only_the_new_ones(
    finished_project, fresh
):
    fresh.configure(tiny=tiny_study())
    export_and_import(finished_project, fresh)
    fresh.run()
    assert fresh.models() == {}
    tables = [
        project.path / "results/tiny/tables/accuracy.csv" for project in (finished_project, fresh)
    ]
    assert tables[0].read_text() == tables[1].read_text()
    assert fresh.planned() == {}
    # nothing is marked as stale
    assert "6 of 6 runs" not in (fresh.path / "results/index.html").read_text()
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
    export_and_import(finished_project, fresh)
    fresh.configure(tiny=tiny_study(training=tiny_study()["training"] | {"epochs": 2}))
    done = fresh.snakemake("rows")
    assert done.returncode != 0
    assert "training.epochs" in done.stdout + done.stderr
