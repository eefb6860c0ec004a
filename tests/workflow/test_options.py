"""Options of Snakemake that would lose results or report files that do not exist are refused in one
sentence, before any job.
"""

import os
import shutil

import pytest

from tests.projects import Project, new_project
from tests.studies import tiny_study
from trueneg.planning.folder_lock import LOCKS, record_owner
from trueneg.planning.options import is_given

PLUGIN = """
from snakemake_interface_storage_plugins.storage_object import StorageObjectRead, StorageObjectWrite
from snakemake_interface_storage_plugins.storage_provider import (
    StorageProviderBase,
    StorageQueryValidationResult,
)


class StorageProvider(StorageProviderBase):
    def rate_limiter_key(self, query, operation):
        return None

    def default_max_requests_per_second(self):
        return 0.0

    def use_rate_limiter(self):
        return False

    @classmethod
    def example_queries(cls):
        return []

    @classmethod
    def is_valid_query(cls, query):
        return StorageQueryValidationResult(query, True)


class StorageObject(StorageObjectRead, StorageObjectWrite):
    pass
"""


@pytest.fixture(scope="module")
def empty(tmp_path_factory) -> Project:
    """A project without results; no test adds any."""
    project = new_project(tmp_path_factory.mktemp("options") / "project")
    project.configure(tiny=tiny_study())
    return project


def refusal(project: Project, *arguments: str) -> str:
    """Return what Snakemake prints when it refuses; fail if it does not, or not in one sentence."""
    ended = project.snakemake(*arguments)
    printed = ended.stdout + ended.stderr
    assert ended.returncode, printed
    assert "Traceback" not in printed
    assert not (project.path / "results/sources").exists() or "Finished jobid" not in printed
    return printed


def test_options_are_found_as_snakemake_reads_them():
    assert is_given("--unlock", ["-c1", "--unl"])
    assert is_given("--archive", ["--archive=all.tar.gz"])
    assert not is_given("--unlock", ["-c1", "-", "--", "results/unlock", "--until", "train"])


def test_a_storage_provider_is_refused(empty):
    plugin = empty.path / "src/snakemake_storage_plugin_pretended"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN)
    options = ("--default-storage-provider", "pretended", "--default-storage-prefix", "elsewhere")
    assert "needs a shared file system" in refusal(empty, "--dry-run", *options)


def test_the_files_of_failed_jobs_are_not_kept_as_results(empty):
    assert (
        "--keep-incomplete"
        in refusal(empty, "models", "--keep-incomplete").split("WorkflowError")[1]
    )
    assert not (empty.path / "results").exists()


def test_touch_names_missing_files_and_reports_no_finding(project):
    table, page = (
        project.path / "results/tiny/tables/accuracy.csv",
        project.path / "results/index.html",
    )
    removed, before = table.rename(project.path / "removed.csv"), page.stat().st_mtime_ns
    printed = refusal(project, "--touch")
    assert "results/tiny/tables/accuracy.csv" in printed.split("WorkflowError")[1]
    assert "We cannot tell" not in printed
    assert (table.exists(), page.stat().st_mtime_ns) == (False, before)
    removed.rename(table)
    project.run("--touch", "--forcerun", "page")
    assert page.stat().st_mtime_ns > before


@pytest.mark.parametrize(
    "option", [("--archive", "all.tar.gz"), ("--containerize",)], ids=lambda option: option[0]
)
def test_options_that_need_conda_say_so_before_they_write(empty, option, monkeypatch):
    folders = os.environ["PATH"].split(os.pathsep)
    monkeypatch.setenv(
        "PATH",
        os.pathsep.join(folder for folder in folders if not shutil.which("conda", path=folder)),
    )
    printed = refusal(empty, *option)
    assert "need conda" in printed
    assert "envs/Containerfile" in printed
    assert "FROM" not in printed
    assert not (empty.path / "all.tar.gz").exists()


def test_a_folder_in_use_is_unlocked_only_by_force(empty, monkeypatch):
    monkeypatch.chdir(empty.path)
    LOCKS.mkdir(parents=True, exist_ok=True)
    lock = LOCKS / "0.input.lock"
    lock.write_text("results/index.html\n")
    record_owner()
    printed = refusal(empty, "--unlock")
    assert f"process {os.getpid()} on" in printed.split("WorkflowError")[1]
    assert "TRUENEG_FORCE_UNLOCK=1" in printed
    assert lock.exists()
    monkeypatch.setenv("TRUENEG_FORCE_UNLOCK", "1")
    empty.run("--unlock")
    assert not lock.exists()
