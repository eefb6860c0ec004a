"""`make golden` records a changed result only if a VERSION was raised, and names the entries that
it refuses.
"""

import copy

import pytest

from tests.golden import golden, rewrite
from tests.golden.entries import all_entries
from tests.golden.golden import Entry
from trueneg.store import versions

# Entries that are computed quickly, and whose first part has its VERSION in a class or among the
# stages.
NAMES = ("images: dcl", "splitter: difficult reports", "comparison: holm")


@pytest.fixture
def entries(monkeypatch):
    chosen = {name: all_entries()[name] for name in NAMES}
    monkeypatch.setattr(rewrite, "all_entries", lambda: chosen)
    return chosen


@pytest.fixture
def recorded(entries, tmp_path, monkeypatch):
    """A copy of the file with the chosen entries only, which `make golden` rewrites."""
    chosen = {name: golden.read()[name] for name in entries}
    monkeypatch.setattr(golden, "FILE", tmp_path / "golden.json")
    golden.write(chosen)
    return chosen


@pytest.fixture
def raise_version(monkeypatch):
    now = versions.today()
    return lambda part: monkeypatch.setattr(versions, "today", lambda: now | {part: now[part] + 1})


def with_changed_loss(recorded):
    changed = copy.deepcopy(recorded)
    changed["images: dcl"]["value"]["losses"][1] *= 1 + 1e-4
    golden.write(changed)
    return changed


def test_unchanged_results_leave_the_file_as_it_is(recorded, capsys):
    before = golden.FILE.read_bytes()
    assert rewrite.main() == 0
    assert golden.FILE.read_bytes() == before
    assert "3 entries, 0 added, 0 removed, 0 changed" in capsys.readouterr().out


def test_a_changed_result_without_a_higher_version_is_refused_and_nothing_is_written(
    recorded, capsys
):
    with_changed_loss(recorded)
    before = golden.FILE.read_bytes()
    assert rewrite.main() == 1
    assert golden.FILE.read_bytes() == before
    error = capsys.readouterr().err
    place = "objective/images/dcl (class TwoViewDebiased in src/trueneg/specs/objectives/"
    assert f"images: dcl changed: raise VERSION of {place}" in error
    assert "comparison: holm" not in error


@pytest.mark.parametrize("part", ["objective/images/dcl", "training/images"])
def test_a_changed_result_is_recorded_after_the_version_of_one_of_its_parts_was_raised(
    recorded, raise_version, part
):
    with_changed_loss(recorded)
    raise_version(part)
    assert rewrite.main() == 0
    now = golden.read()["images: dcl"]
    assert now["value"] == recorded["images: dcl"]["value"]
    assert now["versions"] == recorded["images: dcl"]["versions"] | {part: 2}


def test_a_higher_version_of_another_part_is_not_enough(recorded, raise_version):
    with_changed_loss(recorded)
    raise_version("objective/images/hcl")
    assert rewrite.main() == 1


def test_a_higher_version_allows_one_change_only(recorded, raise_version):
    raise_version("objective/images/dcl")
    assert rewrite.main() == 0  # records the new version, with the same result
    now = golden.read()
    assert now["images: dcl"]["value"] == recorded["images: dcl"]["value"]
    assert now["images: dcl"]["versions"]["objective/images/dcl"] == 2
    with_changed_loss(now)
    assert rewrite.main() == 1


def test_new_entries_are_added_and_former_ones_removed(recorded, entries):
    golden.write(
        {"former": {"value": 1.0, "versions": {}}} | {name: recorded[name] for name in NAMES[1:]}
    )
    assert rewrite.main() == 0
    assert golden.read() == recorded


def test_every_part_has_a_place_that_holds_its_version():
    for part in versions.today():
        place = golden.place_of(part)
        path = golden.PROJECT / place.rpartition(" in ")[2].partition(",")[0]
        assert path.is_file() or "a new file" in place


def test_floats_are_compared_with_a_tolerance_and_everything_else_exactly():
    assert golden.equal({"a": [1.0, 2, "x"]}, {"a": [1.0 + 1e-8, 2, "x"]}, rtol=1e-6)
    for other in (
        {"a": [1.0 + 1e-4, 2, "x"]},
        {"a": [1.0, 3, "x"]},
        {"a": [1.0, 2, "y"]},
        {"a": [1.0, 2]},
        {"b": [1.0, 2, "x"]},
    ):
        assert not golden.equal({"a": [1.0, 2, "x"]}, other, rtol=1e-6)


def test_a_result_that_is_computed_again_keeps_its_recorded_digits():
    entry = Entry(("comparison",), lambda: [0.5 + 1e-9])
    new, refused = golden.updated(
        {"near": {"value": [0.5], "versions": {"comparison": 1}}}, {"near": entry}
    )
    assert not refused
    assert new["near"]["value"] == [0.5]
