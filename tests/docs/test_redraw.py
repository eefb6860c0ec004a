"""docs/redraw.md: the files that its commands copy to another machine suffice to draw everything
there, without PyTorch.
"""

import shlex
import shutil

import pytest

from tests.docs.followed import run_in
from tests.docs.pages import ROOT, indented
from tests.projects import Project, new_project, planned_jobs

COMMANDS = [line.removeprefix(".venv/bin/") for line in indented(ROOT / "docs/redraw.md")]
NO_TORCH = """
import sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"torch", "torchvision", "sklearn"}:
            raise ImportError(f"{name} is not installed here")

sys.meta_path.insert(0, Refuse())
"""


def command(start: str) -> str:
    return next(line for line in COMMANDS if line.startswith(start))  # the first on the page


@pytest.fixture
def elsewhere(project, tmp_path) -> Project:
    """Another machine: a fresh checkout, with what the commands of the page pack and unpack."""
    other = new_project(tmp_path / "elsewhere")
    shutil.copy2(project.path / "study.yaml", other.path)
    (other.path / "src/sitecustomize.py").write_text(NO_TORCH)
    run_in(project, ["bash", "-c", command("tar -czf")])
    shutil.move(project.path / "drawn_from.tar.gz", other.path)
    run_in(other, shlex.split(command("tar -xzf")))
    return other


def test_a_dry_run_lists_drawing_alone(elsewhere):
    program, *arguments = shlex.split(command("snakemake"))
    assert program == "snakemake"
    targets = arguments[: arguments.index("--cores")]
    planned = planned_jobs(elsewhere.snakemake(*targets, "--dry-run"))
    assert set(planned) == {"draw_tiny", *targets}


@pytest.mark.long
def test_everything_is_drawn_after_lost_modification_times_are_reset(elsewhere):
    for path in elsewhere.path.glob("results/*/*/**/*"):
        path.touch()
    run_in(elsewhere, ["bash", "-c", command("find")])
    targets = shlex.split(command("snakemake"))[1:3]
    assert set(planned_jobs(elsewhere.snakemake(*targets, "--dry-run"))) == {"draw_tiny", *targets}
    elsewhere.run(*targets)
    assert (elsewhere.path / "results/tiny/figures/training_loss.png").is_file()
    assert (elsewhere.path / "results/tiny/tables/accuracy.csv").is_file()
    assert not (elsewhere.path / "results/runs").exists()
