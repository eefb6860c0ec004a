"""Figures and tables are redrawn only if their files or code changed, and one that fails does not
stop the others.
"""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import synthetic_pairs

from trueneg.errors import UserError
from trueneg.report import build, registry

FIGURES, TABLES = ("eta_quality", "training_loss"), ("tasks", "differences")


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study reduced to a few figures and tables, for speed."""
    for listed, names in (("figures_by_name", FIGURES), ("tables_by_name", TABLES)):
        of_study = getattr(registry, listed)
        few = lambda study, of_study=of_study, names=names: {  # noqa: E731
            name: drawing for name, drawing in of_study(study).items() if name in names
        }
        monkeypatch.setattr(registry, listed, few)
    synthetic_pairs.write(tmp_path / "small/artefacts", synthetic_pairs.settings(seeds=3))
    settings = tmp_path / "small/artefacts/study.yaml"
    settings.write_text(settings.read_text().split("figures:")[0])
    return tmp_path / "small"


def drawn(study):
    """The time at which each figure and table was drawn."""
    kept = (study / registry.KEPT).glob("*/*.json")
    return {
        path.relative_to(study / registry.KEPT).with_suffix("").as_posix(): path.stat().st_mtime_ns
        for path in kept
    }


def drawn_again(study, before):
    return {name for name, time in drawn(study).items() if time != before.get(name)}


def test_only_drawings_whose_files_changed_are_redrawn(study):
    build.draw_study(study)
    before = drawn(study)
    (study / "tables/tasks.csv").unlink()
    build.draw_study(study)
    assert drawn_again(study, before) == set()
    assert (study / "tables/tasks.csv").is_file()
    table = study / "artefacts/eta_errors.parquet"
    pd.read_parquet(table).iloc[::-1].to_parquet(table)
    build.draw_study(study)
    assert drawn_again(study, before) == {"figures/eta_quality"}
    curves = study / "artefacts/curves.parquet"
    pd.read_parquet(curves).query("epoch > 1").to_parquet(curves)
    before = drawn(study)
    build.draw_study(study)
    assert drawn_again(study, before) == {"figures/training_loss", "tables/tasks"}


def test_editing_a_file_of_the_report_redraws_everything(study, tmp_path, monkeypatch):
    build.draw_study(study)
    before, unedited = drawn(study), registry.report_code()
    package = tmp_path / "trueneg"
    for name in ("report", "stats"):
        shutil.copytree(Path(registry.__file__).parents[1] / name, package / name)
    monkeypatch.setattr(registry, "__file__", str(package / "report/registry.py"))
    assert registry.report_code() == unedited
    assert not registry.drawn_by_other_code(study / "figures/eta_quality.png")
    for file in (
        "report/figures/eta_quality.py",
        "report/page/page.html",
        "report/page/styles/page.css",
        "stats/comparison.py",
    ):
        path = next(package.rglob("*.css")) if file.endswith(".css") else package / file
        path.write_text(path.read_text() + " ")
        assert registry.report_code() != unedited
        unedited = registry.report_code()
    assert registry.drawn_by_other_code(study / "figures/eta_quality.png")
    build.draw_study(study)
    assert drawn_again(study, before) == set(before)


def test_a_damaged_drawing_is_redrawn(study):
    build.draw_study(study)
    before = drawn(study)
    intact = (study / "drawings/tables/tasks.csv").read_text()
    (study / "drawings/tables/tasks.csv").write_text(intact.replace("1", "2"))
    build.draw_study(study)
    assert (study / "tables/tasks.csv").read_text() == intact
    assert drawn_again(study, before) == {"tables/tasks"}


def test_a_drawing_that_fails_is_reported_after_all_others_are_drawn(study):
    table = study / "artefacts/eta_errors.parquet"
    intact = table.read_bytes()
    table.write_text("damaged")
    with pytest.raises(
        UserError, match=r"1 of \d+ figures and tables.*figures/eta_quality.*eta_errors\.parquet"
    ):
        build.draw_study(study)
    others = drawn(study)
    assert "figures/training_loss" in others
    assert "tables/differences" in others
    assert "figures/eta_quality" not in others
    table.write_bytes(intact)
    build.draw_study(study)
    assert drawn_again(study, others) == {"figures/eta_quality"}
    assert (study / "figures/eta_quality.png").is_file()
