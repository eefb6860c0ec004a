"""Errors for unreadable files name the file, what was expected, the cause and the remedy."""

import os

import pytest

from trueneg.errors import UserError
from trueneg.io.reading import reading


class OutOfMemoryError(RuntimeError):
    """Stands for torch's, which is matched by name."""


class HubError(FileNotFoundError):
    """Stands for the hub's errors, whose messages say more than that a file does not exist."""


@pytest.mark.parametrize(
    "error",
    [ValueError("no\nnumber."), KeyError("id"), RecursionError("too deep"), AssertionError()],
)
def test_any_exception_becomes_an_error_with_the_cause_and_the_remedy(error, tmp_path):
    cause = " ".join(str(error).split()).rstrip(".")
    with (
        pytest.raises(UserError) as raised,
        reading(tmp_path / "a.csv", "a table", "Copy it again."),
    ):
        raise error
    for fact in (
        f"{tmp_path / 'a.csv'}: ",
        "a table",
        type(error).__name__,
        cause,
        "Copy it again.",
    ):
        assert fact in str(raised.value)
    assert raised.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [MemoryError(), OutOfMemoryError(), UserError("a.csv is empty."), KeyboardInterrupt()]
)
def test_errors_that_the_file_did_not_cause_pass_through(error):
    with pytest.raises(type(error)) as raised, reading("a.csv", "a table", "Copy it again."):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [("Run the step that writes it.", "Run the step"), (None, "Copy it again")],
)
def test_a_file_that_does_not_exist_has_its_own_remedy(missing, remedy, tmp_path):
    fact = rf"a\.csv: does not exist.*a table.*{remedy}"
    with (
        pytest.raises(UserError, match=fact),
        reading(tmp_path / "a.csv", "a table", "Copy it again.", missing=missing),
    ):
        (tmp_path / "a.csv").read_text()


def test_an_error_of_the_hub_keeps_its_message():
    with (
        pytest.raises(UserError, match=r"nobody/model: .*not in the cache"),
        reading("nobody/model", "a BERT", "Use another."),
    ):
        raise HubError("not in the cache")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_exists(tmp_path):
    path = tmp_path / "a.csv"
    path.touch(mode=0o000)
    with (
        pytest.raises(UserError, match="PermissionError"),
        reading(path, "a table", "Copy it again."),
    ):
        path.read_text()


def test_the_remedy_of_a_file_without_permission_is_permission(tmp_path):
    with pytest.raises(UserError) as raised, reading(tmp_path, "a table", "Copy it again."):
        raise PermissionError(13, "Permission denied", str(tmp_path))
    assert "Copy it again" not in str(raised.value)
    assert "Give yourself permission to read it" in str(raised.value)
