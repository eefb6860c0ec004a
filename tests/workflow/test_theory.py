"""A theory study as a real workflow: experiments, figures and tables, and what a change runs
again.
"""

import pandas as pd
import pytest

from tests.projects import new_project
from tests.theory.sweeps import SWEEPS
from trueneg.cli.why import provenance_of
from trueneg.specs.kinds.theory import TheoryStudy
from trueneg.specs.stages import VERSIONS

pytestmark = pytest.mark.long  # `make test-studies` runs a whole theory study

THEORY = {
    "kind": "theory",
    "title": "Tiny theory",
    "process": {"anchors": 20, "negatives": 16},
    "sweeps": SWEEPS | {"anchor_counts": [10, 20], "long_negative_counts": [8, 16]},
}
FIGURE, TABLE = (
    "results/tiny/figures/bias_by_negatives.png",
    "results/tiny/tables/normalisation.csv",
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    project = new_project(tmp_path_factory.mktemp("theory") / "project")
    project.configure(tiny=THEORY)
    project.run(FIGURE, TABLE)
    return project


def test_experiments_use_the_settings_and_are_drawn(finished):
    frame = pd.read_parquet(
        finished.path / "results/tiny/artefacts/simulation/errors_by_negatives.parquet"
    )
    assert {8, 16} <= set(frame["at"])
    assert (finished.path / FIGURE).stat().st_size > 10_000
    assert "Tiny theory" in (finished.path / TABLE.replace(".csv", ".txt")).read_text()


def test_a_finished_study_plans_nothing(finished):
    assert finished.planned(FIGURE, TABLE) == {}
    # drawn together with the two above
    assert finished.planned("figures_theory", "tables_theory") == {}


def test_a_raised_version_runs_the_experiments_again_but_an_edit_does_not(finished, tmp_path):
    project = finished.copy(tmp_path / "project")
    loss = project.path / "src/trueneg/losses/estimators/bayesian.py"
    loss.write_text(loss.read_text() + "\nCHANGED = 1\n")
    assert project.planned(FIGURE) == {}
    stages = project.path / "src/trueneg/specs/stages.py"
    version = f'"simulation": {VERSIONS["simulation"]}'
    assert version in stages.read_text()
    stages.write_text(stages.read_text().replace(version, '"simulation": 1000'))
    planned = project.planned(FIGURE)
    assert planned.keys() == {"simulate", "draw_tiny"}
    assert planned["draw_tiny"] == 1


def test_a_caption_of_the_report_can_show_a_default_setting(finished, tmp_path):
    project = finished.copy(tmp_path / "project")
    caption = project.path / "workflow/captions/workflow.rst"
    caption.write_text('alpha={{ snakemake.config["tiny"]["process"]["alpha"] }};')
    project.run(FIGURE, TABLE, "--report", "report.html")
    expected = TheoryStudy.model_validate(THEORY).process.alpha
    assert "alpha" not in THEORY["process"]
    assert f"alpha={expected};" in (project.path / "report.html").read_text()


def test_an_experiment_of_an_earlier_version_is_stale(finished, tmp_path, monkeypatch):
    results = finished.copy(tmp_path / "project").path / "results"
    frame = results / "tiny/artefacts/simulation/errors_by_negatives.parquet"
    assert provenance_of(str(frame), results).stale == []
    version = VERSIONS["simulation"]
    monkeypatch.setitem(VERSIONS, "simulation", version + 1)
    assert [
        f"simulation version {version} (now {version + 1})" in reason
        for reason in provenance_of(str(frame), results).stale
    ] == [True]
