"""What made a result: the code (as a fingerprint), the libraries, the commit, the machine."""

import ast
import functools
import hashlib
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.simulation.catalogue import EXPERIMENTS
from trueneg.study.store import RunStore

PACKAGE = Path(__file__).resolve().parents[1]

# Where the code that shapes a result begins; the fingerprint follows the imports from there.
TRAINING = {"images": ("trueneg.training.simclr",), "image-text": ("trueneg.training.image_text",)}  # by kind of training
REPORT = ("trueneg.report.build",)
SIMULATION = tuple(sorted({f"trueneg.simulation.{module}" for module in EXPERIMENTS.values()}))


@functools.cache
def fingerprint(roots: tuple[str, ...]) -> str:
    """Hash of the syntax trees of the modules that `roots` can reach inside the package, and of the templates beside them.

    Comments, docstrings and formatting do not count, so only a change of behaviour makes a result stale.

    Args:
        roots: dotted names of modules of the package.

    Returns:
        The first 16 hexadecimal digits of a SHA-256.
    """
    trees = {name: ast.dump(_without_docstrings(ast.parse(_path_of(name).read_text()))) for name in reachable(roots)}
    folders = {_path_of(name).parent for name in trees}
    templates = {path.name: path.read_text() for folder in folders for path in folder.glob("*.html")}
    return hashlib.sha256(repr((sorted(trees.items()), sorted(templates.items()))).encode()).hexdigest()[:16]


def reachable(roots: Sequence[str]) -> list[str]:
    """The modules of the package that `roots` import, directly or not, wherever in a file the import stands."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in found or _path_of(name) is None:
            continue
        found.add(name)
        waiting += _imports(name)
    return sorted(found)


def _path_of(name: str) -> Path | None:
    base = PACKAGE.joinpath(*name.split(".")[1:])
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if name.split(".")[0] == PACKAGE.name and path.is_file():
            return path
    return None


def _imports(name: str) -> Iterator[str]:
    path = _path_of(name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                node.body = node.body[1:]
    return tree


def versions() -> dict[str, str]:
    """Versions of Python, this package and the libraries that a number depends on."""
    found = {"python": platform.python_version()}
    for name in ("trueneg", "torch", "numpy", "scikit-learn", "openTSNE", "snakemake"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
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


def training_kind(settings: Mapping[str, Mapping[str, Any]]) -> str:
    """The kind of training that a run's settings name; without a name it is of images."""
    return settings["training"].get("kind", "images")


def is_stale(record: Mapping[str, Any]) -> bool:
    """Whether a run's record tells that it was made with other training code than today's."""
    return record["fingerprint"] != fingerprint(TRAINING[training_kind(record["settings"])])


def stale_runs(store: RunStore) -> list[str]:
    """Ids of the finished runs that were made with other training code than today's."""
    return [identifier for identifier, record in store.records().items() if is_stale(record)]
