"""The list of mutations fits the code: each changes one line into other valid code, and its tests
exist. That the tests notice them is what ``make mutants`` checks.
"""

import ast

import pytest

from tests.mutants.listed import mutants
from tests.projects import ROOT

MUTANTS = mutants()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.file}: {mutant.becomes}")
def test_a_mutation_changes_one_line_into_other_valid_code(mutant):
    original = (ROOT / "src/trueneg" / mutant.file).read_text(encoding="utf-8")
    mutated = mutant.applied(original)
    assert ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(original))
    assert len(mutated.splitlines()) == len(original.splitlines())
    files = [word for word in mutant.tests.split() if word.startswith("tests/")]
    assert files
    assert all((ROOT / name.split("::")[0]).exists() for name in files)


def test_at_most_four_may_survive():
    assert sum(bool(mutant.reason) for mutant in MUTANTS) <= 4
