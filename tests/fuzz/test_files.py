"""Damaged and forged files are refused in sentences, or made again: no traceback, no pickle loaded, nothing outside."""

import os
import random
import shutil
from collections import defaultdict

import pytest

from tests.fuzz.damaged import bombs, damaged, hostile_members, kinds, targets, unpacked
from tests.fuzz.guarded import REFUSED, WRONG, Outcome, attempted, counted
from trueneg.data.reports.prepare import prepare_reports


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Whole files, which each case damages and puts back."""
    folder = tmp_path_factory.mktemp("files")
    before = os.getcwd()
    os.chdir(folder)
    yield folder, targets(folder)
    os.chdir(before)


def done(read):
    """Read, whatever that gives."""
    read()


def tried(folder, target, kind, draw):
    kept = folder / "kept"
    shutil.copy2(target.path, kept)
    try:
        damaged(target, kind, draw)
        return attempted(lambda: done(target.read), folder)
    finally:
        if target.path.is_dir() and not target.path.is_symlink():
            shutil.rmtree(target.path)
        else:
            target.path.unlink(missing_ok=True)
        kept.replace(target.path)


def all_tried(whole, seed, rounds):
    folder, found = whole
    outcomes = defaultdict(list)
    for name, target in found.items():
        for number, kind in enumerate(kinds(target)):
            for turn in range(rounds):
                outcome = tried(folder, target, kind, random.Random(f"{seed} {name} {number} {turn}"))
                outcomes[name].append(Outcome(outcome.kind, f"{name}, {kind}: {outcome.said}"))
    return outcomes


def wrong(outcomes):
    return [outcome.said for found in outcomes.values() for outcome in found if outcome.kind == WRONG]


def test_whole_files_are_read(whole):
    folder, found = whole
    for name, target in found.items():
        outcome = attempted(lambda target=target: done(target.read), folder)
        assert outcome.kind == "ran", f"{name}: {outcome.said}"


def test_a_damaged_file(whole):
    outcomes = all_tried(whole, seed=0, rounds=1)
    assert wrong(outcomes) == []


@pytest.mark.long
def test_damaged_files_of_every_kind(whole, exploration_seed):
    outcomes = all_tried(whole, exploration_seed, rounds=4)
    print("\n" + counted(outcomes))
    assert wrong(outcomes) == []


def test_a_damaged_report_id_is_logged_with_its_control_characters_escaped(tmp_path):
    """The reports are readable, so their ids reach the log."""
    table = tmp_path / "reports.csv"
    table.write_text("report,text\na\x00\x1b[31m,\nb,No effusion.\n")
    columns = {"id_column": "report", "text_column": "text", "patient_column": None, "restricted": False}
    settings = {"source": "table", "path": str(table), **columns}
    outcome = attempted(lambda: prepare_reports(settings, tmp_path / "prepared.parquet"), tmp_path)
    assert outcome.kind == "ran", outcome.said


@pytest.mark.parametrize(("name", "members"), list(hostile_members()))
def test_an_archive_that_climbs_out(tmp_path, name, members):
    outcome = attempted(lambda: unpacked(members, tmp_path), tmp_path)
    assert outcome.kind != WRONG, outcome.said
    assert not (tmp_path / "climbed").exists()


def test_small_files_that_become_huge(tmp_path):
    for name, read in bombs(tmp_path):
        outcome = attempted(lambda read=read: done(read), tmp_path)
        if "XML" in name:
            assert outcome.kind != WRONG, f"{name}: {outcome.said}"
        else:
            assert outcome.kind == REFUSED, f"{name}: {outcome.said}"
