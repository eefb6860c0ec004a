"""tests/oldest.txt pins the lower bounds of pyproject.toml."""

import re
import tomllib

import pytest

from tests.docs.pages import ROOT

PINNED = dict(
    re.findall(
        r"^([\w-]+)==([\d.]+)$", (ROOT / "tests/oldest.txt").read_text(encoding="utf-8"), re.M
    )
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"] | {"losses": PROJECT["dependencies"]}
BOUNDS = {
    name: dict(re.findall(r"^([\w-]+)(?:\[\w+\])?>=([\d.]+)", "\n".join(listed), re.M))
    for name, listed in EXTRAS.items()
}


def numbers(version: str) -> list[int]:
    """A version's numbers without zeros at its end: 2.1 and 2.1.0 are equal."""
    return [int(part) for part in re.sub(r"(\.0)+$", "", version).split(".")]


@pytest.mark.parametrize("extra", ["losses", "report", "pipeline"])
def test_every_requirement_is_pinned(extra):
    assert {*BOUNDS[extra]} <= {*PINNED}


@pytest.mark.parametrize("name", PINNED)
def test_a_pinned_version_is_the_lower_bound(name):
    extras = "losses", "report", "pipeline", "dev"
    (bound,) = [BOUNDS[extra][name] for extra in extras if name in BOUNDS[extra]]
    assert numbers(PINNED[name]) == numbers(bound)
