"""Provenance of results: code fingerprint, library versions, git commit and machine."""

import ast
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.runs import RunSettings, training_kind
from trueneg.io.files import atomic_write
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.store.identity import objective_modules
from trueneg.store.run_store import RunStore

PACKAGE = Path(__file__).resolve().parents[1]

# Root modules of the code that affects a result; the fingerprint follows their imports. An estimator counts only for runs of the
# objectives that it implements, and the registry never counts, so adding an estimator makes no earlier result stale.
ESTIMATORS, REGISTRY = "trueneg.losses.estimators", "trueneg.losses.registry"
PLANNING = ("trueneg.config", "trueneg.specs", "trueneg.store", "trueneg.stats")
TRAINING = {"images": ("trueneg.training.simclr",), "image-text": ("trueneg.training.image_text",)}  # by kind of training
EVALUATE = "trueneg.evaluation.evaluate"
TASKS = {"images": "trueneg.evaluation.images", "image-text": "trueneg.evaluation.pairs"}  # packages of evaluation tasks
LANGUAGE_MODELS = ("trueneg.text.masked_lm",)
REPORT = ("trueneg.report.build",)  # the page; figures and tables each have their own module
SIMULATION = tuple(sorted({f"trueneg.theory.{module}" for module in EXPERIMENTS.values()}))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
TEMPLATES = ("*.html", "styles/*.css", "scripts/*.js", "*.csv")  # next to the code that reads them
# The dependencies in pyproject.toml, except those for clusters and development.
LIBRARIES = (
    *("trueneg", "torch", "torchvision", "transformers", "tokenizers", "safetensors", "open_clip_torch", "torchxrayvision"),
    *("numpy", "scipy", "scikit-learn", "openTSNE", "pandas", "pyarrow", "pillow", "pysbd", "pydantic", "pyyaml"),
    *("filelock", "jsonschema", "psutil", "matplotlib", "seaborn", "jinja2", "pygments", "tqdm", "snakemake"),
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
    """
    trees = {name: _read(name)[0] for name in reachable(roots, without)}
    folders = {_path_of(name).parent for name in trees}
    templates = {path.name: path.read_text() for folder in folders for form in TEMPLATES for path in folder.glob(form)}
    return _digest((sorted(trees.items()), sorted(templates.items())))


def training_fingerprint(settings: RunSettings) -> str:
    """Hash the code that trains runs with these settings: training loop, models, and the objective's own modules."""
    training = fingerprint(TRAINING[training_kind(settings)], without=(ESTIMATORS, REGISTRY))
    return _digest((training, fingerprint(objective_modules(settings), without=(REGISTRY,))))


def evaluation_fingerprint(settings: RunSettings) -> str:
    """Hash the code that evaluates runs with these settings, without code for planning, recording and comparing."""
    package = TASKS[training_kind(settings)]
    tasks = sorted(f"{package}.{path.stem}" for path in _path_of(package).parent.glob("*.py"))
    return fingerprint((EVALUATE, *tasks), without=(*PLANNING, ESTIMATORS, REGISTRY))


def drawing_code(module: str) -> str:
    """Return the module that makes a figure or table, and its fingerprint without the code of settings and store."""
    return f"{module} {fingerprint((module,), without=('trueneg.config', 'trueneg.specs', 'trueneg.store'))}"


def drawn_by_other_code(path: Path) -> bool:
    """Return whether a figure or table was made with code other than the current version."""
    recorded = recorded_code(path)
    return recorded is None or recorded != drawing_code(recorded.partition(" ")[0])


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def record_code(path: str | Path, code: str) -> None:
    """Write the fingerprint of the code that made a result to `path`, the result's path with the suffix ``.code``."""
    with atomic_write(path) as temporary:
        temporary.write_text(code)


def recorded_code(result: Path) -> str | None:
    """Read the fingerprint that :func:`record_code` wrote beside a result; None if there is none."""
    recorded = result.with_suffix(".code")
    return recorded.read_text(errors="replace") if recorded.is_file() else None


def reachable(roots: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """List the package modules that `roots` import, directly or not, including imports inside functions.

    A name that a package's ``__init__`` re-exports leads only to the module that defines it, not to everything it exports.

    Args:
        roots: dotted names of modules.
        without: packages and modules not to follow.
    """
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or not _is_module(name) or f"{name}.".startswith(tuple(f"{left_out}." for left_out in without)):
            continue
        found.add(name)
        waiting += _imports(name)
    return sorted(found)


def _path_of(name: str) -> Path:
    """Return the file of a module of this package."""
    base = PACKAGE.joinpath(*name.split(".")[1:])
    return init if (init := base / "__init__.py").is_file() else base.with_suffix(".py")


def _is_module(name: str) -> bool:
    """Return whether this package has a module of this name."""
    return name.split(".")[0] == PACKAGE.name and _path_of(name).is_file()


def _imports(name: str) -> Iterator[str]:
    for base, names in _read(name)[1]:
        yield from (_defining(base, imported) for imported in names) if names else [base]


def _defining(base: str, imported: str) -> str:
    """Return the module that ``from base import imported`` refers to."""
    if not _is_module(base) or _is_module(f"{base}.{imported}"):
        return f"{base}.{imported}"
    if _path_of(base).name == "__init__.py":
        for inner, names in _read(base)[1]:
            if imported in names:
                return _defining(inner, imported)
    return base


def _read(name: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """Return a module's syntax tree as text, without docstrings, and its imports: modules, each with names."""
    path = _path_of(name)
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, written: int) -> tuple[str, list[tuple[str, list[str]]]]:
    """Parse a file; cached by modification time, because most modules are reached from several roots."""
    tree = ast.parse(path.read_text())
    imports: list[tuple[str, list[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [(alias.name, []) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.module or "", [alias.name for alias in node.names]))
        elif isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree), imports


def versions() -> dict[str, str]:
    """Return the versions of Python, this package and the installed libraries that affect results.

    After computing on a GPU, this includes CUDA and cuDNN.
    """
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        found |= {"cuda": torch.version.cuda, "cudnn": str(torch.backends.cudnn.version())}
    return found


def commit() -> str:
    """Return the git commit of the package's checkout, with ``+changes`` if files differ from it; ``""`` outside a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(PACKAGE), *arguments], capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def machine() -> dict[str, Any]:
    """Describe the host, for the record of a run."""
    return {"host": platform.node(), "system": platform.platform(), "cores": os.cpu_count()}


def is_stale(record: Mapping[str, Any]) -> bool:
    """Return whether other code than the current version trained a run or made its rows (store records lack rows)."""
    return code_state(record) != "finished"


def code_state(record: Mapping[str, Any]) -> str:
    """Return ``stale`` if other code trained the run, ``stale rows`` if other code made its rows; else ``finished``."""
    if trained_by_other_code(record):
        return "stale"
    return "stale rows" if evaluated_by_other_code(record) else "finished"


def trained_by_other_code(record: Mapping[str, Any]) -> bool:
    """Return whether a run was trained with code other than the current version."""
    return record["fingerprint"] != training_fingerprint(record["settings"])


def evaluated_by_other_code(record: Mapping[str, Any]) -> bool:
    """Return whether a study's record of a run shows that other code than the current version made its rows."""
    evaluated = record.get("evaluated")
    return evaluated is not None and evaluated["fingerprint"] != evaluation_fingerprint(record["settings"])


def stale_message(store: RunStore) -> str:
    """Return a line about finished runs that were made with other code than the current version; empty if none."""
    stale = sum(map(is_stale, store.records().values()))
    if not stale:
        return ""
    return (
        f"{stale} runs in {store.path} were made with other code than today's. `trueneg runs` marks them; "
        "`--config retrain_stale=true` trains them again.\n"
    )
