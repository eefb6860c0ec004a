"""Every command that reads a damaged, foreign or missing file says the same of it."""

import html
import itertools
import json
import shutil
from types import SimpleNamespace

import pytest

from tests.projects import ROOT
from trueneg.cli.main import main
from trueneg.cli.verify import verify
from trueneg.config.reading import read_configuration
from trueneg.io.seals import seal
from trueneg.report.build import write_page
from trueneg.report.findings import report
from trueneg.report.summary import summarise_study
from trueneg.store.exchange import import_study

STUDIES = read_configuration([ROOT / "config/config.yaml"]).studies
BLOCK = "digits/CL/*"
OUTPUTS = {
    "rows": "rows.parquet",
    "curves": "curves.parquet",
    "runs": "runs.json",
    "candidates": "candidates.parquet",
    "published": "published.parquet",
    "comparison": "comparison.json",
    "study": "study.yaml",
}
# files, each with the commands that read it
PLACES = {
    "digits/artefacts/comparison.json": {"runs", "why comparison", "answer"},
    "digits/artefacts/runs.json": {"runs", "why comparison", "answer"},
    "digits/artefacts/rows.parquet": {"runs", "answer"},
    "digits/artefacts/curves/digits/CL/*.parquet": {"why curve"},
    "runs/*/run.json": {"runs", "why run"},
    "runs/*/training.parquet": {"why run"},
    "runs/*/evaluated-*.json": {"why run"},
}


def flipped(path, other):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncated(path, other):
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def foreign(path, other):
    path.write_bytes(other.read_bytes())


def missing(path, other):
    path.unlink()


CASES = [
    *zip(PLACES, itertools.cycle((flipped, truncated, foreign)), strict=False),
    *((place, missing) for place in [*PLACES][2::2]),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The shipped study of digits, imported and compared, with an empty page."""
    results = tmp_path_factory.mktemp("finished") / "results"
    import_study(ROOT / "evidence/digits.tar.xz", results)
    folder = results / "digits"
    patterns = {
        "rows": "rows/*/*/*.parquet",
        "curves": "artefacts/curves/*/*/*.parquet",
        "runs": "artefacts/runs/*/*/*.json",
    }
    inputs = {name: sorted(folder.glob(pattern)) for name, pattern in patterns.items()}
    inputs |= {"pilots": [], "winners": [], "samples": [], "published": []}
    outputs = {name: folder / "artefacts" / file for name, file in OUTPUTS.items()}
    settings = STUDIES["digits"].model_dump(mode="json")
    summarise_study("digits", settings, SimpleNamespace(**inputs), SimpleNamespace(**outputs))
    (results / "index.html").touch()
    seal(results, [*outputs.values(), results / "index.html"])
    return results


@pytest.fixture
def results(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "results", copy_function=shutil.copy2)
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "results").relative_to(tmp_path)


def commands(results):
    """Return the arguments of commands by name."""
    (curve,) = (results / "digits/artefacts/curves").glob(BLOCK)
    return {
        "runs": ["runs"],
        "why comparison": ["why", str(results / "digits/artefacts/comparison.json")],
        "why curve": ["why", str(curve)],
        "why run": ["why", runs_of(results)[0]],
    }


def runs_of(results):
    """Return the ids of the runs of CL."""
    (manifest,) = (results / "digits/manifests").glob(BLOCK)
    return [run["id"] for run in json.loads(manifest.read_text())["runs"]]


@pytest.mark.parametrize(("place", "damage"), CASES)
def test_all_commands_say_the_same_of_a_file(results, capsys, place, damage):
    first, second, *_ = runs_of(results)
    (path,) = results.glob(place.replace("runs/*/", f"runs/{first}/"))
    (other,) = results.glob(place.replace("runs/*/", f"runs/{second}/"))
    arguments = commands(results)
    damage(path, results / "digits/artefacts/study.yaml" if other == path else other)
    _, text = verify(results, STUDIES)
    # without its record, a run is no longer one
    subject = path.parent if damage is missing and path.name == "run.json" else path
    (line,) = (line.strip() for line in text.splitlines() if line.strip().startswith(str(subject)))
    planned = [str(results / "digits/artefacts/study.yaml")]
    printed = {"answer": report(results, ["digits"], planned)}
    for command, given in arguments.items():
        main(given)
        printed[command] = "".join(capsys.readouterr())
    is_named = [line in printed[command] for command in PLACES[place]]
    if damage is not missing:
        assert "was damaged or edited" in line
        assert all(is_named)
    elif subject == path:
        assert "is missing" in line
        assert any(is_named)
    for said in printed.values():
        assert "Traceback" not in said
        about = [each for each in said.splitlines() if str(path) in each]
        assert all(line in each for each in about if each.strip() != str(path))


def test_a_damaged_protocol_is_imported_again(results):
    """No job makes it."""
    protocol = results / "digits/protocol.json"
    protocol.write_text("{}")
    seal(results, [protocol])
    protocol.write_text("{ }")
    _, text = verify(results, STUDIES)
    (line,) = (line for line in text.splitlines() if str(protocol) in line)
    assert line.endswith("Import the exported study again (`trueneg rows import`).")


def test_no_results_are_not_intact_results(tmp_path, capsys):
    assert main(["check", "--files", "--results", str(tmp_path / "none")]) == 1
    assert "expected the folder of the results" in capsys.readouterr().err
    assert main(["check", "--files", "--time"]) == 1
    assert "leave out --time" in capsys.readouterr().err


def test_a_language_model_without_its_folder_is_missing_unless_it_was_released(results):
    manifest = results / "words/text/reports/language_models/BERT.json"
    manifest.parent.mkdir(parents=True)
    models = {"lm-0": "0123", "bert-base-uncased": None}
    listed = [{"folder": name, "checksum": checksum} for name, checksum in models.items()]
    manifest.write_text(json.dumps({"models": listed}))
    count, text = verify(results, STUDIES)
    assert count == 1
    assert "1 missing" in text
    assert f"lm-0 has no finished run, but {manifest} lists it" in text


@pytest.mark.parametrize("damage", [flipped, truncated, foreign, missing])
@pytest.mark.parametrize("file", ["comparison.json", "rows.parquet"])
def test_the_page_says_the_same_of_an_artefact(results, damage, file):
    path = results / "digits/artefacts" / file
    damage(path, results / "digits/artefacts/study.yaml")
    _, text = verify(results, STUDIES)
    (line,) = (line.strip() for line in text.splitlines() if line.strip().startswith(str(path)))
    write_page(results / "index.html")
    page = html.unescape((results / "index.html").read_text())
    assert "Not on this page" in page
    assert line in page
