"""The fingerprint changes with what the code does, and with nothing else."""

import itertools
import re
import shutil
import tomllib
from pathlib import Path

import pytest

from trueneg.store import provenance

MODULES = {
    "__init__.py": "",
    "engine.py": "from trueneg.losses import loss\nfrom trueneg import augment\n\ndef step():\n    return loss()\n",
    "augment.py": "STRENGTH = 1\n",
    "losses/__init__.py": "from trueneg.losses.dense import loss\n",
    "losses/dense.py": '"""Docstring."""\n\ndef loss():\n    """Docstring."""\n    return 1\n',
    "report.py": "from trueneg.engine import step\n",
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    root = tmp_path / "trueneg"
    for name, text in MODULES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    monkeypatch.setattr(provenance, "PACKAGE", root)
    return root


def read_code_again():
    """Forget cached fingerprints and parsed modules, which a test is about to edit."""
    provenance.fingerprint.cache_clear()
    provenance._read.cache_clear()


def fingerprint(root="trueneg.engine"):
    read_code_again()
    return provenance.fingerprint((root,))


def test_imports_are_followed_wherever_they_lead_and_no_further(package):
    found = provenance.reachable(["trueneg.engine"])
    assert set(found) == {"trueneg.engine", "trueneg.augment", "trueneg.losses.dense"}


def test_another_module_that_a_package_exports_does_not_count(package):
    before = fingerprint()
    (package / "losses/sparse.py").write_text("def sparse(): ...\n")
    (package / "losses/__init__.py").write_text(
        "from trueneg.losses.dense import loss\nfrom trueneg.losses.sparse import sparse\n"
    )
    assert fingerprint() == before


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("losses/dense.py", "def loss():\n    # a comment\n    return   1\n"),
        ("losses/dense.py", '"""Other words."""\n\n\ndef loss():\n    """Other words."""\n    return 1\n'),
        ("report.py", "x = 1\n"),
    ],
)
def test_comments_docstrings_formatting_and_unreachable_modules_do_not_count(package, name, text):
    before = fingerprint()
    (package / name).write_text(text)
    assert fingerprint() == before


@pytest.mark.parametrize(
    ("name", "text"),
    [("losses/dense.py", "def loss():\n    return 2\n"), ("augment.py", "STRENGTH = 2\n")],
)
def test_a_change_of_behaviour_in_any_reachable_module_counts(package, name, text):
    before = fingerprint()
    (package / name).write_text(text)
    assert fingerprint() != before


def test_a_root_that_is_not_a_module_is_an_error(package):
    with pytest.raises(ValueError, match=r"trueneg\.losses\.trimmed is not a module.*MODULES"):
        fingerprint("trueneg.losses.trimmed")


def test_a_template_counts_for_the_code_beside_it(package):
    before = fingerprint()
    (package / "page.html").write_text("<p>")
    assert fingerprint() != before


def test_the_report_reaches_neither_training_nor_torch():
    read_code_again()
    reached = provenance.reachable(provenance.REPORT)
    assert "trueneg.report.gathered" in reached
    assert not [name for name in reached if name.startswith(("trueneg.training", "trueneg.losses", "trueneg.models"))]


def test_training_reaches_losses_encoders_and_augmentation_but_not_the_configuration():
    reached = set(provenance.reachable(provenance.TRAINING["images"]))
    assert {"trueneg.losses.contrastive", "trueneg.models.image_encoders", "trueneg.training.augment"} <= reached
    assert not [name for name in reached if name.startswith(("trueneg.config", "trueneg.report", "trueneg.evaluation"))]


OBJECTIVES = {
    "images": (
        *({"name": name} for name in ("cl", "dcl", "hcl", "bcl", "oracle")),
        {"name": "guided", "guide": {"name": "self"}},
        {"name": "glofnd"},
        {"name": "cl", "targets": {"name": "half_uniform"}},
    ),
    "image-text": (
        *(
            {"name": name}
            for name in ("cl", "dcl", "hcl", "bcl", "reco", "oc", "clip", "biovil", "same_sentence", "released", "untrained")
        ),
        *({"name": name} for name in ("remove", "reweight", "resample", "oracle")),
        {"name": "cl", "switched_off_by": "true"},
        {"name": "cl", "targets": {"name": "fnc"}, "guide": {"name": "self"}},
    ),
}


def all_fingerprints() -> dict[str, str]:
    """Of training with each objective, and of evaluation."""
    read_code_again()
    found = {}
    for kind, objectives in OBJECTIVES.items():
        for objective in objectives:
            settings = {"training": {"kind": kind}, "objective": objective}
            found[f"{kind} {objective['name']} {' '.join(objective)}"] = provenance.training_fingerprint(settings)
            found[f"evaluation of {kind}"] = provenance.evaluation_fingerprint(settings)
    return found


@pytest.fixture
def copied_package(tmp_path, monkeypatch):
    """The project's package, to be edited."""
    copied = tmp_path / "trueneg"
    shutil.copytree(provenance.PACKAGE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "PACKAGE", copied)
    yield copied
    read_code_again()  # later tests read the package itself


def append(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.is_file() else "") + f"\n{line}\n")


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(["losses/estimators/trimmed.py", "specs/objectives/trimmed.py"], id="an estimator"),
        pytest.param(
            ["losses/estimators/__init__.py", "losses/registry.py", "specs/objectives/__init__.py"], id="lists of estimators"
        ),
        pytest.param(["report/figures.py", "report/new_figure.py", "report/catalogue.py"], id="a figure"),
        pytest.param(
            ["data/images/sources/new_source.py", "specs/pairs/new_source.py", "data/pairs/new_source.py"], id="a source"
        ),
    ],
)
def test_adding_something_makes_no_run_stale(copied_package, files):
    before = all_fingerprints()
    for file in files:
        append(copied_package / file, "NEW = 1")
    assert all_fingerprints() == before


def test_adding_a_task_or_editing_what_measures_makes_rows_stale_and_no_run(copied_package):
    before = all_fingerprints()
    for file, kinds in {
        "evaluation/images/new_task.py": {"images"},
        "evaluation/pairs/retrieval.py": {"image-text"},
        "evaluation/evaluate.py": {"images", "image-text"},
    }.items():
        append(copied_package / file, "NEW = 1")
        found = all_fingerprints()
        assert {name for name in found if found[name] != before[name]} == {f"evaluation of {kind}" for kind in kinds}
        before = found


@pytest.mark.parametrize(
    ("file", "own"),
    [
        ("losses/estimators/uncorrected", {"cl", "clip", "biovil"}),
        ("losses/estimators/debiased", {"dcl", "hcl", "switched_off_by"}),  # HCL subtracts as DCL does
        ("losses/estimators/hard_negative", {"hcl"}),
        ("losses/estimators/bayesian", {"bcl"}),
        ("losses/estimators/removed", {"remove"}),
        ("losses/estimators/reweighted", {"reweight"}),
        ("losses/estimators/resampled", {"resample"}),
        ("losses/estimators/oracle", {"oracle", "same_sentence"}),
        ("losses/estimators/guided", {"guided", "glofnd"}),
        ("losses/estimators/learned_thresholds", {"glofnd"}),
        ("losses/relaxed", {"reco", "oc"}),
        ("losses/targets", {"targets"}),
        ("training/guides", {"guide", "glofnd"}),
    ],
)
def test_editing_an_objectives_own_code_makes_its_runs_stale_and_no_others(copied_package, file, own):
    before = all_fingerprints()
    append(copied_package / f"{file}.py", "EDITED = 1")
    changed = {name for name, value in all_fingerprints().items() if value != before[name]}
    assert changed == {name for name in before if any(f" {word} " in f" {name} " for word in own)}


@pytest.mark.parametrize(
    "file", ["training/simclr.py", "training/loop.py", "models/image_encoders.py", "losses/contrastive.py", "losses/base.py"]
)
def test_editing_what_all_objectives_share_makes_all_runs_of_images_stale(copied_package, file):
    before = all_fingerprints()
    append(copied_package / file, "EDITED = 1")
    after = all_fingerprints()
    assert all(after[name] != before[name] for name in before if name.startswith("images "))


def test_versions_name_everything_that_the_package_asks_for():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][name] for name in ("report", "pipeline", "open_i", "clip"))
    asked = {re.match(r"[A-Za-z0-9_-]+", line)[0] for line in itertools.chain(project["dependencies"], *extras)}
    assert asked | {"trueneg"} == set(provenance.LIBRARIES)
    assert {"python", "torch", "pandas", "transformers"} <= set(provenance.versions())
