"""A study's protocol counts only as committed: git tells when, and the runs tell whether that was before them."""

import hashlib
import os
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


def test_a_file_outside_a_checkout_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "protocol.md").write_text("DCL - CL\n")
    with pytest.raises(UserError, match=r"protocol\.md.*not a git repository.*expected a file committed to git"):
        committed_protocol("study", str(tmp_path / "protocol.md"))


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
    edited(checkout)
    assert main(["check", "study.yaml"]) == 1
    assert "tiny.protocol is docs/protocol.md" in capsys.readouterr().err
