"""Run every shipped section in miniature, several per call of Snakemake, and check the results."""

import html
import json
import math
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.declared import declared, written
from tests.miniature.fixtures import write_fixtures, write_models
from tests.miniature.overrides import miniatures
from tests.projects import ROOT, SHIPPED, Project, new_project
from trueneg.config.reading import load_configuration, merged_files
from trueneg.config.runs import corpora
from trueneg.errors import UserError
from trueneg.report.registry import figures_by_name, tables_by_name
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.store.rows import load_rows

# folders of results that belong to no section
SHARED = ("sources", "pairs", "texts", "features", "benchmarks")
LOG_LINES = 30
# seconds of a call of Snakemake; all studies take an hour of two idle cores, and more of busy ones
LONGEST = 4 * 3600


@dataclass(frozen=True, order=True)
class Section:
    """A study of a configuration file."""

    file: str
    name: str

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


@dataclass(frozen=True)
class Failure:
    """A failed job: its rule and its log file."""

    rule: str
    log: str

    def concerns(self, names: Iterable[str]) -> bool:
        """Return whether the job belongs to one of these studies, or to several studies."""
        return self.log.split("/")[1] in {*names, *SHARED}


@dataclass
class Group:
    """Sections that share a project, a configuration and a call of Snakemake."""

    project: Project
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def accepts(self, sections: Mapping[str, Any]) -> bool:
        """Return whether no other section has one of these names."""
        return all(
            self.sections.get(name, section) == section for name, section in sections.items()
        )

    def snakemake(self, names: Iterable[str], *targets: str) -> subprocess.CompletedProcess[str]:
        """Run some of the sections; a failed job stops only jobs that depend on it."""
        self.project.configure(**{name: self.sections[name] for name in names})
        done = self.project.snakemake(*targets, "--keep-going", timeout=LONGEST)
        with (self.project.path / "snakemake.log").open("a") as log:
            log.write(done.stdout + done.stderr)
        return done

    def run(self) -> None:
        """Run all sections; if some fail, move them aside and make the page of the others."""
        done = self.snakemake(self.sections)
        blocks = re.findall(
            r"^Error in rule (\w+):\n((?: {4}.*\n)+)", done.stdout + done.stderr, flags=re.MULTILINE
        )
        failures = [
            Failure(rule, re.search(r"log: (\S+)", block)[1])
            for rule, block in blocks
            if "log: " in block
        ]
        self.failures = list(dict.fromkeys(failures))
        if not done.returncode:
            return
        whole = {name for name in self.sections if not self.lacking(name)}
        while fed := {name for name in whole if not needs(self.sections[name]) <= whole}:
            whole -= fed
        for name in self.sections.keys() - whole:
            if (self.project.path / "results" / name).exists():
                shutil.move(
                    self.project.path / "results" / name, self.project.path / "failed" / name
                )
        if whole:
            self.snakemake(whole, "results/index.html")

    def results(self, name: str) -> Path:
        """Return the section's results folder, which is moved if the section failed."""
        aside = self.project.path / "failed" / name
        return aside if aside.exists() else self.project.path / "results" / name

    def lacking(self, name: str) -> list[str]:
        """Return the figures, tables and class probabilities of the section that are missing or
        empty.
        """
        study = load_configuration(self.sections, "miniatures").studies[name]
        wanted = [
            f"figures/{figure}.{ending}"
            for figure in figures_by_name(study)
            for ending in ("png", "pdf", "svg", "txt")
        ]
        wanted += [
            f"tables/{table}.{ending}"
            for table in tables_by_name(study)
            for ending in ("csv", "tex", "txt")
        ]
        wanted += (
            [f"text/{corpus}/eta.parquet" for corpus in corpora(study)]
            if isinstance(study, LikelihoodStudy)
            else []
        )
        paths = {file: self.results(name) / file for file in wanted}
        return [
            file for file, path in paths.items() if not path.is_file() or not path.stat().st_size
        ]

    def problems(self, name: str) -> list[str]:
        """Return the missing results of a section; an empty list: it passes."""
        found = [f"results/{name}/{file} is missing or empty" for file in self.lacking(name)]
        study = load_configuration(self.sections, "miniatures").studies[name]
        if isinstance(study, TrainedStudy) and not found:
            found += _uncompared(study, self.results(name) / "artefacts")
        page = self.project.path / "results/index.html"
        shown = html.unescape(page.read_text()) if page.is_file() else ""
        found += [
            f"results/index.html has no {text!r}"
            for text in (study.title, f'id="{name}"')
            if text not in shown
        ]
        return found

    def logs(self, name: str) -> str:
        """Return the ends of the logs of failed jobs of the section and of those that it needs."""
        concerned = [
            failure
            for failure in self.failures
            if failure.concerns({name, *needs(self.sections[name])})
        ]
        if not concerned:
            return _end(self.project.path / "snakemake.log")
        return "\n".join(
            f"rule {failure.rule}, {failure.log}:\n{_end(self._log(failure))}"
            for failure in concerned
        )

    def _log(self, failure: Failure) -> Path:
        _, name, *inner = failure.log.split("/")
        return (
            self.project.path / "results" / name if name in SHARED else self.results(name)
        ).joinpath(*inner)


def _uncompared(study: TrainedStudy, artefacts: Path) -> list[str]:
    """Return what is wrong with the primary contrast on the test split, and undeclared rows."""
    primary = study.primary
    rows, found = load_rows(artefacts / "rows.parquet"), []
    if primary.measurement.rows_of(rows[rows["split"] == "test"]).empty:
        found += [f"no row of {primary.measurement} on the test split"]
    found += [
        f"no task declares {one} on the {split} split"
        for split, one in written(rows, study) - declared(study)
    ]
    difference = json.loads((artefacts / "comparison.json").read_text())["primary"]["difference"]
    if difference is None or not math.isfinite(difference):
        found += [f"the primary contrast's difference is {difference}"]
    return found


def _end(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else ["(no log)"]
    return "\n".join(f"    {line}" for line in lines[-LOG_LINES:])


def needs(section: Mapping[str, Any]) -> set[str]:
    """The studies whose results a section reads."""
    text = section.get("dataset", {}).get("text")
    starts = [
        model["start"].split("/")[0]
        for model in section.get("language_models", {}).values()
        if "start" in model
    ]
    return {*starts, *([text] if text else [])}


def shipped() -> dict[str, dict[str, Any]]:
    """The shipped configuration files with those that they extend, by path."""
    return {path.relative_to(ROOT).as_posix(): merged_files([path]) for path in SHIPPED}


def selected() -> dict[str, dict[str, Any]]:
    """The shipped files that the environment variable STUDIES names by their paths; all of them if
    it names none.
    """
    files = shipped()
    return {path: files[path] for path in os.environ.get("STUDIES", "").split() or files}


def sections() -> list[Section]:
    """Every section of every selected file."""
    return [Section(file, name) for file, content in selected().items() for name in content]


class Miniatures:
    """All shipped sections, run once.

    Attributes:
        refused: why a file's sections could not be run, by file.
        groups: by file.
    """

    def __init__(self, folder: Path):
        self.refused: dict[str, str] = {}
        self.groups: dict[str, Group] = {}
        made: list[Group] = []
        for file, content in selected().items():
            try:
                small = miniatures(content, file)
                group = next((group for group in made if group.accepts(small)), None)
                if group is None:
                    group = Group(new_project(folder / f"project{len(made)}"))
                    write_models(group.project.path / "hub")
                    made.append(group)
                for section in small.values():
                    write_fixtures(group.project.path, section)
            except (UserError, LookupError) as error:
                self.refused[file] = str(error)
                continue
            group.sections |= small
            self.groups[file] = group
        for group in made:
            print(
                f"\nSnakemake runs {len(group.sections)} sections in {group.project.path}",
                flush=True,
            )
            start = time.monotonic()
            group.run()
            print(f"It took {(time.monotonic() - start) / 60:.1f} minutes.")

    def problems(self, section: Section) -> list[str]:
        """Return the missing results of a section."""
        refused = self.refused.get(section.file)
        return (
            [refused] if refused is not None else self.groups[section.file].problems(section.name)
        )

    def logs(self, section: Section) -> str:
        """Return the ends of the logs of failed jobs of the section."""
        return self.groups[section.file].logs(section.name) if section.file in self.groups else ""
