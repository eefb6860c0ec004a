"""envs/constraints.txt pins every package that any extra needs, and what installs TrueNeg uses
it.
"""

import re
import tomllib
from importlib.metadata import requires

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.pages import ROOT

LINES = (ROOT / "envs/constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
PINS = [Requirement(line) for line in LINES]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
NEEDED = [
    Requirement(entry)
    for extra in EXTRAS.values()
    for entry in extra
    if not entry.startswith("trueneg[")
]


def test_every_line_is_one_exact_version_without_hash_or_address():
    assert LINES
    for line in LINES:
        assert re.fullmatch(r"[\w.-]+==[\w.!]+( ; .*)?", line), line


@pytest.mark.parametrize("python", ["3.11.9", "3.13.5"])
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_every_package_is_pinned_within_the_bounds_of_its_extra(python, system):
    machine = {
        "python_full_version": python,
        "python_version": python.rpartition(".")[0],
        "sys_platform": system,
    }
    chosen = [
        pin
        for pin in PINS
        if pin.marker is None or pin.marker.evaluate({**default_environment(), **machine})
    ]
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in chosen}
    assert len(versions) == len(chosen)  # one version each
    for requirement in NEEDED:
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier, requirement


@pytest.mark.parametrize("path", ["Makefile", "envs/Containerfile", "envs/trueneg.post-deploy.sh"])
def test_every_installation_in_a_file_names_the_constraints(path):
    text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", " ")
    installed = [
        line for line in text.splitlines() if "--editable" in line and "$(OLDEST)" not in line
    ]
    assert installed
    assert all("--constraint" in line for line in installed)


def test_the_environment_for_figures_lists_what_the_extra_lists():
    *_, packages = yaml.safe_load((ROOT / "envs/figures.yaml").read_text(encoding="utf-8"))[
        "dependencies"
    ]
    option, *names = packages["pip"]
    assert option == "-c constraints.txt"  # beside the file
    assert sorted(names) == sorted(Requirement(entry).name for entry in EXTRAS["report"])


def test_an_extra_for_users_brings_what_the_trainer_needs():
    """docs/losses.md trains with sentence-transformers' trainer."""
    extras = [Requirement(entry) for entry in EXTRAS["towers"]]
    (library,) = [each for each in extras if each.name == "sentence-transformers"]
    needed = map(Requirement, requires("sentence-transformers"))
    brought = {
        each.name
        for each in needed
        if each.marker is None or any(each.marker.evaluate({"extra": of}) for of in library.extras)
    }
    assert {"datasets", "accelerate"} <= brought
