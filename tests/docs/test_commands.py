"""Every command in the documentation is valid: programs accept its arguments, and its files
exist.
"""

import functools
import itertools
import re
import shlex
import tomllib

import pytest
import yaml
from snakemake.cli import get_argument_parser

from tests.docs.pages import PAGES, ROOT, blocks, commands
from trueneg.cli import main as command_line
from trueneg.config.reading import load_configuration, merged, merged_files

COMMANDS = sorted({(command, place) for page in PAGES for place, command in commands(page)})
# files that readers write
WRITTEN = {block.title: block.text for page in PAGES for block in blocks(page) if block.title}
# docs/own-data.md has its reader copy it
COPIED = {"my_study.yaml": "config/studies/own_data.yaml"}
# These name an objective, a source or a kind that their page adds first; test_extend.py reads them
# there.
TAUGHT = {"trim.yaml", "shapes.yaml", "collisions.yaml"}
# prose names the command, without a form
NAMED = "trueneg init"
PLACEHOLDERS = re.compile(r"…|\bCONFIG\b|<\w+>")


def content_of(path):
    """The content of a configuration file of the project, or of one that a page has its reader
    write.
    """
    return (
        yaml.safe_load(WRITTEN[path])
        if path in WRITTEN
        else merged_files([ROOT / COPIED.get(path, path)])
    )


def named(program):
    """The commands of a program, as arguments; those with a placeholder are a form, not a
    command.
    """
    return [
        pytest.param(shlex.split(command)[1:], id=f"{place}: {command}")
        for command, place in COMMANDS
        if command.split()[0] == program and command != NAMED and not PLACEHOLDERS.search(command)
    ]


def targets():
    """Rules that can be asked for by name."""
    text = "".join(
        path.read_text(encoding="utf-8")
        for path in [ROOT / "Snakefile", *(ROOT / "rules").glob("*.smk")]
    )
    return set(re.findall(r"^rule (\w+):", text, re.M)) | set(
        re.findall(r'^    "(\w+)": ', text, re.M)
    )


@pytest.mark.parametrize("arguments", named("snakemake"))
def test_snakemake_accepts_the_command(arguments, monkeypatch):
    monkeypatch.chdir(ROOT)
    profile = ROOT / next(
        iter(itertools.islice(_after(arguments, "--workflow-profile"), 1)), "profiles/default"
    )
    assert (profile / "profile.yaml").is_file()
    given = get_argument_parser().parse_args(arguments)
    for target in [*given.targets, *(given.until or []), *(given.forcerun or [])]:
        assert target in targets() or target.startswith("results/"), f"{target} is no target"
    paths = [
        str(path).removeprefix(f"{ROOT}/") for path in given.configfile or ["config/config.yaml"]
    ]
    if TAUGHT.intersection(paths):
        return
    entries = (entry.partition("=") for entry in given.config or [])
    overrides = {name: yaml.safe_load(value) for name, _, value in entries}
    load_configuration(
        functools.reduce(merged, [*map(content_of, paths), overrides]), "the command"
    )


@pytest.mark.parametrize("arguments", named("trueneg"))
def test_trueneg_accepts_the_command(arguments):
    given = command_line._parser().parse_args(arguments)
    for path in set(getattr(given, "config", [])) - TAUGHT:
        load_configuration(content_of(path), path)


@pytest.mark.parametrize("block", list(blocks(ROOT / "docs/running.md", "GPUs")), ids=str)
def test_the_training_settings_are_valid(block):
    study = merged_files(
        [ROOT / "config/studies/cifar10.yaml"], {"cifar10": yaml.safe_load(block.text)}
    )
    load_configuration(study, str(block))


@pytest.mark.parametrize("arguments", named("make"))
def test_make_has_the_target(arguments):
    known = re.findall(r"^([\w./-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert {name for name in arguments if "=" not in name} <= set(known)


@pytest.mark.parametrize("arguments", named("python"))
def test_the_script_exists(arguments):
    if arguments[0] != "-m":
        assert arguments[0] in WRITTEN or (ROOT / arguments[0]).is_file()


@pytest.mark.parametrize("arguments", named("pip"))
def test_the_extras_to_install_exist(arguments):
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    asked = [
        extra
        for argument in arguments
        for found in re.findall(r"^\.\[(.+)\]$", argument)
        for extra in found.split(",")
    ]
    assert set(asked) <= set(known)


def test_what_drawing_needs_is_what_the_extra_lists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (told,) = [
        command
        for command, place in COMMANDS
        if place == "docs/redraw.md" and " jinja2 " in command
    ]
    names = {re.match(r"[\w-]+", entry)[0] for entry in project["optional-dependencies"]["report"]}
    assert {re.match(r"[\w-]+", entry)[0] for entry in shlex.split(told)[2:]} == names


def test_the_commands_are_found():
    assert {command.split()[0] for command, _ in COMMANDS} >= {
        "snakemake",
        "trueneg",
        "make",
        "pip",
        "python",
    }


def _after(arguments, name):
    return (value for option, value in itertools.pairwise(arguments) if option == name)
