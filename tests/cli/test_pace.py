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

from tests.cli.test_check_towers import bert
from tests.cli.test_init import photographs, questions
from tests.projects import ROOT
from tests.studies import tiny_study
from trueneg.cli.estimates import EVALUATED, START, UNMEASURED
from trueneg.cli.main import main
from trueneg.config.runs import features_key, frozen_towers


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


def seconds_of(text: str) -> float:
    """Return the first duration in a text."""
    number, unit = re.search(r"([\d.]+) (s|min|h)\b", text).groups()
    return float(number) * {"s": 1, "min": 60, "h": 3600}[unit]


@pytest.fixture
def frozen(tmp_path, monkeypatch, capsys):
    """Return a function that checks a study of texts on a frozen tower, of which nothing has been
    computed, and returns its lines.
    """
    monkeypatch.chdir(tmp_path)
    questions(240).to_csv("questions.csv", index=False)
    assert main(["init", "text", "questions.csv", "--minutes", "1"]) == 0
    text = (tmp_path / "my_study.yaml").read_text()
    bert(tmp_path / "bert")
    text = text.replace("all-MiniLM-L6-v2", str(tmp_path / "bert"))
    (tmp_path / "my_study.yaml").write_text(text)
    capsys.readouterr()

    def lines(*options):
        assert main(["check", "my_study.yaml", *options]) == 0
        return capsys.readouterr().out.splitlines()

    return lines


def parts_and_whole(lines) -> tuple[list[str], str]:
    """Return the parts of an estimate, and what it says of all of them."""
    stages = [line.partition("jobs: ")[2] for line in lines if " to train in " in line]
    (towers,) = [line for line in lines if "frozen tower" in line]
    (whole,) = [line for line in lines if "in all: " in line]
    parts = [part for line in stages for part in line.split(";")]
    assert len(parts) == 4  # in each of two stages, training, and other work
    return [*parts, towers.partition(": ")[2], whole.partition(" with ")[2]], whole


def names(runs):
    return [features_key(made) for run, _ in runs for made in frozen_towers(run.settings).values()]


@pytest.mark.parametrize("pace", [0.02, 60.0])
def test_the_paces_of_a_tower_and_of_updates_decide_the_estimate(frozen, monkeypatch, pace):
    """120 runs of 100 updates, and 8 of `untrained` without any, and 240 texts."""
    monkeypatch.setattr("trueneg.cli.pace._measured_update", lambda *unused: (pace, "cpu"))
    monkeypatch.setattr(
        "trueneg.cli.check.check_towers", lambda runs: ([], dict.fromkeys(names(runs), (pace, 8)))
    )
    lines = frozen()
    if pace == 60.0:
        assert not any("in all" in line for line in lines)  # longer than a day
        return
    parts, whole = parts_and_whole(lines)
    first, others, second, others_second, towers, _ = map(seconds_of, parts)
    assert (first, second) == pytest.approx((pace * 64 * 100, pace * 56 * 100), abs=30)
    # 16 jobs that train and as many that evaluate; then 8, and 8 more for each test sample
    evaluated = EVALUATED * 64 * 168
    assert others == pytest.approx(2 * 16 * START + evaluated, abs=30)
    assert others_second == pytest.approx(3 * 8 * START + 2 * evaluated, abs=30)
    assert towers == pytest.approx(START + pace * 240, abs=1)
    # each is rounded to whole seconds or minutes
    rounding = sum(30 if " min" in part else 0.5 for part in [*parts, whole])
    assert seconds_of(whole) == pytest.approx(sum(map(seconds_of, parts)), abs=rounding)


def test_images_that_were_only_opened_are_estimated(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    photographs(tmp_path / "pets", classes=("cat", "dog"))
    assert main(["init", "images", "pets", "--minutes", "1"]) == 0
    monkeypatch.setattr("trueneg.cli.planned_data.DECODED", 10)
    monkeypatch.setattr(
        "trueneg.cli.check.check_towers", lambda runs: ([], dict.fromkeys(names(runs), (0.01, 8)))
    )
    capsys.readouterr()
    assert main(["check", "my_study.yaml"]) == 0
    output = capsys.readouterr().out
    assert "240 images opened" in output.replace("240 of 240", "240")
    assert "unknown duration" not in output
    assert "in all: " in output


@pytest.mark.long
def test_a_study_on_frozen_towers_is_estimated_before_anything_is_computed(frozen, tmp_path):
    parts = parts_and_whole(frozen())[0]
    assert "from measured updates on cpu" in parts[0]
    assert 0 < sum(map(seconds_of, parts)) < 3600
    assert not (tmp_path / "results").exists()
    kept = parts_and_whole(frozen("--time"))[0]
    assert (tmp_path / "results/pace.json").is_file()
    assert parts_and_whole(frozen())[0][0] == kept[0]
