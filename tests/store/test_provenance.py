"""Provenance names the machine on which a result was computed."""

import platform
from pathlib import Path

from trueneg.store import provenance


def test_the_cpu_is_that_of_the_kernel():
    lines = Path("/proc/cpuinfo").read_text().splitlines() if platform.system() == "Linux" else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = provenance.environment({})["machine"]["cpu"]
    assert cpu.startswith(names[0] if names else platform.processor() or platform.machine())
    numbers = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model\t")]
    assert all(f"model {number})" in cpu for number in numbers[:1])
    assert cpu
