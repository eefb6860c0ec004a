"""Memory, time and threads that no study sets, by rule; for images with sentences by source."""

from pydantic import Field

from trueneg.specs.settings import Count, Settings


class Resources(Settings):
    """What a job of a rule asks for at its first attempt; memory and time are doubled for the second."""

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
