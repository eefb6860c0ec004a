"""Valid configurations with one value changed, for every value of every configuration of the project."""

import copy
import datetime
import json
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.cli.main import main
from trueneg.config.configuration import Configuration
from trueneg.config.image_study import ImageStudy
from trueneg.config.reading import load_configuration
from trueneg.config.runs import all_runs, datasets, source_key
from trueneg.data.images.image_source import ImageSource, read_source, write_source
from trueneg.planning.trainings import Trainings
from trueneg.report import registry
from trueneg.store.identity import run_id

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "config/config.yaml", *sorted((ROOT / "config/studies").glob("*.yaml")))
CIFAR = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
Place = tuple[str | int, ...]


def given() -> dict[str, dict[str, Any]]:
    """The configurations by name: every file of the project, and tiny ones on what needs no files."""
    found = {path.stem: yaml.safe_load(path.read_text()) for path in FILES}
    return found | {"tiny": {"tiny": tiny_study()}, "tiny pairs": {"words": tiny_words(), "world": tiny_world()}}


def leaves(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where single values stand; an empty list or mapping is one too."""
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    inner = [found for key, part in items for found in leaves(part, (*place, key))]
    yield from inner or [place]


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value, value]
    return value


LONG = "long " * 20_000
CONTROL = "a\x1b[31m\u202eb\nc\td\u0000\u2028e"
ANOTHER = ["words", 3, 0.5, True, False, "1e-3", "true", datetime.date(2020, 1, 1), b"\xff"]
MAPPINGS = [{}, {"a": 1}, {"schedule": "linear"}, {1: 2}, {None: 3}, {"a": {"b": {}}}]
HUGE = [10**6, 10**12, 2**31, 2**63, 10**30, 1e308, 10**400, "9" * 5000, "1e999"]
SIGNS = [CONTROL, "η→✓ 猫", "\ufeff", "{0} %s %n ${HOME} {snakemake.input}", "<script>alert(1)</script>", "\\input{/etc/passwd}"]
SIGNS += ["; rm -rf /", "'\"`", "\x7f\x85"]
PATHS = ["/", ".", "..", "../../../etc/passwd", "/dev/null", "/dev/full", "nowhere/at/all", "a-file", "a-file/below", "a\x00b"]
PATHS += ["loop", "x/" * 3000, "x" * 300, "~nobody/x", "~", "-rf"]
# Replacements by kind; each gets the valid value and a random source. Where the kind is of keys, the key is changed.
REPLACEMENTS: dict[str, Callable[[Any, random.Random], Any]] = {
    "nothing": lambda value, draw: draw.choice([None, "null", "", " ", "~"]),
    "another type": lambda value, draw: draw.choice(ANOTHER),
    "list": lambda value, draw: draw.choice([[], [value], [value, value], [None], [[value]], [1, "a"], _deep(3), _deep(25)]),
    "mapping": lambda value, draw: draw.choice([*MAPPINGS, {"name": value}]),
    "negative": lambda value, draw: draw.choice([-1, -0.5, -(10**9), -1e-300, "-1"]),
    "zero": lambda value, draw: draw.choice([0, 0.0, -0.0, "0", 5e-324]),
    "huge": lambda value, draw: draw.choice(HUGE),
    "no number": lambda value, draw: draw.choice([float("nan"), float("inf"), -float("inf"), ".nan", "NaN", "inf"]),
    "near": lambda value, draw: _near(value, draw),
    "signs": lambda value, draw: draw.choice(SIGNS),
    "long": lambda value, draw: draw.choice([LONG, "é" * 5000, list(range(500)), {f"key{n}": n for n in range(200)}]),
    "path": lambda value, draw: draw.choice(PATHS),
    "key misspelt": lambda value, draw: None,
    "key missing": lambda value, draw: None,
    "key strange": lambda value, draw: None,
}


def _near(value: Any, draw: random.Random) -> Any:
    """One off."""
    if isinstance(value, bool) or value is None:
        return draw.choice([1, 0, "yes", "no"])
    if isinstance(value, (int, float)):
        return draw.choice(
            [value + 1, value - 1, -value, value * 2, value / 3, str(value), value + 1e-9, 1 - value, value * 1000]
        )
    if isinstance(value, str) and value:
        cut = draw.randrange(len(value))
        return draw.choice(
            [value[:cut] + value[cut + 1 :], value + "x", value.upper(), f" {value} ", value[::-1], value[:cut] + "ö"]
        )
    return draw.choice([[0], {"x": 0}])


def changed(configuration: Mapping[str, Any], place: Place, kind: str, draw: random.Random) -> dict[str, Any]:
    """The configuration with one value, or one key, changed."""
    whole = copy.deepcopy(dict(configuration))
    section: Any = whole
    *way, key = place
    for step in way:
        section = section[step]
    value = section[key]
    if not kind.startswith("key") or isinstance(section, list):
        section[key] = REPLACEMENTS[kind if not kind.startswith("key") else "another type"](value, draw)
        return whole
    del section[key]
    if kind == "key misspelt":
        section[f"{key}s" if draw.random() < 0.5 else f"{key}"[:-1]] = value
    elif kind == "key strange":
        strange = draw.choice([CONTROL, "", LONG, 7, None, 3.5, True, datetime.date(2020, 1, 1), "a.b", "../up", "<b>", "%s{0}"])
        section[strange] = value
    return whole


def cases(seed: int, rounds: int = 1) -> Iterator[tuple[str, str, Place, dict[str, Any]]]:
    """Every value of every configuration, changed `rounds` times in other ways: file, kind of change, place, configuration."""
    draw = random.Random(seed)
    kinds = list(REPLACEMENTS)
    weights = [4 if kind == "near" else 1 for kind in kinds]  # most of what people get wrong is nearly right
    for name, configuration in given().items():
        for place in leaves(configuration):
            for kind in draw.choices(kinds, weights, k=rounds):
                yield name, kind, place, changed(configuration, place, kind, draw)


def prepare(folder: Path) -> None:
    """What the configurations need so that they are described to the end, and the files that changed paths point at.

    Decoded images stand in for data sets that cannot lie here; a record of every network's speed for a measurement.
    """
    (folder / "a-file").write_text("text")
    (folder / "loop").symlink_to("loop")
    (folder / "results/runs").mkdir(parents=True)
    random_pixels = np.random.default_rng(0)
    for configuration in given().values():
        for name, study in load_configuration(configuration, "given").studies.items():
            if isinstance(study, ImageStudy):
                for label, settings in datasets(study).items():
                    source = _decoded(settings.model_dump(mode="json"), folder / "results/sources", random_pixels)
                    _record_speeds(
                        [run for run in all_runs(name, study) if run.dataset == label], source, folder / "results/runs"
                    )


def _decoded(reading: Mapping[str, Any], folder: Path, random_pixels: np.random.Generator) -> ImageSource:
    path = folder / f"{source_key(reading)}.npz"
    if not path.is_file():
        if reading["source"] == "digits":
            from trueneg.data.images.loading import load_source

            write_source(load_source("digits", resolution=reading["resolution"]), path)
        else:
            labels = np.arange(13_000) % 10
            pixels = random_pixels.integers(0, 256, (13_000, 3, 8, 8), np.uint8)
            write_source(ImageSource(reading["source"], pixels, labels, np.arange(13_000) >= 12_000, CIFAR), path)
    return read_source(path)


def _record_speeds(runs: list[Any], source: ImageSource, store: Path) -> None:
    """One finished run for each combination of settings that a run's speed depends on."""
    seen = set()
    for run in runs:
        training = run.settings["training"]
        speed = repr([run.settings[key] for key in ("encoder", "projection", "augmentation")])
        speed += repr([training[key] for key in ("batch_size", "threads", "device")])
        if speed in seen:
            continue
        seen.add(speed)
        run = type(run)(run.study, run.dataset, run.objective, 10**6, run.settings)  # a seed that no study asks for
        identifier = run_id(run, source.checksum)
        record = run.to_json() | {"id": identifier, "source": {"name": source.name, "checksum": source.checksum}}
        record |= {"seconds": 1.0, "views": 1000, "images": 100, "attempts": []}
        record |= dict.fromkeys(("commit", "device", "finished"), "-")
        record |= {"machine": {"host": "-", "system": "-"}, "versions": {}, "code": {"versions": {}, "files": {}}}
        folder = store / identifier
        folder.mkdir(exist_ok=True)
        (folder / "run.json").write_text(json.dumps(record))


def checked(configuration: Mapping[str, Any], folder: Path) -> int:
    """``trueneg check`` of the configuration, and if that is content, the plan that Snakemake would make; the exit code."""
    path = folder / "study.yaml"
    path.write_text(yaml.dump(dict(configuration), Dumper=yaml.CSafeDumper), encoding="utf-8")
    code = main(["check", str(path), "--results", str(folder / "results")])
    if code == 0:
        _planned(load_configuration(yaml.safe_load(path.read_text(encoding="utf-8")), "study.yaml"))
    return code


def _planned(configuration: Configuration) -> None:
    configuration.resolved()
    Trainings(configuration).each_block("results/{study}/manifests/{dataset}/{objective}/{block}.json")
    for study in configuration.studies.values():
        registry.figures_by_name(study)
        registry.tables_by_name(study)
