"""Provenance of results: code fingerprints, library versions, git commit and machine."""

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.runs import RunSettings, training_kind
from trueneg.legible import counted
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.objectives.base import SHARED_MODULES
from trueneg.store.identity import objective_modules
from trueneg.store.run_store import RunStore

PACKAGE = Path(__file__).resolve().parents[1]

# Root modules of the code that affects a result; the fingerprint follows their imports. An estimator, soft targets and guides
# count only for runs whose objective uses them, and the registry never counts, so adding an estimator makes no result stale.
ESTIMATORS, REGISTRY = "trueneg.losses.estimators", "trueneg.losses.registry"
OF_OBJECTIVES = (ESTIMATORS, REGISTRY, *SHARED_MODULES.values())
PLANNING = ("trueneg.config", "trueneg.specs", "trueneg.store", "trueneg.stats")
TRAINING = {"images": ("trueneg.training.simclr",), "image-text": ("trueneg.training.image_text",)}  # by kind of training
EVALUATE = "trueneg.evaluation.evaluate"
TASKS = {"images": "trueneg.evaluation.images", "image-text": "trueneg.evaluation.pairs"}  # packages of evaluation tasks
LANGUAGE_MODELS = ("trueneg.text.masked_lm",)
REPORT = ("trueneg.report.build",)  # the report page; each figure and table has its own module
SIMULATION = tuple(sorted({f"trueneg.theory.{module}" for module in EXPERIMENTS.values()}))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
TEMPLATES = ("*.html", "styles/*.css", "scripts/*.js", "*.csv")  # next to the code that reads them
# The dependencies in pyproject.toml, except those for clusters and for development.
LIBRARIES = (
    *("trueneg", "torch", "torchvision", "transformers", "tokenizers", "safetensors", "open_clip_torch", "torchxrayvision"),
    *("numpy", "scipy", "scikit-learn", "openTSNE", "pandas", "pyarrow", "pillow", "pysbd", "pydantic", "pyyaml"),
    *("filelock", "psutil", "matplotlib", "seaborn", "jinja2", "pygments", "tqdm", "snakemake"),
)


@functools.cache
def fingerprint(roots: tuple[str, ...], without: tuple[str, ...] = ()) -> str:
    """Hash the syntax trees of the package modules that `roots` import, directly or not, and the templates beside them.

    Comments, docstrings and formatting are ignored, so they make no result stale.

    Args:
        roots: dotted names of modules of the package.
        without: packages and modules to exclude.

    Returns:
        The first 16 hexadecimal digits of a SHA-256.

    Raises:
        ValueError: if a root is not a module of the package, as changes to the intended module would go unnoticed.
    """
    missing = [name for name in roots if not _is_module(name)]
    if missing:
        raise ValueError(f"{', '.join(missing)} is not a module of {PACKAGE.name}; set MODULES to existing modules.")
    trees = {name: _read(_path_of(name))[0] for name in reachable(roots, without)}
    folders = {_path_of(name).parent for name in trees}
    templates = {path.name: path.read_text() for folder in folders for form in TEMPLATES for path in folder.glob(form)}
    return _digest((sorted(trees.items()), sorted(templates.items())))


def training_fingerprint(settings: RunSettings) -> str:
    """Hash the code that trains runs with these settings: training loop, models, and the objective's own modules."""
    training = fingerprint(TRAINING[training_kind(settings)], without=OF_OBJECTIVES)
    return _digest((training, fingerprint(objective_modules(settings), without=(REGISTRY,))))


def evaluation_fingerprint(settings: RunSettings) -> str:
    """Hash the code that evaluates runs with these settings, without code for planning, recording and comparing."""
    package = TASKS[training_kind(settings)]
    tasks = sorted(f"{package}.{path.stem}" for path in _path_of(package).parent.glob("*.py"))
    return fingerprint((EVALUATE, *tasks), without=(*PLANNING, *OF_OBJECTIVES))


def drawing_code(module: str) -> str:
    """Return the name and the fingerprint of a figure's or table's module; settings and store code are excluded."""
    return f"{module} {fingerprint((module,), without=('trueneg.config', 'trueneg.specs', 'trueneg.store'))}"


def drawn_by_other_code(path: Path) -> bool:
    """Return whether a figure or table was made with another version of the code."""
    recorded = recorded_code(path) or ""
    module, _, _ = recorded.partition(" ")
    return not _is_module(module) or recorded != drawing_code(module)


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def recorded_code(result: Path) -> str | None:
    """Read the fingerprint of the code that made a result, from the file with the suffix ``.code``; None if there is none."""
    recorded = result.with_suffix(".code")
    return recorded.read_text(errors="replace") if recorded.is_file() else None


def reachable(roots: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """List the modules of this package that `roots` import, directly or not, including imports inside functions.

    A name that a package's ``__init__`` re-exports leads only to the module that defines it, not to all that the package exports.

    Args:
        roots: dotted names of modules.
        without: packages and modules not to follow.
    """
    excluded = tuple(f"{name}." for name in without)
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found and _is_module(name) and not f"{name}.".startswith(excluded):
            found.add(name)
            waiting += [_defining(base, imported) for base, imported in _read(_path_of(name))[1]]
    return sorted(found)


def _path_of(name: str) -> Path:
    """Return the file of a module of this package."""
    base = PACKAGE.joinpath(*name.split(".")[1:])
    return init if (init := base / "__init__.py").is_file() else base.with_suffix(".py")


def _is_module(name: str) -> bool:
    """Return whether this package has a module of this name."""
    return name.split(".")[0] == PACKAGE.name and _path_of(name).is_file()


def _defining(base: str, imported: str) -> str:
    """Return the module that ``from base import imported`` refers to."""
    if not _is_module(base) or _is_module(f"{base}.{imported}"):
        return f"{base}.{imported}"
    path = _path_of(base)
    if path.name == "__init__.py":
        for inner, name in _read(path)[1]:
            if name == imported:
                return _defining(inner, imported)
    return base


@functools.cache  # most modules are reached from several roots
def _read(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """Return the syntax tree of a module as text, without docstrings, and its imports as pairs of a package and a name in it."""
    tree = ast.parse(path.read_text())
    imports: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name.rpartition(".")[::2] for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree), imports


def environment(fingerprint: str) -> dict[str, Any]:
    """Describe the code (by its fingerprint) and the machine that computed a result, for the result's record."""
    return {
        "fingerprint": fingerprint,
        "versions": versions(),
        "commit": _commit(),
        "machine": {"host": platform.node(), "system": platform.platform(), "cores": os.cpu_count()},
    }


def versions() -> dict[str, str]:
    """Return the versions of Python, of this package and of the installed libraries that affect results.

    After a computation on a GPU, this includes CUDA and cuDNN.
    """
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    return found


def _commit() -> str:
    """Return the git commit of the package's checkout, with ``+changes`` if files differ from it; empty outside a checkout."""
    command = ["git", "-C", str(PACKAGE), "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def trained_by_other_code(record: Mapping[str, Any]) -> bool:
    """Return whether a run was trained with another version of the code."""
    return record["fingerprint"] != training_fingerprint(record["settings"])


def evaluated_by_other_code(record: Mapping[str, Any]) -> bool:
    """Return whether a run's rows in a study were produced by another version of the code."""
    evaluated = record.get("evaluated")
    return evaluated is not None and evaluated["fingerprint"] != evaluation_fingerprint(record["settings"])


def code_state(record: Mapping[str, Any]) -> str:
    """Return ``stale`` or ``stale rows`` if another version of the code trained the run or made its rows, else ``finished``."""
    if trained_by_other_code(record):
        return "stale"
    return "stale rows" if evaluated_by_other_code(record) else "finished"


def stale_message(store: RunStore) -> str:
    """Return a line about the finished runs that were trained with another version of the code; empty if there are none."""
    stale = sum(map(trained_by_other_code, store.records().values()))
    found = f"{counted(stale, 'run')} in {store.path} {'was' if stale == 1 else 'were'} trained with another version of the code."
    remedy = "`trueneg runs` marks stale runs; `--config retrain_stale=true` trains them again."
    return f"{found} {remedy}\n" if stale else ""
