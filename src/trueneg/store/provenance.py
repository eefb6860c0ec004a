"""What made a result: the code (as a fingerprint), the libraries, the commit, the machine."""

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

# Where the code that shapes a result begins; the fingerprint follows the imports from there. An estimator counts only for runs of
# the objectives that it implements, and the registry, which only lists them, for none: a new one makes no earlier result stale.
ESTIMATORS, REGISTRY = "trueneg.losses.estimators", "trueneg.losses.registry"
PLANNING = ("trueneg.config", "trueneg.specs", "trueneg.store", "trueneg.stats")
TRAINING = {"images": ("trueneg.training.simclr",), "image-text": ("trueneg.training.image_text",)}  # by kind of training
EVALUATE = "trueneg.evaluation.evaluate"
TASKS = {"images": "trueneg.evaluation.images", "image-text": "trueneg.evaluation.pairs"}  # packages of evaluation tasks
LANGUAGE_MODELS = ("trueneg.text.masked_lm",)
REPORT = ("trueneg.report.build",)  # the page; figures and tables each have their own module
SIMULATION = tuple(sorted({f"trueneg.theory.{module}" for module in EXPERIMENTS.values()}))
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
TEMPLATES = ("*.html", "styles/*.css", "scripts/*.js", "*.csv")  # beside the code that reads them
# What pyproject.toml asks for, but for clusters and for the tools of development.
LIBRARIES = (
    *("trueneg", "torch", "torchvision", "transformers", "tokenizers", "safetensors", "open_clip_torch", "torchxrayvision"),
    *("numpy", "scipy", "scikit-learn", "openTSNE", "pandas", "pyarrow", "pillow", "pysbd", "pydantic", "pyyaml"),
    *("filelock", "jsonschema", "psutil", "matplotlib", "seaborn", "jinja2", "pygments", "tqdm", "snakemake"),
)


@functools.cache
def fingerprint(roots: tuple[str, ...], without: tuple[str, ...] = ()) -> str:
    """Hash of the syntax trees of the modules that `roots` can reach inside the package, and of the templates beside them.

    Comments, docstrings and formatting do not count, so only a change of behaviour makes a result stale.

    Args:
        roots: dotted names of modules of the package.
        without: packages and modules that do not count.

    Returns:
        The first 16 hexadecimal digits of a SHA-256.
    """
    trees = {name: _read(name)[0] for name in reachable(roots, without)}
    folders = {_path_of(name).parent for name in trees}
    templates = {path.name: path.read_text() for folder in folders for form in TEMPLATES for path in folder.glob(form)}
    return _digest((sorted(trees.items()), sorted(templates.items())))


def training_fingerprint(settings: RunSettings) -> str:
    """Hash of the code that trains runs with such settings: training loop, models, and the objective's own modules."""
    training = fingerprint(TRAINING[training_kind(settings)], without=(ESTIMATORS, REGISTRY))
    return _digest((training, fingerprint(objective_modules(settings), without=(REGISTRY,))))


def evaluation_fingerprint(settings: RunSettings) -> str:
    """Hash of the code that evaluates runs with such settings; what only plans, records and compares does not count."""
    package = TASKS[training_kind(settings)]
    tasks = sorted(f"{package}.{path.stem}" for path in _path_of(package).parent.glob("*.py"))
    return fingerprint((EVALUATE, *tasks), without=(*PLANNING, ESTIMATORS, REGISTRY))


def drawing_code(module: str) -> str:
    """The module that makes a figure or table, and its fingerprint; the code of settings and of the store does not count."""
    return f"{module} {fingerprint((module,), without=('trueneg.config', 'trueneg.specs', 'trueneg.store'))}"


def drawn_by_other_code(path: Path) -> bool:
    """Whether a figure or table was made with other code than today's."""
    recorded = recorded_code(path)
    return recorded is None or recorded != drawing_code(recorded.partition(" ")[0])


def _digest(content: object) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def record_code(path: str | Path, code: str) -> None:
    """Write the fingerprint of the code that made a result to `path`, the result's own with the ending ``.code``."""
    with atomic_write(path) as temporary:
        temporary.write_text(code)


def recorded_code(result: Path) -> str | None:
    """What :func:`record_code` wrote beside a result; None if nothing is recorded."""
    recorded = result.with_suffix(".code")
    return recorded.read_text(errors="replace") if recorded.is_file() else None


def reachable(roots: Sequence[str], without: Sequence[str] = ()) -> list[str]:
    """The modules of the package that `roots` import, directly or not, wherever in a file the import stands.

    A name that a package's ``__init__`` only re-exports leads to the module that defines it, not to all that the package exports.

    Args:
        roots: dotted names of modules.
        without: packages and modules that are not followed.
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
    """The file of a module of this package."""
    base = PACKAGE.joinpath(*name.split(".")[1:])
    return init if (init := base / "__init__.py").is_file() else base.with_suffix(".py")


def _is_module(name: str) -> bool:
    """Whether this package has such a module."""
    return name.split(".")[0] == PACKAGE.name and _path_of(name).is_file()


def _imports(name: str) -> Iterator[str]:
    for base, names in _read(name)[1]:
        yield from (_defining(base, imported) for imported in names) if names else [base]


def _defining(base: str, imported: str) -> str:
    """The module that ``from base import imported`` leads to."""
    if not _is_module(base) or _is_module(f"{base}.{imported}"):
        return f"{base}.{imported}"
    if _path_of(base).name == "__init__.py":
        for inner, names in _read(base)[1]:
            if imported in names:
                return _defining(inner, imported)
    return base


def _read(name: str) -> tuple[str, list[tuple[str, list[str]]]]:
    """A module's syntax tree as text, without docstrings, and what it imports: modules, each with names."""
    path = _path_of(name)
    return _parsed(path, path.stat().st_mtime_ns)


@functools.cache
def _parsed(path: Path, written: int) -> tuple[str, list[tuple[str, list[str]]]]:
    """Of a file as it was written at a moment: most modules are reached from several roots."""
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
    """Versions of Python, this package and the libraries that a number depends on, as far as they are installed.

    In a process that has computed on a GPU, also of CUDA and cuDNN.
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
    """The git commit of the package's checkout, with ``+changes`` if files differ from it; ``""`` outside a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(PACKAGE), *arguments], capture_output=True, text=True, timeout=30, check=True)
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def machine() -> dict[str, Any]:
    """The host that computes, for the record of a run."""
    return {"host": platform.node(), "system": platform.platform(), "cores": os.cpu_count()}


def is_stale(record: Mapping[str, Any]) -> bool:
    """Whether a run was trained, or its rows were made, with other code than today's; records in the store do not cover rows."""
    return code_state(record) != "finished"


def code_state(record: Mapping[str, Any]) -> str:
    """``stale`` if a run was trained, ``stale rows`` if its rows were made, with other code than today's; else ``finished``."""
    if trained_by_other_code(record):
        return "stale"
    return "stale rows" if evaluated_by_other_code(record) else "finished"


def trained_by_other_code(record: Mapping[str, Any]) -> bool:
    """Whether a run was trained with other code than today's."""
    return record["fingerprint"] != training_fingerprint(record["settings"])


def evaluated_by_other_code(record: Mapping[str, Any]) -> bool:
    """Whether a study's record of a run tells that its rows were made with other code than today's."""
    evaluated = record.get("evaluated")
    return evaluated is not None and evaluated["fingerprint"] != evaluation_fingerprint(record["settings"])


def stale_message(store: RunStore) -> str:
    """A line about the finished runs that were trained with other code than today's; empty if there are none."""
    stale = sum(map(is_stale, store.records().values()))
    if not stale:
        return ""
    return (
        f"{stale} runs in {store.path} were made with other code than today's. `trueneg runs` marks them; "
        "`--config retrain_stale=true` trains them again.\n"
    )
