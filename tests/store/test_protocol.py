"""A study's protocol must be committed; its commit is compared with the times of the runs."""

import hashlib
import json
import os
import shutil
import subprocess

import pytest
import yaml

from tests.studies import tiny_study
from trueneg.cli.main import main
from trueneg.errors import UserError
from trueneg.store.archive import Archive, Description, write_archive
from trueneg.store.protocol import committed_protocol, precedes
from trueneg.store.records import Protocol

DATE = "2026-10-01T12:00:00+02:00"
AUTHOR = {
    f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(folder, *command, date=DATE):
    environment = (
        os.environ | AUTHOR | {"GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
    )
    done = subprocess.run(
        ["git", "-C", str(folder), *command],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """The working directory: a git checkout with a protocol in a folder, and a later commit of
    another file.
    """
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init")
    (tmp_path / "docs").mkdir()
    for name, date in (("docs/protocol.md", DATE), ("other.md", "2026-10-02T12:00:00+02:00")):
        (tmp_path / name).write_text(f"{name}: DCL - CL\n")
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "-m", name, date=date)
    return tmp_path


def test_checksum_commit_and_date_are_those_of_the_file(checkout):
    assert committed_protocol("study", "docs/protocol.md") == {
        "file": "docs/protocol.md",
        "checksum": hashlib.sha256((checkout / "docs/protocol.md").read_bytes()).hexdigest(),
        "commit": git(checkout, "rev-parse", "HEAD~1"),
        "date": DATE,
    }
    assert committed_protocol("study", None) is None


def test_a_file_is_looked_up_in_the_working_directory_and_then_in_the_checkout(
    checkout, tmp_path_factory, monkeypatch
):
    expected = committed_protocol("study", "docs/protocol.md")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    assert committed_protocol("study", "docs/protocol.md", checkout=checkout) == expected
    with pytest.raises(UserError) as refused:
        committed_protocol("study", "docs/other.md", checkout=checkout)
    assert all(f"{folder}/docs/other.md" in str(refused.value) for folder in (elsewhere, checkout))
    (elsewhere / "docs").mkdir()
    (elsewhere / "docs/protocol.md").write_text("HCL - CL\n")
    assert (
        committed_protocol("study", "docs/protocol.md", checkout=checkout)["checksum"]
        != expected["checksum"]
    )


def edit(checkout):
    (checkout / "docs/protocol.md").write_text("HCL - CL\n")


def stage(checkout):
    edit(checkout)
    git(checkout, "add", "docs/protocol.md")


def untrack(checkout):
    git(checkout, "rm", "--cached", "docs/protocol.md")
    git(checkout, "commit", "-m", "removed")


def add(checkout):
    (checkout / "new.md").write_text("DCL - CL\n")


def ignore(checkout):
    add(checkout)
    (checkout / ".gitignore").write_text("new.md")


CHANGES = {
    edit: "docs/protocol.md",
    stage: "docs/protocol.md",
    untrack: "docs/protocol.md",
    add: "new.md",
    ignore: "new.md",
}


@pytest.mark.parametrize(
    ("change", "name"), [*CHANGES.items(), (None, "absent.md"), (None, "docs")]
)
def test_a_file_that_differs_from_its_commit_or_was_never_committed_is_refused(
    checkout, change, name
):
    if change is not None:
        change(checkout)
    with pytest.raises(
        UserError, match=rf"study\.protocol is {name}.*expected a file committed to git"
    ):
        committed_protocol("study", name)


def store(checkout, place):
    """Store the protocol in a file with another commit, alone or in an archive;
    return it.
    """
    checksum = hashlib.sha256((checkout / "docs/protocol.md").read_bytes()).hexdigest()
    protocol = {"file": "docs/protocol.md", "checksum": checksum, "commit": "0123", "date": DATE}
    (checkout / place).parent.mkdir(parents=True)
    if "evidence" in place:
        described = Description(format=3, study="tiny", protocol=Protocol(**protocol))
        write_archive(checkout / place, Archive(described, {}, checkout / place))
    else:
        (checkout / place).write_text(json.dumps(protocol))
    return protocol


@pytest.mark.parametrize("lost", ["repository", "program"])
def test_without_git_the_commit_is_unknown(checkout, monkeypatch, lost):
    committed = committed_protocol("study", "docs/protocol.md")
    if lost == "repository":
        shutil.rmtree(checkout / ".git")
    else:
        monkeypatch.setenv("PATH", str(checkout / "empty"))
    protocol = committed_protocol("study", "docs/protocol.md")
    assert protocol == committed | {"commit": None, "date": None}
    assert precedes(protocol, [{"finished": "2026-10-01 11:59:00 +0200"}]) is None


@pytest.mark.parametrize("place", ["results/tiny/protocol.json", "evidence/tiny.tar.xz"])
def test_a_stored_commit_and_date_take_precedence_over_git(checkout, place):
    protocol = store(checkout, place)
    assert committed_protocol("tiny", "docs/protocol.md") == protocol
    assert committed_protocol("other", "docs/protocol.md")["commit"] == git(
        checkout, "rev-parse", "HEAD~1"
    )


def test_a_protocol_is_frozen_once_there_are_runs(checkout):
    store(checkout, "results/tiny/protocol.json")
    edit(checkout)
    git(checkout, "commit", "-a", "-m", "Fix a typo")
    with pytest.raises(
        UserError, match=r"tiny\.protocol is docs/protocol\.md.*frozen.*results/tiny/protocol\.json"
    ):
        committed_protocol("tiny", "docs/protocol.md")


def test_a_damaged_stored_protocol_is_refused(checkout):
    (checkout / "results/tiny").mkdir(parents=True)
    for text in ("{}", "[]", "{"):
        (checkout / "results/tiny/protocol.json").write_text(text)
        with pytest.raises(UserError, match=r"results/tiny/protocol\.json"):
            committed_protocol("tiny", "docs/protocol.md")


def test_a_protocol_precedes_runs_that_finish_after_its_commit():
    protocol = {"date": DATE}  # 10:00 UTC
    before, after = (
        {"finished": "2026-10-01 11:59:00 +0200"},
        {"finished": "2026-10-01 10:01:00 +0000"},
    )
    assert precedes(protocol, [after])
    assert not precedes(protocol, [after, before])


def test_check_shows_the_protocol_or_its_error(checkout, capsys):
    (checkout / "study.yaml").write_text(
        yaml.safe_dump({"tiny": tiny_study(protocol="docs/protocol.md")})
    )
    assert main(["check", "study.yaml"]) == 0
    output = capsys.readouterr().out
    assert committed_protocol("tiny", "docs/protocol.md")["checksum"] in output
    assert DATE in output
    (checkout / ".git").rename(checkout / "git")
    assert main(["check", "study.yaml"]) == 0
    assert "unknown" in capsys.readouterr().out
    (checkout / "git").rename(checkout / ".git")
    edit(checkout)
    assert main(["check", "study.yaml"]) == 1
    assert "tiny.protocol is docs/protocol.md" in capsys.readouterr().err
