"""A study's protocol counts only as committed: git tells when, and the runs tell whether that was before them."""

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
from trueneg.store.protocol import committed_protocol, precedes

DATE = "2026-10-01T12:00:00+02:00"
AUTHOR = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder, *command, date=DATE):
    environment = os.environ | AUTHOR | {"GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", "-C", str(folder), *command], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """The working directory: a git checkout with a protocol in a folder, and a later commit of another file."""
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init")
    (tmp_path / "docs").mkdir()
    for name, date in (("docs/protocol.md", DATE), ("other.md", "2026-10-02T12:00:00+02:00")):
        (tmp_path / name).write_text(f"{name}: DCL - CL\n")
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "-m", name, date=date)
    return tmp_path


def test_hash_commit_and_date_are_those_of_the_file(checkout):
    found = committed_protocol("study", "docs/protocol.md")
    assert found == {
        "file": "docs/protocol.md",
        "checksum": hashlib.sha256((checkout / "docs/protocol.md").read_bytes()).hexdigest(),
        "commit": git(checkout, "rev-parse", "HEAD~1"),
        "date": DATE,
    }
    assert committed_protocol("study", None) is None


def test_a_file_is_looked_up_in_the_working_directory_and_then_in_the_checkout(checkout, tmp_path_factory, monkeypatch):
    expected = committed_protocol("study", "docs/protocol.md")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    assert committed_protocol("study", "docs/protocol.md", checkout=checkout) == expected
    with pytest.raises(UserError) as refused:
        committed_protocol("study", "docs/other.md", checkout=checkout)
    assert all(f"{folder}/docs/other.md" in str(refused.value) for folder in (elsewhere, checkout))
    (elsewhere / "docs").mkdir()
    (elsewhere / "docs/protocol.md").write_text("HCL - CL\n")
    assert committed_protocol("study", "docs/protocol.md", checkout=checkout)["checksum"] != expected["checksum"]


def edited(checkout):
    (checkout / "docs/protocol.md").write_text("HCL - CL\n")


def staged(checkout):
    edited(checkout)
    git(checkout, "add", "docs/protocol.md")


def untracked(checkout):
    git(checkout, "rm", "--cached", "docs/protocol.md")
    git(checkout, "commit", "-m", "removed")


@pytest.mark.parametrize("change", [edited, staged, untracked])
def test_a_file_that_is_not_as_committed_is_refused(checkout, change):
    change(checkout)
    with pytest.raises(UserError, match=r"study\.protocol is docs/protocol\.md.*expected a file committed to git"):
        committed_protocol("study", "docs/protocol.md")


@pytest.mark.parametrize(("name", "ignore"), [("new.md", ""), ("new.md", "new.md"), ("absent.md", ""), ("docs", "")])
def test_a_file_that_was_never_committed_is_refused(checkout, name, ignore):
    (checkout / ".gitignore").write_text(ignore)
    (checkout / "new.md").write_text("DCL - CL\n")
    with pytest.raises(UserError, match=rf"study\.protocol is {name}.*expected a file committed to git"):
        committed_protocol("study", name)


def stored(folder, path, wrap=lambda protocol: protocol, **changes):
    """Store the protocol in a folder with another commit and date."""
    checksum = hashlib.sha256((folder / path).read_bytes()).hexdigest()
    protocol = {"file": path, "checksum": checksum, "commit": "0123", "date": DATE} | changes
    return protocol, json.dumps(wrap(protocol))


def unpacked(checkout, monkeypatch):
    shutil.rmtree(checkout / ".git")


def without_program(checkout, monkeypatch):
    monkeypatch.setenv("PATH", str(checkout / "empty"))


@pytest.mark.parametrize("lose_git", [unpacked, without_program])
def test_without_git_the_commit_is_unknown(checkout, monkeypatch, lose_git):
    committed = committed_protocol("study", "docs/protocol.md")
    lose_git(checkout, monkeypatch)
    protocol = committed_protocol("study", "docs/protocol.md")
    assert protocol == committed | {"commit": None, "date": None}
    assert precedes(protocol, [{"finished": "2026-10-01 11:59:00 +0200"}]) is None


@pytest.mark.parametrize("place", ["results/tiny/protocol.json", "evidence/tiny/study.json"])
def test_commit_and_date_are_those_stored_with_the_results_even_if_the_file_was_committed_later(checkout, place):
    protocol, text = stored(
        checkout, "docs/protocol.md", lambda protocol: {"protocol": protocol} if "evidence" in place else protocol
    )
    (checkout / place).parent.mkdir(parents=True)
    (checkout / place).write_text(text)
    assert committed_protocol("tiny", "docs/protocol.md") == protocol
    assert committed_protocol("other", "docs/protocol.md")["commit"] == git(checkout, "rev-parse", "HEAD~1")


def test_a_protocol_is_frozen_once_there_are_runs(checkout):
    _, text = stored(checkout, "docs/protocol.md")
    (checkout / "results/tiny").mkdir(parents=True)
    (checkout / "results/tiny/protocol.json").write_text(text)
    edited(checkout)
    git(checkout, "commit", "-a", "-m", "Fix a typo")
    with pytest.raises(UserError, match=r"tiny\.protocol is docs/protocol\.md.*frozen.*results/tiny/protocol\.json"):
        committed_protocol("tiny", "docs/protocol.md")


def test_a_damaged_stored_protocol_is_refused(checkout):
    (checkout / "results/tiny").mkdir(parents=True)
    for text in ("{}", "[]", "{"):
        (checkout / "results/tiny/protocol.json").write_text(text)
        with pytest.raises(UserError, match=r"results/tiny/protocol\.json"):
            committed_protocol("tiny", "docs/protocol.md")


def test_a_protocol_precedes_runs_that_finish_after_its_commit():
    protocol = {"date": DATE}  # 10:00 UTC
    before, after = {"finished": "2026-10-01 11:59:00 +0200"}, {"finished": "2026-10-01 10:01:00 +0000"}
    assert precedes(protocol, [after])
    assert not precedes(protocol, [after, before])


def test_check_names_the_protocol_or_what_is_wrong_with_it(checkout, capsys):
    (checkout / "study.yaml").write_text(yaml.safe_dump({"tiny": tiny_study(protocol="docs/protocol.md")}))
    assert main(["check", "study.yaml"]) == 0
    said, found = capsys.readouterr().out, committed_protocol("tiny", "docs/protocol.md")
    assert found["checksum"] in said
    assert DATE in said
    (checkout / ".git").rename(checkout / "git")
    assert main(["check", "study.yaml"]) == 0
    assert "unknown" in capsys.readouterr().out
    (checkout / "git").rename(checkout / ".git")
    edited(checkout)
    assert main(["check", "study.yaml"]) == 1
    assert "tiny.protocol is docs/protocol.md" in capsys.readouterr().err
