"""The fingerprint changes with what the code does, and with nothing else."""

import itertools
import re
import tomllib
from pathlib import Path

import pytest

from trueneg.study import provenance

MODULES = {
    "__init__.py": "",
    "engine.py": "from trueneg.losses import loss\nfrom . import augment\n\ndef step():\n    return loss()\n",
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


def fingerprint(root="trueneg.engine"):
    provenance.fingerprint.cache_clear()
    return provenance.fingerprint((root,))


def test_imports_are_followed_wherever_they_lead_and_no_further(package):
    found = provenance.reachable(["trueneg.engine"])
    assert set(found) == {
        "trueneg",
        "trueneg.engine",
        "trueneg.augment",
        "trueneg.losses",
        "trueneg.losses.dense",
    }


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


def test_a_template_counts_for_the_code_beside_it(package):
    before = fingerprint()
    (package / "page.html").write_text("<p>")
    assert fingerprint() != before


def test_the_report_reaches_neither_training_nor_torch():
    provenance.fingerprint.cache_clear()
    reached = provenance.reachable(provenance.REPORT)
    assert "trueneg.report.figures" in reached
    assert not [name for name in reached if name.startswith(("trueneg.training", "trueneg.losses", "trueneg.models"))]


def test_training_reaches_losses_encoders_and_augmentation_but_not_the_configuration():
    reached = set(provenance.reachable(provenance.TRAINING["images"]))
    assert {"trueneg.losses.estimators", "trueneg.models.image_encoders", "trueneg.training.augment"} <= reached
    assert not [name for name in reached if name.startswith(("trueneg.study", "trueneg.report", "trueneg.evaluation"))]


def test_versions_name_everything_that_the_package_asks_for():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = (project["optional-dependencies"][name] for name in ("report", "pipeline", "open_i", "clip"))
    asked = {re.match(r"[A-Za-z0-9_-]+", line)[0] for line in itertools.chain(project["dependencies"], *extras)}
    assert asked | {"trueneg"} == set(provenance.LIBRARIES)
    assert {"python", "torch", "pandas", "transformers"} <= set(provenance.versions())
