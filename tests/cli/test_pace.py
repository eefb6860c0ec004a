"""The time of missing runs: unknown until a run of the same kind has finished, or ``trueneg check
--time`` has measured updates, which are kept in the results folder.
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
from trueneg.cli.estimates import UNMEASURED
from trueneg.cli.main import main


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


def test_the_time_is_unknown_until_it_is_measured_and_then_kept(check, tmp_path):
    assert f"6 of unknown duration ({UNMEASURED})" in check()
    assert not (tmp_path / "results").exists()
    measured = check("--time")
    assert re.search(r"about \d+ s with one process \(from measured updates on cpu\)", measured)
    kept = (tmp_path / "results/pace.json").read_bytes()
    assert check() == measured
    assert check("--time") == measured  # nothing is measured again
    assert (tmp_path / "results/pace.json").read_bytes() == kept


def test_the_time_is_that_of_the_measured_updates(check, tmp_path):
    """Two and a half hours an update, of 6 runs whose epoch is all training images."""
    check("--time")
    path = tmp_path / "results/pace.json"
    kept = json.loads(path.read_text())
    ((kind, (_, device)),) = kept[platform.node()].items()
    path.write_text(json.dumps({platform.node(): {kind: [9000.0, device]}}))
    # of 1,797 digits, 450 are for the test and a tenth of the rest for validation; three quarters
    # of half of the classes are left out
    updates = (1797 - 450) * 0.9 * (1 - 0.75 / 2) / 64
    (hours,) = re.findall(r"about ([\d.]+) h with one process", check())
    assert float(hours) == pytest.approx(6 * 2.5 * updates, rel=0.01)


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_file_is_named_with_a_remedy(check, tmp_path, capsys, content):
    check("--time")
    (tmp_path / "results/pace.json").write_text(content)
    assert main(["check", "study.yaml"]) == 1
    assert re.fullmatch(
        r"results/pace\.json.*Delete it; `trueneg check --time` measures again\.\n",
        capsys.readouterr().err,
    )


def test_a_machine_that_shares_the_results_has_its_own_pace(check, tmp_path, monkeypatch):
    check("--time")
    here = json.loads((tmp_path / "results/pace.json").read_text())
    monkeypatch.setattr(platform, "node", lambda: "another")
    assert UNMEASURED in check()
    check("--time")
    both = json.loads((tmp_path / "results/pace.json").read_text())
    assert both.keys() == {*here, "another"}
    assert both.items() >= here.items()


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
