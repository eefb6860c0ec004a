"""Default memory, time and threads of jobs: settings for a study's own jobs, and requests for the
other rules.
"""

from typing import Literal

from trueneg.specs.settings import Count, Positive, Settings, Technical

Device = Literal["auto", "cpu", "cuda"]


def gpus(device: Device, count: int = 1) -> int:
    """Return the Snakemake resource `gpu` of a job on `count` devices; 0 if the device is the
    CPU.
    """
    return 0 if device == "cpu" else count


class JobResources(Settings):
    """Resources of a study's jobs; not part of a run's identity."""

    threads: Technical[Count] = 1
    """intra-op threads per process"""
    mem_mb: Technical[Count] = 4000
    """memory of a job in MB; increases with each attempt"""
    runtime: Technical[Count] = 60
    """time limit of a job on a cluster, in minutes"""


class EvaluationResources(JobResources):
    """Resources for an evaluation, which runs on the device of `training`."""

    runtime: Technical[Count] = 30
    """time limit of a job on a cluster, in minutes"""


class ResumableResources(Settings):
    """Device and checkpoint interval for training."""

    device: Technical[Device] = "auto"
    """auto: a GPU if available, otherwise the CPU; cpu: requests no `gpu` from Snakemake"""
    checkpoint_minutes: Technical[Positive] = 5.0
    """minutes between checkpoints: the most work that an interruption can lose"""


class Resources(Settings):
    """Resources requested for the first attempt of a rule's job; memory and time increase with each
    further attempt.
    """

    mem_mb: Count = 2000
    """memory in MB"""
    runtime: Count = 10
    """time limit in minutes"""


class ReadingResources(Resources):
    """Resources of rules that read many files at once."""

    threads: Count = 1
    """number of files read at once"""


RESOURCES = {
    "source": Resources(mem_mb=4000, runtime=30),
    "texts": Resources(mem_mb=4000, runtime=60),
    "chexpert_8x200": ReadingResources(mem_mb=4000, runtime=60, threads=2),
    "subsets": Resources(mem_mb=4000),
    "mine": Resources(mem_mb=8000, runtime=60),
    "phantom_reports": Resources(runtime=30),
    "reports": Resources(mem_mb=4000, runtime=60),
    "features": Resources(mem_mb=8000, runtime=240),
    "sentences": Resources(mem_mb=4000, runtime=240),
    "captions": Resources(mem_mb=4000, runtime=60),
    "assumption": Resources(mem_mb=4000, runtime=30),
    "rating_summary": Resources(runtime=20),
    "eta_errors": Resources(mem_mb=4000, runtime=30),
    "draw": Resources(runtime=30),
    **dict.fromkeys(
        ("open_i_classes", "eta", "select", "compare", "study_settings", "page"), Resources()
    ),
}
