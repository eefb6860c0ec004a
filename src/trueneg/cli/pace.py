"""Seconds of an update, by kind of run: of finished runs, or measured by ``trueneg check --time``
and kept in the results folder.
"""

import functools
import json
import pkgutil
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trueneg.cli.planned_data import PlannedData
from trueneg.cli.planned_networks import TowerPace
from trueneg.config.runs import Run, features_key, frozen_towers
from trueneg.data.stored_features import StoredFeatures
from trueneg.io.downloads import announced
from trueneg.io.files import write_text
from trueneg.runtime.memory import catch_out_of_memory, smaller_batch
from trueneg.specs.kinds import kind_of
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.sections import RunSettings, Section
from trueneg.store.identity import model_of
from trueneg.store.records import read_json
from trueneg.store.run_store import RunStore

MEASURED_UPDATES = 3
ENCODERS = {"encoder", "text_encoder", "positive_encoder"}
AGAIN = "Delete it; `trueneg check --time` measures again."


class Pace(NamedTuple):
    """Seconds of an update, the device it ran on, and where this is known from."""

    seconds: float
    device: str
    origin: str


class Paces:
    """The paces of all kinds of runs that finished in a results folder or were measured.

    Args:
        results: results folder, which may be shared by several machines.
        measures: measure a few updates of each other kind, and keep the result; those of runs on
            frozen towers, which are quick, are always measured.

    Attributes:
        towers: the paces of towers, by the names of their vectors.

    Raises:
        UserError: if the file with what was measured is damaged.
    """

    FILE = "pace.json"

    def __init__(self, results: Path, measures: bool = False):
        self.towers: Mapping[str, TowerPace] = {}
        self._results = results
        self._measures = measures
        self._path = results / self.FILE
        self._all: dict[str, dict[str, Any]] = (
            read_json(self._path, dict, AGAIN) if self._path.is_file() else {}
        )
        self._measured = self._all.setdefault(platform.node(), {})

    @functools.cached_property
    def _finished(self) -> dict[str, Pace]:
        """The pace of each kind of finished run; read only if runs are missing."""
        paces = {}
        for record in RunStore(self._results / "runs").records().values():
            if updates := updates_of(record["settings"], record["images"]):
                device = record.get("device", "cpu")
                seconds = record["seconds"]
                if device == "cpu":  # other jobs of a busy machine do not count
                    seconds = record.get("cpu_seconds", seconds)
                paces[speed_key(record["settings"])] = Pace(
                    seconds / updates, device, "finished runs"
                )
        return paces

    def of(self, run: Run, data: PlannedData) -> Pace | None:
        """Return the pace of a run; None if none of its kind is known, nor can be measured yet: its
        data must exist, the vectors of frozen towers or their pace, and the device it asks for.
        """
        kind = speed_key(run.settings)
        if kind in self._finished:
            return self._finished[kind]
        frozen = frozen_towers(run.settings).keys()
        is_quick = frozen & ENCODERS
        measures = self._measures or is_quick
        # images that were only opened have no pixels yet, which frozen towers do not need
        is_known = data.checksum is not None or (
            data.subset is not None and ENCODERS & run.settings.keys() <= frozen
        )
        if measures and kind not in self._measured and is_known:
            if (measured := _measured_update(run, data, self.towers)) is None:
                return None
            self._measured[kind] = measured
            if self._measures:
                write_text(self._path, json.dumps(self._all, indent=1))
        if kind not in self._measured:
            return None
        seconds, device = self._measured[kind]
        return Pace(seconds, device, "measured updates")


def updates_of(settings: RunSettings, samples: float) -> float:
    """Return the number of updates of a run with this many samples an epoch; 0: it trains
    nothing.
    """
    training = settings["training"]
    count = training["updates"] or (training["epochs"] or 0) * samples / training["batch_size"]
    return 0.0 if settings["objective"]["name"] in NOT_TRAINED else count


def speed_key(settings: RunSettings) -> str:
    """Return a key of the settings that determine a run's speed."""
    networks = [
        settings.get(section)
        for section in ("encoder", "text_encoder", "projection", "augmentation")
    ]
    data = [settings["dataset"].get(key) for key in ("source", "path", "resolution")]
    training = [
        settings["training"].get(key, 1) for key in ("batch_size", "threads", "device", "devices")
    ]
    return repr((networks, data, training))


def _measured_update(
    run: Run, data: PlannedData, towers: Mapping[str, TowerPace]
) -> tuple[float, str] | None:
    """Return the seconds of an update of a run, and the device. Random vectors stand for those of
    frozen towers.
    """
    import torch

    from trueneg.runtime.devices import choose_device
    from trueneg.runtime.distributed import ALONE

    settings = run.settings
    is_absent = settings["training"]["device"] == "cuda" and not torch.cuda.is_available()
    frozen = _random_vectors(settings, data, towers)
    if is_absent or frozen is None:
        return None
    torch.set_num_threads(settings["training"]["threads"])
    device = choose_device(settings["training"]["device"])
    # other jobs of a busy machine do not count
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    # needs no class probabilities
    objective: Any = model_of({**settings, "objective": {"name": "cl"}}, "objective")
    training_class = pkgutil.resolve_name(kind_of(settings).TRAINING)
    out_of_memory = catch_out_of_memory(
        f"{run.study}, {run.objective}", smaller_batch(settings["training"]["batch_size"])
    )
    with announced([]), out_of_memory:
        for updates in (1, MEASURED_UPDATES):  # the first is slower
            section = {"updates": updates, "epochs": None, "warmup_updates": 0}
            short = {
                **settings,
                "training": {**settings["training"], **section},
                "objective": objective(name="cl").model_dump(),
            }
            started = training_class(
                short, run.seed, data.source, data.subset, device, ALONE, frozen
            )
            began = clock()
            while started.epoch * started.updates_per_epoch < updates:
                started.train_epoch()
            seconds = clock() - began
    return seconds / updates, device.type


def _random_vectors(
    settings: RunSettings, data: PlannedData, towers: Mapping[str, TowerPace]
) -> Any:
    """Return the user's vectors, and random ones of the shape that those of a run's frozen towers
    have; None if it is not known.
    """
    from trueneg.training.frozen import Frozen, vectors_of_file

    stored = {}
    for section, made in frozen_towers(settings).items():
        name = features_key(made)
        count = samples_of(made, data)
        if name not in towers or made.get("regions") == "needed" or not count:
            return None
        if "path" in made["tower"]:
            values = vectors_of_file(made, data.source)
        else:
            shape = (count, 1 + (made["tower"].get("views") or 0), towers[name][1], 1)
            values = np.random.default_rng(0).standard_normal(shape, np.float32)
        stored[section] = StoredFeatures(values, None, "", "")
    rows = {text: row for row, text in enumerate(set(data.sentences))}
    return Frozen(stored, rows)


def samples_of(made_of: Section, data: PlannedData) -> int:
    """Return the number of images or texts that a tower embeds; 0: unknown."""
    if made_of["samples"] == "texts":
        return len(set(data.sentences))
    return len(getattr(data.source, "images", ()))
