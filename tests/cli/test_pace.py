"""The speed of this machine: assumed until ``trueneg check --pace`` measures it, then kept in the
results folder.
"""

import json
import platform
import re
import subprocess
import sys

import pytest
import yaml

from tests.projects import ROOT
from tests.studies import tiny_study
from trueneg.cli.main import main
from trueneg.cli.pace import CORE, UNMEASURED, UPDATES, Pace


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Return a function that runs ``trueneg check`` on a tiny study of digits and returns the line
    with the time.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"tiny": tiny_study()}))

    def line(*options):
        assert main(["check", "study.yaml", *options]) == 0
        (found,) = (line for line in capsys.readouterr().out.splitlines() if "to train in" in line)
        return found

    return line


def test_the_speed_is_assumed_until_it_is_measured_and_then_kept(check, tmp_path):
    assert UNMEASURED in check()
    assert not (tmp_path / "results").exists()
    measured = check("--pace")
    assert f"(from {UPDATES})" in measured
    kept = (tmp_path / "results/pace.json").read_bytes()
    assert check() == measured
    assert check("--pace") == measured  # nothing is measured again
    assert (tmp_path / "results/pace.json").read_bytes() == kept


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_file_is_named_with_a_remedy(check, tmp_path, capsys, content):
    check("--pace")
    (tmp_path / "results/pace.json").write_text(content)
    assert main(["check", "study.yaml"]) == 1
    assert re.fullmatch(
        r"results/pace\.json.*Delete it; `trueneg check --pace` measures again\.\n",
        capsys.readouterr().err,
    )


def test_a_machine_that_shares_the_results_has_its_own_speed(check, tmp_path, monkeypatch):
    check("--pace")
    here = json.loads((tmp_path / "results/pace.json").read_text())
    monkeypatch.setattr(platform, "node", lambda: "another")
    assert UNMEASURED in check()
    check("--pace")
    both = json.loads((tmp_path / "results/pace.json").read_text())
    assert both.keys() == {*here, "another"}
    assert both.items() >= here.items()


def test_the_measured_speed_is_of_a_network(tmp_path):
    """Between a hundredth and a hundred times what is assumed for a core."""
    assert Pace(tmp_path).speed == CORE
    assert CORE / 100 < Pace(tmp_path, measures=True).speed < CORE * 100


def test_the_default_studies_are_described_without_the_slow_libraries(tmp_path):
    config, slow = str(ROOT / "config/config.yaml"), {"torch", "torchvision", "transformers"}
    code = (
        f"import sys, trueneg.cli.main as cli; cli.main(['check', {config!r}]); print('slow:',"
        f" *{slow} & set(sys.modules))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "digits: Digits" in finished.stdout
    assert finished.stdout.splitlines()[-1] == "slow:"
