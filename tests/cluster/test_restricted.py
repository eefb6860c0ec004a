"""Restricted text that Slurm jobs process is in none of the logs, even if a job crashes."""

import pandas as pd
import pytest

from tests.cluster.slurm import finish
from tests.cluster.studies import PATIENCE
from tests.io.test_privacy import SECRET, write_reports
from tests.projects import Project, new_project
from tests.studies import tiny_words
from trueneg.io import privacy
from trueneg.io.seals import seal

pytestmark = pytest.mark.long

TEXT = "results/words/text/mimic_cxr"
# All steps in one submission.
GROUPED = (
    "--groups",
    *(f"{rule}=words" for rule in ("reports", "sentences", "language_model", "score", "eta")),
)
LOUD = ("--slurm-keep-successful-logs", "--verbose")


def logs_of(project: Project) -> dict[str, str]:
    """Return the readable files of a workflow: logs of Slurm and the jobs, Snakemake's own files
    and its output.
    """
    files = [path for path in (project.path / ".snakemake").rglob("*") if path.is_file()]
    files += [*(project.path / "results/words/logs").rglob("*.log"), project.path / "snakemake.txt"]
    return {
        str(path.relative_to(project.path)): path.read_bytes().decode(errors="replace")
        for path in files
    }


def test_restricted_text_is_in_no_log_of_slurm(slurm, tmp_path):
    write_reports(tmp_path / "source")
    project = new_project(tmp_path / "project")
    project.configure(
        words=tiny_words(reports={"source": "mimic_cxr", "path": str(tmp_path / "source")})
    )
    finish(slurm.submit(project, f"{TEXT}/eta.parquet", *GROUPED, *LOUD), project)
    (done,) = slurm.jobs(project)
    assert done["JobState"] == "COMPLETED"
    slurm_log = (
        f".snakemake/slurm_logs/{done['Comment'].replace('rule_', 'group_', 1)}/{done['JobId']}.log"
    )
    assert "rule score" in logs_of(project)[slurm_log]
    assert "40 used" in "".join(logs_of(project).values())
    assert [name for name, text in logs_of(project).items() if SECRET.lower() in text.lower()] == []

    unscorable = {
        "report": ["a", "a"],
        "patient": ["a", "a"],
        "index": [0, 1],
        "sentence": [f"{SECRET}.", "\u200d"],
        "marked": [False, False],
    }
    sentences = project.path / TEXT / "sentences.parquet"
    privacy.write_table(pd.DataFrame(unscorable), sentences, restricted=True)
    # or the job would refuse the file before it reads a sentence
    seal(project.path / "results", [sentences])
    crashed = slurm.submit(
        project, f"{TEXT}/eta.parquet", *LOUD, "--retries", "0", "--allowed-rules", "score", "eta"
    )
    assert crashed.wait(PATIENCE) == 1
    (failed,) = slurm.jobs(project, "score")
    assert failed["JobState"] == "FAILED"
    assert "has no tokens" in logs_of(project)["snakemake.txt"]
    assert [name for name, text in logs_of(project).items() if SECRET.lower() in text.lower()] == []
