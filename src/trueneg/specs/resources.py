"""Memory, time and threads that are not set by a study, by rule (for image–sentence pairs, by source)."""

from typing import Literal

from pydantic import Field

from trueneg.specs.settings import Count, CountFromZero, Positive, Settings, technical

Device = Literal["auto", "cpu", "cuda"]


class JobResources(Settings):
    """Resources of a study's jobs; not part of a run's identity."""

    threads: Count = technical(1, "intra-op threads of a process")
    gpu: CountFromZero = technical(1, "Snakemake resource `gpu` of a job; of a training, for each of its `devices`")
    mem_mb: Count = technical(4000, "memory of a job, in MB; raised with each attempt")
    runtime: Count = technical(60, "minutes that a job may take on a cluster")


class ResumableResources(Settings):
    """Device and checkpoint interval for training."""

    device: Device = technical("auto", "auto: a GPU where there is one, else the CPU, and says so")
    checkpoint_minutes: Positive = technical(5.0, "a training that is killed loses at most so much work")


class Resources(Settings):
    """Resources requested for the first attempt of a rule's job; memory and time are doubled for the second."""

    mem_mb: Count = Field(2000, description="memory, in MB")
    runtime: Count = Field(10, description="time, in minutes")
    threads: Count = Field(1, description="threads, of rules that use several")


RESOURCES = {
    "source": Resources(mem_mb=4000, runtime=30),
    "chexpert_8x200": Resources(mem_mb=4000, runtime=60, threads=2),
    "subsets": Resources(mem_mb=4000),
    "phantom_reports": Resources(runtime=30),
    "reports": Resources(mem_mb=4000, runtime=60),
    "sentences": Resources(mem_mb=4000, runtime=240),
    "captions": Resources(mem_mb=4000, runtime=60),
    "open_i_classes": Resources(),
    "eta": Resources(),
    "assumption": Resources(mem_mb=4000, runtime=30),
    "eta_by_class": Resources(),
    "rating_summary": Resources(runtime=20),
    "compare": Resources(),
    "settle": Resources(),
    "draw": Resources(runtime=30),
    "page": Resources(),
}
